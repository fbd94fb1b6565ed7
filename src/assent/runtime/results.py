"""What outside parties send back: handed in by whoever has it, and tried again where a worker gave it up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from assent.evidence.pushing import Pushed, Source, keep_delivery
from assent.evidence.queue import dead_deliveries, revive_deliveries
from assent.model.bundle import Bundle, ResultStatus, read_bundle
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection, Database


@dataclass
class Results:
    database: Database

    async def push_result(  # noqa: PLR0913
        self,
        org_id: str,
        request_id: UUID,
        key: str,
        items: Sequence[Mapping[str, Any]] = (),
        *,
        status: ResultStatus = "completed",
        error: str | None = None,
    ) -> Pushed:
        """Hand in what somebody sent for a request; the same key again changes nothing. Raises `Refused`."""
        found = read_bundle({"key": key, "status": status, "items": list(items), "error": error})
        if not isinstance(found, Bundle):
            raise Refused(Rejection.of(found))
        return await self.push_bundle(org_id, request_id, found, "python")

    async def push_bundle(
        self, org_id: str, request_id: UUID, bundle: Bundle, source: Source, pushed_by: str | None = None
    ) -> Pushed:
        """Hand in a bundle that was read at a door."""

        async def work(connection: Connection) -> Pushed:
            pushed = await keep_delivery(connection, request_id, bundle, source, pushed_by)
            if pushed is None:
                raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
            return pushed

        return await self.database.run(work, org_id=org_id)

    async def dead_results(self, org_id: str, limit: int = 100) -> list[Mapping[str, Any]]:
        """The bundles of an org that were given up, newest first."""
        async with self.database.transaction(org_id) as connection:
            return await dead_deliveries(connection, org_id, limit)

    async def retry_result(self, org_id: str, delivery_id: UUID) -> None:
        """Take a bundle in that was given up, with all attempts anew."""

        async def work(connection: Connection) -> None:
            if not await revive_deliveries(connection, org_id, self.database.clock.now(), delivery_id):
                message = f"no dead result {delivery_id}"
                raise Refused(Rejection("NOT_FOUND", message, ("delivery_id",)))

        await self.database.run(work, org_id=org_id)

    async def retry_results(self, org_id: str) -> int:
        """Take every bundle in that was given up; answers how many there were."""

        async def work(connection: Connection) -> int:
            return await revive_deliveries(connection, org_id, self.database.clock.now())

        return await self.database.run(work, org_id=org_id)
