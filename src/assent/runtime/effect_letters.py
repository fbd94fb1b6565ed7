"""Effects that were given up: seen, and tried again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from assent.audit.write import AuditEntry, write_entries
from assent.jobs.dead_letters import list_dead, revive, revive_all
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused, Rejection
from assent.model.origin import Origin
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database
from assent.telemetry import current_trace


@dataclass
class EffectLetters:
    database: Database
    origin: Origin = field(default=Origin(), init=False)

    async def dead_effects(
        self, org_id: str, destination: str | None = None, limit: int = 100
    ) -> list[Mapping[str, Any]]:
        """The effects of an org that were given up, or of one destination, newest first."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            return await list_dead(connection, org_id, "effect", destination, limit)

    async def retry_effect(self, org_id: str, effect_id: UUID, actor: Actor = SYSTEM) -> None:
        """Send a dead letter again, under the key that it had."""
        proof = CommitProof()

        async def work(connection: Connection) -> None:
            if await revive(connection, org_id, effect_id, "effect") is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead effect {effect_id}", ("effect_id",)))
            proof.audit_id = await self._note_retry(connection, org_id, str(effect_id), actor)

        await self.database.run(work, org_id=org_id, proof=proof)

    async def retry_effects(self, org_id: str, destination: str | None = None, actor: Actor = SYSTEM) -> int:
        """Send every dead letter of an org again, or those of one destination; answers how many there were.

        Those that were awaited stay: their steps are what is tried again.
        """
        proof = CommitProof()

        async def work(connection: Connection) -> int:
            revived = await revive_all(connection, org_id, "effect", destination)
            if revived:
                which = destination or "*"
                proof.audit_id = await self._note_retry(connection, org_id, which, actor, effects=revived)
            return revived

        return await self.database.run(work, org_id=org_id, proof=proof)

    async def _note_retry(
        self, connection: Connection, org_id: str, which: str, actor: Actor, **details: int
    ) -> UUID:
        """An effect by its id, all of a destination by its name, or all there are."""
        trace = current_trace()
        note = AuditEntry(org_id, actor, "effect.retry", "effect", which, self.origin, details, trace=trace)
        (audit_id,) = await write_entries(connection, [note], self.database.clock.now())
        return audit_id
