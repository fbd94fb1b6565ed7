"""A transaction that is under way, as a database: whatever is run in it commits or rolls back with it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from assent.model.actor import By
from assent.store.commit import CommitProof
from assent.store.connect import Connection
from assent.store.database import Database, Isolation, Plans

T = TypeVar("T")


class CallerDatabase(Database):
    """The caller's transaction for one org. Each piece of work has a savepoint, so that its failure undoes it alone.

    Nothing is run again here: what loses against others loses the whole transaction, and that is its owner's to repeat.
    Who acts was said when it began.
    """

    def __init__(self, database: Database, connection: Connection, org_id: str) -> None:
        super().__init__(database._pool, database.url, database.settings, database.clock)
        self.connection = connection
        self._org_id = org_id
        self.audit_ids: list[UUID] = []
        """Audit entries that work in it wrote: each is a proof of the commit of the whole."""

    @property
    def is_joined(self) -> bool:
        return True

    @asynccontextmanager
    async def transaction(  # noqa: PLR0913
        self,
        org_id: str | None,
        *,
        isolation: Isolation = "read_committed",
        plans: Plans = "fresh",
        by: By | None = None,
        proof: CommitProof | None = None,
        read_only: bool = False,
    ) -> AsyncIterator[Connection]:
        if org_id != self._org_id:
            raise ValueError(
                f"expected work for org {self._org_id!r}, which the transaction is for, found {org_id!r}"
            )
        async with self.connection.transaction():
            yield self.connection

    async def run(  # noqa: PLR0913
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        org_id: str | None,
        attempts_max: int | None = None,
        isolation: Isolation = "read_committed",
        plans: Plans = "fresh",
        by: By | None = None,
        proof: CommitProof | None = None,
    ) -> T:
        async with self.transaction(org_id) as connection:
            result = await work(connection)
        if proof is not None and proof.audit_id is not None:
            self.audit_ids.append(proof.audit_id)
        return result
