"""Commands of operators: rebuild an instance from its steps, compare it with them, have a worker look at it again.

Steps are the truth (WF-15): whatever happened to an instance's row, folding its steps gives it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from assent.definitions import Move
from assent.engine.evolve import fold
from assent.engine.inputs import Repin
from assent.engine.instance import Instance
from assent.model.actor import SYSTEM, Authority
from assent.model.ids import new_id
from assent.model.mutation import Event, Refused, Rejection
from assent.outbox.events import emit_events
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.event_inputs import ON_POKE
from assent.runtime.load import pin_of
from assent.runtime.rows import instance_from, projection_row, step_from
from assent.runtime.write import settle_deferred_events
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


@dataclass(frozen=True, slots=True)
class OperationCommands:
    """Repairs of the instances of an org, for operators. The caller checks that the actor may make them."""

    scope: OrgScope

    async def rebuild(self, instance_id: UUID) -> bool:
        """Fold an instance's steps into its projection; return whether that changed it."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> bool:
            connection = transaction.connection
            await connection.execute(_SQL.lock_instances, [instance_id])
            row = await self._row(connection, instance_id)
            current = instance_from(row)
            rebuilt = await self._fold(connection, row)
            await transaction.note("instance", "workflow.rebuild", str(instance_id), instance_id=instance_id)
            if rebuilt == current:
                return False
            now = scope.database.clock.now()
            await connection.execute(
                _SQL.overwrite_projection, [projection_row(rebuilt, now) | {"context_json": rebuilt.context}]
            )
            await settle_deferred_events(connection, [rebuilt], now)
            return True

        return await scope.write(work)

    async def fold(self, instance_id: UUID) -> tuple[Instance, Instance]:
        """Return the instance as it is kept, and as its steps make it; where they differ, it is corrupt (WF-15)."""
        database = self.scope.database
        async with database.transaction(
            self.scope.org_id, isolation="repeatable_read", read_only=True
        ) as connection:
            row = await self._row(connection, instance_id)
            return instance_from(row), await self._fold(connection, row)

    async def reenqueue(self, instance_id: UUID) -> None:
        """Have a worker look at the instance again: whatever is ready in it goes on."""
        scope, actor = self.scope, self.scope.actor_or_system
        now = scope.database.clock.now()
        cause = new_id(now)
        payload = {"cause": str(cause), "actor": actor.id, "authority": Authority.of(actor).to_json()}
        event = Event(scope.org_id, cause, ON_POKE, payload, instance_id)

        async def work(transaction: CommandTransaction) -> None:
            await emit_events(transaction.connection, [event], now)
            await transaction.note(
                "instance", "workflow.reenqueue", str(instance_id), instance_id=instance_id
            )

        await scope.write(work)

    async def _row(self, connection: Connection, instance_id: UUID) -> dict[str, Any]:
        work = BatchItem(self.scope.org_id, instance_id)
        row = (await self.scope.core.advancing.loader.read(connection, [work])).instances.get(work.key)
        if row is None:
            raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
        return dict(row)

    async def _fold(self, connection: Connection, row: dict[str, Any]) -> Instance:
        pin = pin_of(row)
        loaded = (await self.scope.core.advancing.loader.definitions.by_id(connection, [pin]))[pin]
        if isinstance(loaded, Rejection):
            raise Refused(loaded)
        plan = self.scope.core.advancing.loader.plan(loaded)
        rows = await connection.fetch(_SQL.load_steps, row["org_id"], row["id"])
        steps = [step_from(dict(step)) for step in rows]
        return fold(plan, _at_birth(row, [step.entity_version for step in steps]), steps)


async def repin(database: Database, advancing: Advancing, moves: Sequence[Move]) -> None:
    """Move instances to definitions that were compiled again into an equal graph (D31), in one transaction.

    Each gets a control step. An instance that has ended meanwhile stays as it is.
    """

    async def work(connection: Connection) -> None:
        await connection.execute(_SQL.lock_instances, [move.instance_id for move in moves])
        now = database.clock.now()
        works = [
            BatchItem(move.new.org_id, move.instance_id, [Repin(new_id(now), SYSTEM, *move.new[1:])])
            for move in moves
        ]
        await advancing.advance(connection, works, now, as_owner=True)

    await database.run(work, org_id=None)


def _at_birth(row: dict[str, Any], versions: list[int]) -> Instance:
    """Return the instance before its first step: what it was given, and nothing that happened to it."""
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
