"""What outside parties send back: handed in by whoever has it, and tried again where a worker gave it up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from assent.audit.write import AuditEntry, write_entries
from assent.jobs.dead_letters import list_dead, revive, revive_all
from assent.model.actor import SYSTEM, Actor
from assent.model.bundle import Bundle, ResultStatus, read_bundle
from assent.model.mutation import Refused, Rejection
from assent.model.origin import Origin
from assent.requests.push import Pushed, Source, push_delivery
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database
from assent.telemetry import current_trace


@dataclass
class Results:
    database: Database
    origin: Origin = field(default=Origin(), init=False)

    async def push_result(  # noqa: PLR0913
        self,
        org_id: str,
        request_id: UUID,
        key: str,
        items: Sequence[Mapping[str, Any]] = (),
        *,
        status: ResultStatus = "completed",
        error: str | None = None,
        actor: Actor | None = None,
    ) -> Pushed:
        """Hand in what somebody sent for a request; the same key again changes nothing. Raises `Refused`.

        Where somebody hands it in, the audit log says who.
        """
        found = read_bundle({"key": key, "status": status, "items": list(items), "error": error})
        if not isinstance(found, Bundle):
            raise Refused(Rejection.of(found))
        return await self.push_bundle(org_id, request_id, found, "python", actor)

    async def push_bundle(
        self, org_id: str, request_id: UUID, bundle: Bundle, source: Source, actor: Actor | None = None
    ) -> Pushed:
        """Hand in a bundle that was read at a door."""
        proof = CommitProof()

        async def work(connection: Connection) -> Pushed:
            by = actor.id if actor is not None else None
            pushed = await push_delivery(connection, request_id, bundle, source, by)
            if pushed is None:
                raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
            if actor is not None and pushed != "repeated":
                about = (org_id, actor, "result.push", str(request_id))
                proof.audit_id = await self._note(connection, *about, key=bundle.key)
            return pushed

        return await self.database.run(work, org_id=org_id, proof=proof)

    async def dead_results(self, org_id: str, limit: int = 100) -> list[Mapping[str, Any]]:
        """The bundles of an org that were given up, newest first."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            return await list_dead(connection, org_id, "result", None, limit)

    async def retry_result(self, org_id: str, delivery_id: UUID, actor: Actor = SYSTEM) -> None:
        """Take a bundle in that was given up, with all attempts anew."""
        proof = CommitProof()

        async def work(connection: Connection) -> None:
            if await revive(connection, org_id, delivery_id, "result") is None:
                message = f"no dead result {delivery_id}"
                raise Refused(Rejection("NOT_FOUND", message, ("delivery_id",)))
            proof.audit_id = await self._note(connection, org_id, actor, "result.retry", str(delivery_id))

        await self.database.run(work, org_id=org_id, proof=proof)

    async def retry_results(self, org_id: str, actor: Actor = SYSTEM) -> int:
        """Take every bundle in that was given up; answers how many there were."""
        proof = CommitProof()

        async def work(connection: Connection) -> int:
            revived = await revive_all(connection, org_id, "result")
            if revived:
                about = (org_id, actor, "result.retry", "*")
                proof.audit_id = await self._note(connection, *about, results=revived)
            return revived

        return await self.database.run(work, org_id=org_id, proof=proof)

    async def _note(
        self, connection: Connection, org_id: str, actor: Actor, action: str, which: str, **details: Any
    ) -> UUID:
        """A result by its request or its delivery, or all that there are."""
        note = AuditEntry(org_id, actor, action, "result", which, self.origin, details, trace=current_trace())
        (audit_id,) = await write_entries(connection, [note], self.database.clock.now())
        return audit_id
