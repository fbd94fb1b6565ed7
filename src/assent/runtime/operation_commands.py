"""Commands of operators: repair an instance, and retry dead letters of all queues.

An instance is rebuilt from its steps, compared with them, or given to a worker again. Steps are the truth (WF-15):
whatever happened to an instance's row, folding its steps gives it back. Dead letters are events, effects, tasks and
results whose attempts are used up.
"""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from assent.definitions import Definition, Move, Pin
from assent.definitions.check import compare_contracts
from assent.engine.evolve import fold
from assent.engine.inputs import Repin, RetryInstance
from assent.engine.instance import Instance
from assent.jobs.dead_letters import discard, revive, revive_all
from assent.jobs.job import JOB_KINDS, JobKind
from assent.model.actor import SYSTEM, Authority
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, position_of, require_limit, texts_in
from assent.model.ids import Cursor, new_id
from assent.model.mutation import Event, Refused, Rejection
from assent.model.names import require_name
from assent.operations.health import Health, HealthLimits, StuckInstance, find_stuck, health
from assent.operations.incidents import (
    Incident,
    IncidentFilter,
    IncidentGroup,
    group_rows,
    incident_rows,
    merge_groups,
    ways_out_of,
)
from assent.operations.nodes import FleetNode, NodePosition, list_nodes
from assent.operations.queues import DeadLetter, LetterKind, is_letter_of, page_of_dead_letters
from assent.outbox.events import emit_events
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.event_inputs import ON_POKE
from assent.runtime.load import pin_of
from assent.runtime.readers import find_instance_row
from assent.runtime.rights import may_operate, require_capability
from assent.runtime.rows import instance_from, projection_row, step_from
from assent.runtime.write import settle_deferred_events
from assent.store.database import Connection, Database
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

READ_HEALTH: Final = "operations:read"
"""The capability to read the health of the org."""
STILL_FOR: Final = timedelta(minutes=15)
REASON_CHARACTERS_MAX: Final = 2_000


def host_and_id_in(place: Any) -> NodePosition:
    """Return the position that a cursor of a list of processes holds."""
    host, node_id = texts_in(place)
    return host, id_in(node_id)


DefinitionVersion = tuple[UUID, int, str]
"""The id, the version and the hash of a definition."""


@dataclass(frozen=True, slots=True)
class OperationCommands:
    """Repairs of the instances of an org, for operators. The caller checks that the actor may make them."""

    scope: OrgScope

    async def rebuild(self, instance_id: UUID) -> bool:
        """Fold an instance's steps into its projection; return whether that changed it. Takes `workflows:repair`."""
        scope = self.scope
        may_operate(scope.actor_or_system, "repair")

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
        """Return the instance as it is kept, and as its steps make it; where they differ, it is corrupt (WF-15).

        Takes `workflows:repair`.
        """
        database = self.scope.database
        may_operate(self.scope.actor_or_system, "repair")
        async with database.transaction(
            self.scope.org_id, isolation="repeatable_read", read_only=True
        ) as connection:
            row = await self._row(connection, instance_id)
            return instance_from(row), await self._fold(connection, row)

    async def compare(self, instance_id: UUID) -> dict[str, tuple[Any, Any]]:
        """Return the parts of an instance that are not what its steps make them, each as kept and as rebuilt.

        Takes the capability `workflows:repair`.
        """
        scope = self.scope

        async def query(connection: Connection) -> dict[str, tuple[Any, Any]]:
            await find_instance_row(scope, connection, instance_id)
            may_operate(scope.actor_or_system, "repair")
            row = await self._row(connection, instance_id)
            return differences_of(instance_from(row), await self._fold(connection, row))

        return await scope.read(query)

    async def stuck(
        self, still_for: timedelta = STILL_FOR, *, limit: int = ITEMS_DEFAULT
    ) -> list[StuckInstance]:
        """Return running instances that nothing will ever continue; takes the capability `workflows:repair`."""
        scope = self.scope
        may_operate(scope.actor_or_system, "repair")

        async def query(connection: Connection) -> list[StuckInstance]:
            return await find_stuck(connection, scope.org_id, still_for, limit, scope.partition_id)

        return await scope.read(query)

    async def health(self) -> Health:
        """Return queues, latency, what is stuck, paused or dead, and what is wrong; takes `operations:read`.

        What is wrong names contracts of this application that differ from the published ones.
        """
        scope = self.scope
        require_capability(scope.actor_or_system, READ_HEALTH)
        found = await health(scope.database, scope.org_id, HealthLimits(), partition_id=scope.partition_id)
        async with scope.database.transaction(None, read_only=True) as connection:
            differences = await compare_contracts(connection, scope.core.kernel.registry.contracts)
        return replace(found, problems=(*found.problems, *differences))

    async def reenqueue(self, instance_id: UUID) -> None:
        """Have a worker look at the instance again: whatever is ready in it goes on. Takes `workflows:repair`."""
        scope, actor = self.scope, self.scope.actor_or_system
        may_operate(actor, "repair")
        now = scope.database.clock.now()
        cause = new_id(now)
        payload = {"cause": str(cause), "actor": actor.id, "authority": Authority.of(actor).to_json()}
        event = Event(scope.org_id, cause, ON_POKE, payload, instance_id)

        async def work(transaction: CommandTransaction) -> None:
            await find_instance_row(scope, transaction.connection, instance_id)
            await emit_events(transaction.connection, [event], now)
            await transaction.note(
                "instance", "workflow.reenqueue", str(instance_id), instance_id=instance_id
            )

        await scope.write(work)

    async def nodes(self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT) -> ItemPage[FleetNode]:
        """Return a page of the processes of the fleet, of all orgs; those that were lost are listed for a day.

        Takes the capability `operations:read`.
        """
        scope = self.scope
        after = position_of(cursor, host_and_id_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, READ_HEALTH)

        async def query(connection: Connection) -> ItemPage[FleetNode]:
            found = await list_nodes(connection, after, limit + 1)
            return ItemPage.of(found, limit, lambda node: (node.host, str(node.id)))

        return await scope.read(query)

    async def incidents(self) -> list[IncidentGroup]:
        """Return what waits for an operator, grouped by kind, code, definition and node; the newest group first.

        Takes the capability `workflows:retry`.
        """
        scope = self.scope
        may_operate(scope.required_actor, "retry")
        async with scope.reading() as connection:
            rows = await group_rows(connection, scope.org_id, scope.partition_id)
            names = await self._node_names(connection, rows)
        kept = ("kind", "code", "definition", "number", "first_at", "last_at", "message")
        return merge_groups(
            [
                IncidentGroup(
                    **{name: row[name] for name in kept},
                    node=_named(names, row),
                    examples=tuple(row["examples"]),
                )
                for row in rows
            ]
        )

    async def list_incidents(
        self, wanted: IncidentFilter | None = None, *, after: Cursor | None = None, limit: int = 100
    ) -> list[Incident]:
        """Return incidents one by one, newest first, with the commands that help; of one group, where it is named.

        Takes the capability `workflows:retry`.
        """
        scope, wanted = self.scope, wanted or IncidentFilter()
        may_operate(scope.required_actor, "retry")
        async with scope.reading() as connection:
            nodes = await self._ids_of_node(connection, wanted.node)
            rows = await incident_rows(
                *(connection, scope.org_id, wanted, nodes, after, limit), partition_id=scope.partition_id
            )
            names = await self._node_names(connection, rows)
        kept = (
            "id",
            "kind",
            "code",
            "message",
            "since",
            "what",
            "instance_id",
            "definition",
            "definition_version",
        )
        return [
            Incident(
                **{name: row[name] for name in kept},
                node=_named(names, row),
                ways_out=ways_out_of(row["kind"], row["id"]),
            )
            for row in rows
        ]

    async def _ids_of_node(self, connection: Connection, name: str | None) -> list[str] | None:
        """Return the name of a node with its ids in the definitions of all incidents; None without a name."""
        if name is None:
            return None
        rows = await group_rows(connection, self.scope.org_id, self.scope.partition_id)
        names = await self._node_names(connection, rows)
        return [name, *(row["node"] for row in rows if row["node"] and _named(names, row) == name)]

    async def _node_names(
        self, connection: Connection, rows: Sequence[Row]
    ) -> Mapping[DefinitionVersion, Mapping[str, str]]:
        """Return the names of nodes by their ids, for each definition of these rows that can be loaded."""
        pins = [
            Pin(self.scope.org_id, row["definition_id"], row["definition_version"], row["definition_hash"])
            for row in rows
            if row["definition_id"] is not None
        ]
        loaded = await self.scope.core.definitions.by_id(connection, pins)
        return {
            pin[1:]: {node.id: node.name for node in found.workflow.nodes.values()}
            for pin, found in loaded.items()
            if isinstance(found, Definition)
        }

    async def _row(self, connection: Connection, instance_id: UUID) -> dict[str, Any]:
        work = BatchItem(self.scope.org_id, instance_id)
        row = (await self.scope.core.advancing.loader.read(connection, [work])).instances.get(work.key)
        if row is None or not self.scope.sees(row["partition_id"]):
            raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
        return dict(row)

    async def _fold(self, connection: Connection, row: dict[str, Any]) -> Instance:
        pin = pin_of(row)
        loaded = (await self.scope.core.advancing.loader.definitions.by_id(connection, [pin]))[pin]
        if isinstance(loaded, Rejection):
            raise Refused(loaded)
        await self.scope.core.advancing.loader.load_contracts(connection, [loaded])
        plan = self.scope.core.advancing.loader.plan(loaded)
        rows = await connection.fetch(_SQL.load_steps, row["org_id"], row["id"])
        steps = [step_from(dict(step)) for step in rows]
        return fold(plan, _at_birth(row, [step.entity_version for step in steps]), steps)


def differences_of(kept: Instance, rebuilt: Instance) -> dict[str, tuple[Any, Any]]:
    """Return the parts of an instance that are not what its steps make them."""
    before, after = _parts(kept), _parts(rebuilt)
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def _parts(instance: Instance) -> dict[str, Any]:
    found = {part.name: getattr(instance, part.name) for part in fields(Instance) if part.compare}
    return found | {"tokens": [token.to_json() for token in instance.tokens.values()]}


def _named(names: Mapping[DefinitionVersion, Mapping[str, str]], row: Row) -> str | None:
    """Return the name of a row's node; the incident of an instance has it already."""
    node: str | None = row["node"]
    known = names.get((row["definition_id"], row["definition_version"], row["definition_hash"]), {})
    return known.get(node, node) if node is not None else None


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
        await advancing.advance(connection, works, now, copies=True)

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


@dataclass(frozen=True, slots=True)
class DeadLetterCommands:
    """Commands to the dead letters of an org. All take `workflows:retry`, and to discard one `workflows:repair`."""

    scope: OrgScope

    async def list(
        self,
        kind: LetterKind | None = None,
        *,
        what: str | None = None,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> builtins.list[DeadLetter]:
        """Return dead letters, newest first: of one kind, and of one event type, task type or destination."""
        scope = self.scope
        may_operate(scope.actor_or_system, "retry")
        async with scope.reading() as connection:
            return await page_of_dead_letters(
                connection, scope.org_id, kind, after, limit, partition_id=scope.partition_id, what=what
            )

    async def retry(self, letter_id: UUID, kind: LetterKind | None = None) -> LetterKind:
        """Retry a dead letter with as many attempts as it had; return its kind. Raise `Refused` if there is none."""
        may_operate(self.scope.actor_or_system, "retry")
        if kind != "event" and (found := await self._retry_job(letter_id, kind)) is not None:
            return found
        if kind not in (None, "event"):
            raise Refused(Rejection("NOT_FOUND", f"no dead {kind} {letter_id}", (f"{kind}_id",)))
        await self._retry_event(letter_id)
        return "event"

    async def retry_all(self, kind: LetterKind | None = None, *, what: str | None = None) -> int:
        """Retry every dead letter, of one kind and of one event type, task type or destination; return how many.

        Letters for which a step waited stay dead: the step is what is retried. Each event is retried by itself.
        """
        may_operate(self.scope.actor_or_system, "retry")
        kinds = [each for each in JOB_KINDS if kind in (None, each)]
        jobs = sum([await self._retry_jobs(each, what) for each in kinds])
        return jobs + (await self._retry_events(what) if kind in (None, "event") else 0)

    async def discard(self, letter_id: UUID, reason: str) -> LetterKind:
        """Take a dead letter off the list for good, with a reason; return its kind. Raise `Refused` if there is none.

        Takes the capability `workflows:repair`. An instance that is paused stays so: its own commands help it.
        """
        scope = self.scope
        may_operate(scope.required_actor, "repair")
        require_name(reason, "reason", length_max=REASON_CHARACTERS_MAX)

        async def work(transaction: CommandTransaction) -> LetterKind:
            connection = transaction.connection
            await self._require_visible(connection, letter_id)
            kind: LetterKind | None = await discard(connection, scope.org_id, letter_id)
            if kind is None:
                found = await connection.fetchval(_SQL.discard_event_if_dead, scope.org_id, letter_id)
                if found is None:
                    raise Refused(Rejection("NOT_FOUND", f"no dead letter {letter_id}", ("letter_id",)))
                kind = "event"
            await transaction.note(kind, f"{kind}.discard", str(letter_id), details={"reason": reason})
            return kind

        return await scope.write(work)

    async def _require_visible(self, connection: Connection, letter_id: UUID) -> None:
        """Raise `Refused` for a dead letter of another partition."""
        scope = self.scope
        if scope.partition_id is not None and not await is_letter_of(
            connection, scope.org_id, letter_id, scope.partition_id
        ):
            raise Refused(Rejection("NOT_FOUND", f"no dead letter {letter_id}", ("letter_id",)))

    async def _retry_job(self, job_id: UUID, kind: JobKind | None) -> JobKind | None:
        """Retry a dead effect, result or task; an effect is sent under the key that it had."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> JobKind | None:
            await self._require_visible(transaction.connection, job_id)
            found = await revive(transaction.connection, scope.org_id, job_id, kind)
            if found is not None:
                await transaction.note(found, f"{found}.retry", str(job_id))
            return found

        return await scope.write(work)

    async def _retry_jobs(self, kind: JobKind, lane: str | None) -> int:
        scope = self.scope

        async def work(transaction: CommandTransaction) -> int:
            revived = await revive_all(transaction.connection, scope.org_id, kind, lane, scope.partition_id)
            if revived:
                await transaction.note(kind, f"{kind}.retry", lane or "*", details={f"{kind}s": revived})
            return revived

        return await scope.write(work)

    async def _retry_event(self, event_id: UUID) -> None:
        """Retry the step that failed for an event, or the event itself where no step was recorded."""
        scope, actor = self.scope, self.scope.required_actor
        may_operate(actor, "retry")

        async def work(transaction: CommandTransaction) -> None:
            connection = transaction.connection
            await self._require_visible(connection, event_id)
            instance_id = await connection.fetchval(_SQL.revive_dead_letter, scope.org_id, event_id)
            if instance_id is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead letter {event_id}", ("event_id",)))
            command = RetryInstance(scope.new_id(), actor)
            item = BatchItem(scope.org_id, instance_id, command=command, origin=scope.core.origin)
            await connection.execute(_SQL.lock_instances, [instance_id])
            jobs = await scope.core.advancing.advance(
                connection, [item], scope.database.clock.now(), copies=False
            )
            transaction.proof.audit_id = next((job.audit_id for job in jobs if job.audit_id), None)

        await scope.write(work)

    async def _retry_events(self, what: str | None) -> int:
        count, after = 0, None
        while letters := await self.list("event", what=what, after=after):
            for letter in letters:
                try:
                    await self._retry_event(letter.id)
                except Refused as refused:
                    # Letters of one instance are retried together: the others are gone when their turn comes.
                    if refused.code != "NOT_FOUND" or letter.instance_id is None:
                        raise
                count += 1
            after = letters[-1].created_at, letters[-1].id
        return count
