"""A PostgreSQL of the benchmark's own, with fsync and synchronous_commit on, gone when it ends."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from assent.store.database import Database
from assent.store.migrate import migrate
from assent.store.settings import Settings


@asynccontextmanager
async def fresh_database(connections: int = 10) -> AsyncIterator[Database]:
    with tempfile.TemporaryDirectory(prefix="assent-bench-") as folder:
        settings = Settings(data_dir=Path(folder) / "postgres", pool_connections_max=connections)
        database = await Database.open(settings=settings)
        try:
            await migrate(database)
            yield database
        finally:
            await database.close()
