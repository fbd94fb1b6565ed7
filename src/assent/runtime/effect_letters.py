"""Effects that were given up: seen, and tried again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from assent.effects.outbox import dead_letters, revive, was_awaited
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection, Database


@dataclass
class EffectLetters:
    database: Database

    async def dead_effects(
        self, org_id: str, destination: str | None = None, limit: int = 100
    ) -> list[Mapping[str, Any]]:
        """The effects of an org that were given up, or of one destination, newest first."""
        async with self.database.transaction(org_id) as connection:
            return await dead_letters(connection, org_id, destination, limit)

    async def retry_effect(self, org_id: str, effect_id: UUID) -> None:
        """Send a dead letter again, under the key that it had."""

        async def work(connection: Connection) -> None:
            awaited = await was_awaited(connection, org_id, effect_id)
            if awaited is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead effect {effect_id}", ("effect_id",)))
            if awaited:
                message = f"nobody waits for effect {effect_id} any more: its step has failed"
                raise Refused(Rejection("EFFECT_WAS_AWAITED", message, ("effect_id",), hint="retry the step"))
            await revive(connection, org_id, effect_id)

        await self.database.run(work, org_id=org_id)

    async def retry_effects(self, org_id: str, destination: str | None = None) -> int:
        """Send every dead letter of an org again, or those of one destination; answers how many there were.

        Those that were awaited stay: their steps are what is tried again.
        """

        async def work(connection: Connection) -> int:
            return await revive(connection, org_id, destination=destination)

        return await self.database.run(work, org_id=org_id)
