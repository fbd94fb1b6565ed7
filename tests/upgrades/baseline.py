"""Version 0001, frozen: the schema folder as it was, and a database at work, so that migrations are tested from there.

Until the first release `make baseline` freezes both again after a change of the folder. After that they never change.
"""

import asyncio
import subprocess
from pathlib import Path
from typing import Final

from assent.app import App
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.embedded.programs import wheel_programs
from assent.store.migrate import Migration, load_schema
from tests.authored import END, arrows, form, invoice_contract, script
from tests.postgres import SETTINGS, START, Databases, folder_of_this_run, server_at
from tests.store.moves_sql import write_moves
from tests.world import ANN, FIN, ORG, decide, found_acme_with_invoices, publish_steps, submit_invoice

SCHEMA: Final = Path(__file__).with_name("baseline.sql")
DATA: Final = Path(__file__).with_name("baseline_data.sql")
APP: Final = App([invoice_contract()])


def frozen_schema() -> Migration:
    """Return version 0001 as a step of its own, after which every migration runs."""
    return Migration(1, load_schema().name, SCHEMA.read_text(encoding="utf-8"))


async def play(database: Database) -> None:
    """Leave work unfinished: an approval that one of two has given, flows that wait, an effect, a task, an event."""
    await found_acme_with_invoices(database)
    runtime = APP.runtime(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    steps = [
        script("note"),
        {"id": "tell", "type": "webhook_out", "url": "https://erp.example/orders"},
        {"id": "pay", "type": "wait", "key": "paid:7"},
        form("confirm"),
        END,
    ]
    await publish_steps(database, "orders", steps, arrows("note", "tell", "pay", "confirm", "end"))
    await publish_steps(database, "survey", [form("ask"), END], arrows("ask", "end"))
    await runtime.org(ORG, ANN).instances.start("orders")
    await runtime.org(ORG, ANN).instances.start("survey")
    async with database.transaction(ORG) as connection:
        await connection.execute("SELECT assent.submit_task('report.send', '{\"month\": 3}', 'march')")
        await connection.execute("SELECT assent.emit_event('paid:8', '{\"amount\": 7}', 'bank')")


async def freeze() -> None:
    """Take the present schema folder as version 0001, and what a database holds after `play`."""
    write_moves()
    if SCHEMA.read_text(encoding="utf-8") == load_schema().sql:
        return
    SCHEMA.write_text(load_schema().sql, encoding="utf-8")
    with folder_of_this_run() as folder, server_at(folder / "server") as url:
        async with Databases.on(url) as databases, databases.fresh(await databases.ensure_template()) as copy:
            database = await Database.open(copy, settings=SETTINGS, clock=MovedClock(START))
            await play(database)
            await database.close()
            DATA.write_text(dump(copy), encoding="utf-8")


def dump(url: str) -> str:
    """Return the rows of a database as INSERT statements, which any version of PostgreSQL takes."""
    program = [wheel_programs() / "pg_dump", "--data-only", "--column-inserts", "--load-via-partition-root"]
    # The schema itself fills these; nothing that is played here adds to them.
    filled = ("schema_migrations", "schema_grants", "rejection_codes")
    aside = [f"--exclude-table=assent.{name}" for name in filled]
    done = subprocess.run([*program, *aside, url], capture_output=True, text=True, check=True, timeout=100)
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if line.startswith("INSERT INTO assent."))


if __name__ == "__main__":
    asyncio.run(freeze())
