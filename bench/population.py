"""A database of many orgs with a long history, made by set-based statements: one large org, and many small ones.

Rows are consistent with each other as far as pages and duties read them; no instance of them can be advanced, for its
definition does not exist. At full size (200,000 instances in one org, 1,000,000 in all) it takes minutes.
"""

from dataclasses import dataclass

from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL = load_queries("bench", "population.sql")

LARGE_ORG = "o00000"


@dataclass(frozen=True, slots=True)
class Population:
    """How many instances the large org has, and each of how many small ones."""

    large: int = 200_000
    small: int = 800
    small_orgs: int = 1_000

    @property
    def instances(self) -> int:
        return self.large + self.small * self.small_orgs


async def populate(connection: Connection, size: Population) -> None:
    """Fill the tables that pages and duties read, as their owner."""
    async with connection.transaction():
        await connection.execute(_SQL.create_number)
        await connection.execute(_SQL.create_made, size.large, size.small, size.small_orgs)
        for statement in (
            _SQL.make_instances,
            _SQL.make_steps,
            _SQL.make_events,
            _SQL.make_requests,
            _SQL.make_seats,
            _SQL.make_audit,
        ):
            await connection.execute(statement)
    await connection.execute(_SQL.learn_statistics)
