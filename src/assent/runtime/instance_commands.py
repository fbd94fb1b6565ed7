"""Commands to instances, and to entities through their instances; what callers may read of both."""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

import asyncpg

from assent.approvals.requests import (
    ApprovalDetails,
    DecisionRecord,
    decisions_of_entity,
    requests_of_instance,
)
from assent.definitions import DefinitionRef
from assent.effects.outbox import effects_of_instance
from assent.engine.inputs import (
    Advance,
    Cancel,
    CancelToken,
    EditVariables,
    ForceFail,
    Pause,
    Resume,
    RetryInstance,
    Skip,
    Start,
)
from assent.kernel import Outcome
from assent.kernel.entities import (
    EntityAuditEntry,
    EntityVersion,
    VersionDifference,
    list_audit,
    list_versions,
    read_two_versions,
)
from assent.kernel.indexes import IndexStatus, read_indexes
from assent.kernel.listing import EntityCounts, EntitySearch, count_entities, list_entities, resolve
from assent.kernel.saved_filters import FilterKey, find_filter
from assent.model.actor import Authority
from assent.model.canonical import canonical_hash
from assent.model.contract import Contract
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, position_of, require_limit, time_and_id_in
from assent.model.entity_filter import EntityFilter, filter_from
from assent.model.ids import new_id
from assent.model.mutation import PARTITION, Command, Entity, Event, Mutation, Refused, Rejection
from assent.model.names import require_name
from assent.outbox.events import emit_events
from assent.runtime.batch import NewInstance
from assent.runtime.commands import KEY_REUSED, check_data, view_of_execution
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.event_inputs import ON_START
from assent.runtime.paths import InstancePath, StepDetails, find_step, may_see_inside, read_path
from assent.runtime.readers import (
    InstanceDetails,
    describe,
    find_readable_entity,
    look_at_run,
    may_read_instance,
    may_read_type,
    names_of_nodes,
    node_names_of,
    read_instance_row,
    reader_of,
)
from assent.runtime.rights import may_start
from assent.runtime.views import (
    InstanceCount,
    InstanceFilter,
    InstanceItem,
    InstanceView,
    StepItem,
    count_instances,
    list_instances,
    list_steps,
)
from assent.store.database import Connection
from assent.store.rows import from_row

T = TypeVar("T")

_STARTED: Final = UUID("5f0f6b0e-6f1a-5d1e-9d0e-2b1c6f9a7c11")
"""The namespace of instances that were started under a key: one key, one id, one lock."""
KEY_CHARACTERS_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class InstanceCommands:
    """Commands to the instances of an org, and what the actor may read of them; without one, the system reads."""

    scope: OrgScope

    async def get(self, instance_id: UUID) -> InstanceDetails:
        """Return an instance with what the actor can do about it; raise `Refused` if the actor may not read it."""
        scope, actor = self.scope, self.scope.actor_or_system

        async def query(connection: Connection) -> InstanceDetails:
            row = await read_instance_row(scope, connection, instance_id)
            found = await describe(scope.core, connection, scope.org_id, instance_id, actor)
            if found is None:
                raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
            effects = await effects_of_instance(
                *(connection, scope.org_id, instance_id, found.node_names),
                with_answers=actor.can("workflows:retry"),
            )
            return InstanceDetails.of(row, found, effects)

        return await scope.read(query)

    async def path(self, instance_id: UUID) -> InstancePath:
        """Return the graph that an instance lives by, and its way on it; raise `Refused` if it is not readable."""
        scope, actor = self.scope, self.scope.actor_or_system

        async def query(connection: Connection) -> InstancePath:
            row = await read_instance_row(scope, connection, instance_id)
            run = await look_at_run(scope.core, connection, scope.org_id, instance_id, actor)
            if run is None:
                raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
            return await read_path(connection, row, run, actor)

        return await scope.read(query)

    async def step(self, instance_id: UUID, taken_id: UUID) -> StepDetails:
        """Return a step of an instance that the actor may read; what it was given and gave takes `workflows:retry`."""
        scope, actor = self.scope, self.scope.actor_or_system

        async def query(connection: Connection) -> StepDetails:
            row = await read_instance_row(scope, connection, instance_id)
            step = await find_step(connection, scope.org_id, instance_id, taken_id)
            if step is None:
                raise Refused(Rejection("NOT_FOUND", f"no step {taken_id}", ("taken_id",)))
            names = await node_names_of(connection, scope.core.definitions, row)
            shown = may_see_inside(actor)
            effects = await effects_of_instance(
                connection, scope.org_id, instance_id, names, with_answers=shown
            )
            own = [effect for effect in effects if effect.step_id == taken_id]
            return StepDetails.of(step, names.get(step["node_id"]), own, shown=shown)

        return await scope.read(query)

    async def approvals(
        self, instance_id: UUID, *, limit: int = ITEMS_DEFAULT
    ) -> builtins.list[ApprovalDetails]:
        """Return the newest approval requests of an instance; raise `Refused` if the actor may not read it."""
        scope = self.scope
        require_limit(limit)

        async def query(connection: Connection) -> builtins.list[ApprovalDetails]:
            await read_instance_row(scope, connection, instance_id)
            return [*await requests_of_instance(connection, scope.org_id, instance_id, limit)]

        return await scope.read(query)

    async def list(  # noqa: PLR0913
        self,
        *,
        statuses: Sequence[str] | None = None,
        workflow: str | None = None,
        subject: str | None = None,
        entity_type: str | None = None,
        entity_id: UUID | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[InstanceItem]:
        """Return a page of the instances that the actor may read, newest first; `subject` is who started them."""
        scope = self.scope
        after = position_of(cursor, id_in)
        require_limit(limit)

        async def query(connection: Connection) -> ItemPage[InstanceItem]:
            filters = await self._filter(connection, statuses, workflow, subject, entity_type, entity_id)
            rows = await list_instances(connection, scope.org_id, filters, after, limit + 1)
            places = await names_of_nodes(connection, scope.core.definitions, rows)
            found = [from_row(InstanceItem, row, stands_at=places[row["id"]]) for row in rows]
            return ItemPage.of(found, limit, lambda instance: str(instance.id))

        return await scope.read(query)

    async def count(
        self,
        *,
        statuses: Sequence[str] | None = None,
        workflow: str | None = None,
        subject: str | None = None,
        entity_type: str | None = None,
        entity_id: UUID | None = None,
    ) -> InstanceCount:
        """Return how many instances of a list there are that the actor may read; exact up to 10,000."""

        async def query(connection: Connection) -> InstanceCount:
            filters = await self._filter(connection, statuses, workflow, subject, entity_type, entity_id)
            return await count_instances(connection, self.scope.org_id, filters)

        return await self.scope.read(query)

    async def _filter(  # noqa: PLR0913, PLR0917
        self,
        connection: Connection,
        statuses: Sequence[str] | None,
        workflow: str | None,
        subject: str | None,
        entity_type: str | None,
        entity_id: UUID | None,
    ) -> InstanceFilter:
        scope = self.scope
        reader = await reader_of(scope.core, connection, scope.org_id, scope.actor_or_system)
        by = (statuses, workflow, subject, entity_id, scope.partition_id)
        return InstanceFilter(*by, reader=reader, entity_type=entity_type)

    async def history(
        self, instance_id: UUID, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT
    ) -> ItemPage[StepItem]:
        """Return a page of the steps of an instance, newest first; raise `Refused` if the actor may not read it."""
        scope = self.scope
        after = position_of(cursor, time_and_id_in)
        require_limit(limit)

        async def query(connection: Connection) -> ItemPage[StepItem]:
            await read_instance_row(scope, connection, instance_id)
            rows = await list_steps(connection, scope.org_id, instance_id, after, limit + 1)
            found = [StepItem.of(row) for row in rows]
            return ItemPage.of(found, limit, lambda step: (step.at.isoformat(), str(step.id)))

        return await scope.read(query)

    async def start(
        self, flow: str, data: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> InstanceView:
        """Start a flow. The same key again returns the instance that it started before.

        A key stands for its flow and input for good, in the whole org or in its partition: with another flow or input
        it is refused, and so it is after the instance was deleted, or to an actor who may not read the instance.
        """
        scope, actor = self.scope, self.scope.required_actor
        require_name(flow, "flow")
        if idempotency_key is not None:
            require_name(idempotency_key, "idempotency_key", length_max=KEY_CHARACTERS_MAX)
        data = check_data(data)
        key = _in_partition(scope.partition_id, idempotency_key)
        birth = NewInstance(
            DefinitionRef(scope.org_id, "flow", flow),
            actor.id,
            partition_id=scope.partition_id,
            idempotency_key=key,
            request_hash=canonical_hash({"flow": flow, "data": data}) if key is not None else None,
        )
        instance_id = scope.new_id() if key is None else _started_under(scope.org_id, key)
        command = Start(scope.new_id(), actor, data)
        job = await scope.execute("instance", instance_id, command, birth=birth)
        view = view_of_execution(job)
        if not job.is_new and view.subject_id != actor.id:
            await self._require_readable(view)
        return view

    async def _require_readable(self, view: InstanceView) -> None:
        """Raise `Refused` if a key of another actor's start leads to an instance that the actor may not read."""
        async with self.scope.database.transaction(view.org_id) as connection:
            try:
                await may_read_instance(self.scope.core, connection, view, self.scope.required_actor)
            except Refused:
                raise Refused(KEY_REUSED) from None

    async def start_many(self, flow: str, inputs: Sequence[Mapping[str, Any]]) -> builtins.list[UUID]:
        """Start a flow for each input, in the background; return the ids that the instances will have."""
        scope, actor = self.scope, self.scope.required_actor
        require_name(flow, "flow")
        now = scope.database.clock.now()
        ids = [new_id(now) for _ in inputs]
        known = [check_data(data) for data in inputs]

        async def work(transaction: CommandTransaction) -> None:
            granted = await self._may_start(transaction.connection, flow)
            authority = Authority.of(actor).to_json()
            payload = {"flow": flow, "actor": actor.id, "authority": authority, "granted": granted}
            if scope.partition_id is not None:
                payload[PARTITION] = scope.partition_id
            events = [
                Event(
                    scope.org_id,
                    new_id(now),
                    ON_START,
                    {**payload, "cause": str(instance_id), "data": dict(data)},
                    instance_id,
                )
                for instance_id, data in zip(ids, known, strict=True)
            ]
            await emit_events(transaction.connection, events, now)

        await scope.write(work)
        return ids

    async def _may_start(self, connection: Connection, flow: str) -> bool:
        """Return whether the start is granted; a flow that cannot be loaded yet is checked when it starts."""
        try:
            definition = await self.scope.core.definitions.for_flow(connection, self.scope.org_id, flow)
        except Refused:
            return False
        may_start(definition.workflow, self.scope.required_actor)
        return True

    async def advance(
        self,
        instance_id: UUID,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        step: str | None = None,
    ) -> InstanceView:
        """Answer a step that rests, or make a transition of the entity."""
        scope = self.scope
        command = Advance(scope.new_id(), scope.required_actor, event, check_data(data), step)
        return await scope.run_command(instance_id, command)

    async def cancel(self, instance_id: UUID, reason: str) -> InstanceView:
        scope = self.scope
        return await scope.run_command(instance_id, Cancel(scope.new_id(), scope.required_actor, reason))

    async def pause(self, instance_id: UUID, reason: str = "") -> InstanceView:
        scope = self.scope
        return await scope.run_command(instance_id, Pause(scope.new_id(), scope.required_actor, reason))

    async def resume(self, instance_id: UUID) -> InstanceView:
        scope = self.scope
        return await scope.run_command(instance_id, Resume(scope.new_id(), scope.required_actor))

    async def retry(self, instance_id: UUID, step: str | None = None) -> InstanceView:
        """Retry the steps of an instance that failed, or one of them."""
        scope = self.scope
        return await scope.run_command(instance_id, RetryInstance(scope.new_id(), scope.required_actor, step))

    async def skip(self, instance_id: UUID, step: str, edge: str, reason: str = "") -> InstanceView:
        """Leave a step by a named edge without finishing it; for administrators."""
        scope = self.scope
        command = Skip(scope.new_id(), scope.required_actor, step, edge, reason)
        return await scope.run_command(instance_id, command)

    async def cancel_token(self, instance_id: UUID, token: str, reason: str = "") -> InstanceView:
        scope = self.scope
        command = CancelToken(scope.new_id(), scope.required_actor, token, reason)
        return await scope.run_command(instance_id, command)

    async def edit_variables(
        self, instance_id: UUID, variables: Mapping[str, Any], reason: str = ""
    ) -> InstanceView:
        """Set variables of a paused instance; each keeps its JSON type. Takes the capability `workflows:repair`.

        The actor becomes an originator, and approves nothing of the instance after that.
        """
        scope = self.scope
        data = check_data(variables)
        command = EditVariables(scope.new_id(), scope.required_actor, data, tuple(sorted(data)), reason)
        return await scope.run_command(instance_id, command)

    async def force_fail(self, instance_id: UUID, reason: str) -> InstanceView:
        """End an instance as failed, with everything that is open in it."""
        scope = self.scope
        return await scope.run_command(instance_id, ForceFail(scope.new_id(), scope.required_actor, reason))


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one entity, as the caller asks for it."""

    action: str
    """`<entity type>.<verb>`, such as `invoice.update`."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    entity_id: UUID | None = None
    """The entity; for `create` the id that the new entity gets, fresh when absent."""
    _: KW_ONLY
    expected_version: int | None = None
    """Refuse unless the entity is at this version."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EntityCommands:
    """Commands to the entities of an org, and what the actor may read of them; without one, the system reads.

    A read that names the type of an entity refuses an entity of another type.
    """

    scope: OrgScope

    async def get(self, entity_id: UUID, *, entity_type: str | None = None) -> Entity:
        """Return an entity at its current version; raise `Refused` if the actor may not read it."""

        async def query(connection: Connection, entity: Entity) -> Entity:
            return entity

        return await self._read(entity_id, entity_type, query)

    async def list(
        self,
        entity_type: str,
        filter: EntityFilter | None = None,
        *,
        saved: str | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[Entity]:
        """Return a page of the entities of a type, the newest first or as the filter says, each with its content.

        `saved` is the name of a saved filter, in place of one.

        Raise `Refused` with every problem of the filter. A page may be short and have a next one, since it looks at a
        bounded number of entities.
        """
        require_limit(limit)

        async def query(connection: Connection, search: EntitySearch) -> ItemPage[Entity]:
            return await list_entities(connection, search, cursor, limit)

        return await self._search(entity_type, filter, saved, query)

    async def count(
        self, entity_type: str, filter: EntityFilter | None = None, *, saved: str | None = None
    ) -> EntityCounts:
        """Return how many entities of a type fit a filter, in all and by state.

        A count is exact up to 10,000; with `more` there are more than it says, or may be.
        """
        states = self._contract(entity_type).lifecycle.states

        async def query(connection: Connection, search: EntitySearch) -> EntityCounts:
            return await count_entities(connection, search, [*states])

        return await self._search(entity_type, filter, saved, query)

    async def contract(self, entity_type: str) -> Contract:
        """Return the contract of a type, by which people read its entities."""
        may_read_type(self.scope, entity_type)
        return self._contract(entity_type)

    async def indexes(self, entity_type: str) -> builtins.list[IndexStatus]:
        """Return the indexes of a type that are published, and how far they are built."""
        may_read_type(self.scope, entity_type)

        async def query(connection: Connection) -> builtins.list[IndexStatus]:
            return (await read_indexes(connection, entity_type)).statuses

        return await self.scope.read(query)

    async def _search(
        self,
        entity_type: str,
        wanted: EntityFilter | None,
        saved: str | None,
        query: Callable[[Connection, EntitySearch], Awaitable[T]],
    ) -> T:
        """Return what a query finds with a filter, for an actor who may read the type."""
        scope, contract, asked = self.scope, self._contract(entity_type), wanted or EntityFilter()
        if saved is not None and asked != EntityFilter():
            message = "a saved filter takes the place of every other part of a filter"
            raise Refused(Rejection("BAD_FILTER", message, ("saved",)))

        async def search(connection: Connection) -> T:
            if saved is None:
                resolved = await resolve(connection, contract, asked)
            else:
                key = FilterKey(scope.org_id, entity_type, saved, scope.actor_or_system.id)
                found = await find_filter(connection, key)
                resolved = await resolve(connection, contract, filter_from(found.filter))
            by = EntitySearch(scope.org_id, entity_type, scope.partition_id, resolved)
            return await query(connection, by)

        return await scope.read(search)

    def _contract(self, entity_type: str) -> Contract:
        """Return the contract of a type that the actor may read."""
        may_read_type(self.scope, entity_type)
        return self.scope.core.kernel.registry.contracts[entity_type]

    async def versions(
        self,
        entity_id: UUID,
        *,
        entity_type: str | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[EntityVersion]:
        """Return a page of the versions of an entity, newest first, each with its whole content."""
        require_limit(limit)

        async def query(connection: Connection, entity: Entity) -> ItemPage[EntityVersion]:
            return await list_versions(connection, entity.org_id, entity_id, cursor, limit)

        return await self._read(entity_id, entity_type, query)

    async def compare(
        self, entity_id: UUID, first: int, second: int, *, entity_type: str | None = None
    ) -> VersionDifference:
        """Return the fields in which two versions of an entity differ, and the state if it does."""

        async def query(connection: Connection, entity: Entity) -> VersionDifference:
            found = await read_two_versions(connection, entity.org_id, entity_id, first, second)
            if missing := {first, second} - found.keys():
                message = f"no version {min(missing)} of {entity_id}"
                raise Refused(Rejection("NOT_FOUND", message, ("path",)))
            return VersionDifference.between(found[first], found[second])

        return await self._read(entity_id, entity_type, query)

    async def audit(
        self,
        entity_id: UUID,
        *,
        entity_type: str | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[EntityAuditEntry]:
        """Return a page of the audit entries of an entity, newest first."""
        require_limit(limit)

        async def query(connection: Connection, entity: Entity) -> ItemPage[EntityAuditEntry]:
            return await list_audit(connection, entity.org_id, entity_id, cursor, limit)

        return await self._read(entity_id, entity_type, query)

    async def decisions(
        self,
        entity_id: UUID,
        *,
        entity_type: str | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[DecisionRecord]:
        """Return a page of the decisions about an entity, oldest first, each with the content that it was about."""
        after = position_of(cursor, time_and_id_in)
        require_limit(limit)

        async def query(connection: Connection, entity: Entity) -> ItemPage[DecisionRecord]:
            found = await decisions_of_entity(
                connection, entity.org_id, entity_id, after=after, limit=limit + 1
            )
            return ItemPage.of(found, limit, lambda one: (one.decided_at.isoformat(), str(one.decision_id)))

        return await self._read(entity_id, entity_type, query)

    async def _read(
        self,
        entity_id: UUID,
        entity_type: str | None,
        query: Callable[[Connection, Entity], Awaitable[T]],
    ) -> T:
        """Call a query with an entity that the actor may read; raise `Refused` for every other."""
        scope = self.scope

        async def visible(connection: Connection) -> T:
            entity = await find_readable_entity(scope, connection, entity_id, entity_type)
            return await query(connection, entity)

        return await scope.read(visible)

    async def mutate(
        self,
        action: str,
        payload: Mapping[str, Any] | None = None,
        entity_id: UUID | None = None,
        *,
        expected_version: int | None = None,
        reason: str | None = None,
    ) -> Mutation:
        """Create or change an entity by an action such as `invoice.update`; raise `Refused` if it is rejected."""
        change = Change(action, payload or {}, entity_id, expected_version=expected_version, reason=reason)
        return await self.scope.core.kernel.mutate(self._command(change))

    async def mutate_many(self, changes: Sequence[Change]) -> builtins.list[Outcome]:
        """Make changes in one transaction. A rejected change writes nothing, and the others are made."""
        return await self.scope.core.kernel.mutate_many([self._command(change) for change in changes])

    async def transition(
        self, entity_id: UUID, name: str, data: Mapping[str, Any] | None = None
    ) -> InstanceView:
        """Make a transition of an entity through its instance; after one has ended, through a new one (D18)."""
        scope = self.scope
        command = Advance(scope.new_id(), scope.required_actor, name, check_data(data))
        try:
            return view_of_execution(await scope.execute("entity", entity_id, command))
        except asyncpg.UniqueViolationError:
            # Another command was first to start the next instance; the transition goes to that one.
            return await self.transition(entity_id, name, data)

    def _command(self, change: Change) -> Command:
        scope, origin = self.scope, self.scope.core.origin
        return Command(
            scope.org_id,
            change.action,
            scope.required_actor,
            change.payload,
            change.entity_id,
            expected_version=change.expected_version,
            reason=change.reason or origin.reason,
            place=origin.place,
            channel=origin.channel,
            partition_id=scope.partition_id,
        )


def _started_under(org_id: str, key: str) -> UUID:
    return uuid5(_STARTED, f"{len(org_id)}:{org_id}{key}")


def _in_partition(partition_id: str | None, key: str | None) -> str | None:
    """Return a key as it is kept: one of a partition never meets one of another partition, or of the whole org."""
    return key if key is None or partition_id is None else f"{partition_id}\x1f{key}"
