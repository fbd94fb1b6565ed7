"""Whole invoices a second: create, submit, condition, two people side by side, gate, post, end.

The invoice of the library as it is, through the commands that people's clicks would be: two approvals of one version,
consumed by the gate.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from assent import templates
from assent.app import App
from assent.compiler.source import read_source
from assent.definitions import publish_contract, publish_patch
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.store.database import Database
from bench.report import BenchReport, Measurement, progress
from bench.server import fresh_database

ROUNDS = 5
DOCUMENTS = 200
CLIENTS = 8
ORG = "bench"
CLERK = Actor("ann", roles=frozenset({"clerk"}))
INVOICE = {
    "number": "1",
    "vendor_id": "v-9",
    "grand_total": 2_000_000,
    "currency": "EUR",
    "cost_center": "R&D",
}
APPROVERS = {
    "finance": Actor("fin", roles=frozenset({"finance_manager"})),
    "budget": Actor("bea", roles=frozenset({"owner"})),
}
SETTINGS = {"trusted_vendors": [], "budget_owners": {"R&D": "bea"}}

_TEMPLATE = Path(templates.__file__).parent / "invoice_approval"


async def measure() -> BenchReport:
    contract = read_template("contract.yaml")
    app = App([contract])
    app.action("invoice.post", payload={"posted_at": {"type": "datetime", "required": True}})(
        lambda _, payload: {"posted_at": payload["posted_at"]}
    )
    async with fresh_database(connections=CLIENTS + 2) as database:
        await _publish(database, contract)
        runtime = app.runtime(database)
        rates = []
        for number in range(ROUNDS + 1):  # the first round warms caches and plans
            rates.append(await _rate(runtime))
            progress(
                f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {rates[-1]:,.0f} documents/s"
            )
        await _require_posted(database, DOCUMENTS * (ROUNDS + 1))
    case = f"one process, {CLIENTS} clients, {2 + len(APPROVERS)} commands a document"
    return BenchReport("documents", "Whole invoices", [Measurement(case, "documents/s", rates[1:])])


def read_template(name: str) -> Any:
    """Return a file of the invoice of the library."""
    return read_source((_TEMPLATE / name).read_bytes(), name).value(())


async def _publish(database: Database, contract: dict[str, Any]) -> None:
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await publish_contract(connection, contract, SYSTEM, now)
        await publish_patch(connection, ORG, read_template("patch.yaml"), SYSTEM, now)
        await connection.execute(
            "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, 'Bench', $2::jsonb)", ORG, SETTINGS
        )
        await connection.executemany(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ($1, $2, $2, $3)",
            [(ORG, actor.id, list(actor.roles)) for actor in APPROVERS.values()],
        )


async def _rate(runtime: Runtime) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(_client(runtime) for _ in range(CLIENTS)))
    return DOCUMENTS / (time.perf_counter() - started)


async def _client(runtime: Runtime) -> None:
    for _ in range(DOCUMENTS // CLIENTS):
        entity = (await runtime.core.kernel.mutate(Command(ORG, "invoice.create", CLERK, INVOICE))).entity
        view = await runtime.org(ORG, CLERK).entities.transition(entity.id, "submit")
        for waiting in view.waiting:
            assert waiting.request_id is not None
            await runtime.org(ORG, APPROVERS[waiting.name]).approvals.decide(waiting.request_id, "approved")


async def _require_posted(database: Database, expected: int) -> None:
    async with database.transaction(None) as connection:
        found = await connection.fetchval(
            "SELECT count(*) FROM assent.current_entities e JOIN assent.workflow_instances i ON i.entity_id = e.id"
            " WHERE e.state = 'active' AND e.data ? 'posted_at' AND i.status = 'completed'"
        )
    if found != expected:
        raise RuntimeError(f"Expected {expected} posted invoices whose workflow has ended, found {found}")
