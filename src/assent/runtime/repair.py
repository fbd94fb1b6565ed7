"""Repairs for an instance that stands still: rebuild its projection, put it to work again, or fail it.

Steps are the truth (WF-15): whatever happened to an instance's row, folding its steps gives it back.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from assent.audit.write import AuditEntry, write_entries
from assent.definitions import Definition, Pin
from assent.engine.evolve import fold
from assent.engine.inputs import Repin
from assent.engine.instance import Instance
from assent.model.actor import SYSTEM, Actor, Authority
from assent.model.ids import new_id
from assent.model.mutation import Event, Refused, Rejection
from assent.model.origin import Origin
from assent.outbox.emit import emit_events
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem
from assent.runtime.event_inputs import ON_POKE
from assent.runtime.load import pin_of
from assent.runtime.rows import instance_from, step_from
from assent.runtime.write import settle_deferred_events
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database
from assent.store.queries import load_queries
from assent.telemetry import current_trace

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


@dataclass
class Repairs:
    database: Database
    advancing: Advancing
    origin: Origin = field(default=Origin(), init=False)

    async def rebuild(self, org_id: str, instance_id: UUID, actor: Actor = SYSTEM) -> bool:
        """Fold an instance's steps into its projection; true when that changed it."""
        proof = CommitProof()

        async def work(connection: Connection) -> bool:
            await connection.execute(_SQL.lock_instances, [instance_id])
            row = await self._row(connection, org_id, instance_id)
            current = instance_from(row)
            rebuilt = await self._fold(connection, row)
            rebuilding = ("workflow.rebuild", (org_id, instance_id), actor)
            proof.audit_id = await self._note_repair(connection, *rebuilding)
            if rebuilt == current:
                return False
            now = self.database.clock.now()
            await connection.execute(_SQL.overwrite_projection, _projection(rebuilt, now))
            await settle_deferred_events(connection, [rebuilt], now)
            return True

        return await self.database.run(work, org_id=org_id, proof=proof)

    async def folded(self, org_id: str, instance_id: UUID) -> tuple[Instance, Instance]:
        """The instance as it is kept, and as its steps make it; equal, or something is wrong (WF-15)."""
        async with self.database.transaction(
            org_id, isolation="repeatable_read", read_only=True
        ) as connection:
            row = await self._row(connection, org_id, instance_id)
            return instance_from(row), await self._fold(connection, row)

    async def reenqueue(self, org_id: str, instance_id: UUID, actor: Actor = SYSTEM) -> None:
        """Have a worker look at the instance again: whatever is ready in it goes on."""
        now = self.database.clock.now()
        cause = new_id(now)
        event = Event(
            org_id,
            cause,
            ON_POKE,
            {"cause": str(cause), "actor": actor.id, "authority": Authority.of(actor).to_json()},
            instance_id,
        )
        proof = CommitProof()

        async def work(connection: Connection) -> None:
            await emit_events(connection, [event], now)
            reenqueueing = ("workflow.reenqueue", (org_id, instance_id), actor)
            proof.audit_id = await self._note_repair(connection, *reenqueueing)

        await self.database.run(work, org_id=org_id, proof=proof)

    async def repin(self, connection: Connection, pin: Pin, instance_id: UUID, to: Definition) -> None:
        """Pin an instance to an equal graph that was compiled anew (D31), by a control step."""
        await connection.execute(_SQL.lock_instances, [instance_id])
        now = self.database.clock.now()
        given = Repin(new_id(now), SYSTEM, to.id, to.version, to.hash)
        work = BatchItem(pin.org_id, instance_id, [given], definition=to)
        await self.advancing.advance(connection, [work], now, as_owner=True)

    async def _note_repair(
        self, connection: Connection, action: str, place: tuple[str, UUID], actor: Actor
    ) -> UUID:
        org_id, instance_id = place
        note = AuditEntry(
            org_id,
            actor,
            action,
            "instance",
            str(instance_id),
            self.origin,
            instance_id=instance_id,
            trace=current_trace(),
        )
        (audit_id,) = await write_entries(connection, [note], self.database.clock.now())
        return audit_id

    async def _row(self, connection: Connection, org_id: str, instance_id: UUID) -> dict[str, Any]:
        work = BatchItem(org_id, instance_id)
        row = (await self.advancing.loader.read(connection, [work])).instances.get(work.key)
        if row is None:
            raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
        return dict(row)

    async def _fold(self, connection: Connection, row: dict[str, Any]) -> Instance:
        pin = pin_of(row)
        loaded = (await self.advancing.loader.definitions.by_id(connection, [pin]))[pin]
        if isinstance(loaded, Rejection):
            raise Refused(loaded)
        plan = self.advancing.loader.plan(loaded)
        rows = await connection.fetch(_SQL.load_steps, row["org_id"], row["id"])
        steps = [step_from(dict(step)) for step in rows]
        return fold(plan, _at_birth(row, [step.entity_version for step in steps]), steps)


def _at_birth(row: dict[str, Any], versions: list[int]) -> Instance:
    """The instance before its first step: what it was given, and nothing that happened to it."""
    kept = instance_from(row)
    return replace(
        kept,
        entity_version=min(versions, default=0),
        status="running",
        tokens={},
        context={},
        version=0,
        generation=-1,
        chain_length=0,
        incident=None,
    )


def _projection(instance: Instance, now: Any) -> list[dict[str, Any]]:
    return [
        {
            "org_id": instance.org_id,
            "id": instance.id,
            "status": instance.status,
            "active_tokens": [token.to_json() for token in instance.tokens.values()],
            "current_nodes": instance.current_nodes,
            "context_json": instance.context,
            "version": instance.version,
            "generation": instance.generation,
            "chain_length": instance.chain_length,
            "incident": instance.incident,
            "entity_version": instance.entity_version,
            "updated_at": now,
            "completed_at": now if instance.has_ended else None,
        }
    ]
