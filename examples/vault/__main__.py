"""Run the vault: its tables, the HTTP API and a worker, until Ctrl-C."""

import asyncio
from pathlib import Path

import asyncpg

import assent

from . import app


async def set_up() -> None:
    """Bring the database up to date, and create the tables of the index."""
    database = await assent.Database.open()
    try:
        await assent.migrate(database)
        connection = await asyncpg.connect(database.url)
        try:
            await connection.execute(Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"))
        finally:
            await connection.close()
    finally:
        await database.close()


if __name__ == "__main__":
    asyncio.run(set_up())
    app.run(org="acme")
