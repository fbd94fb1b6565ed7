"""Commands to instances, and to entities through their instances."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final
from uuid import UUID, uuid5

import asyncpg

from assent.definitions import DefinitionRef
from assent.engine.inputs import (
    Advance,
    Cancel,
    CancelToken,
    ForceFail,
    Pause,
    Resume,
    RetryInstance,
    Skip,
    Start,
)
from assent.kernel import Outcome
from assent.model.actor import Authority
from assent.model.canonical import canonical_hash
from assent.model.ids import new_id
from assent.model.mutation import Command, Event, Mutation, Refused
from assent.model.names import require_name
from assent.outbox.events import emit_events
from assent.runtime.batch import NewInstance
from assent.runtime.commands import KEY_REUSED, check_data, view_of_execution
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.event_inputs import ON_START
from assent.runtime.readers import may_read_instance
from assent.runtime.rights import may_start
from assent.runtime.views import InstanceView
from assent.store.database import Connection

_STARTED: Final = UUID("5f0f6b0e-6f1a-5d1e-9d0e-2b1c6f9a7c11")
"""The namespace of instances that were started under a key: one key, one id, one lock."""
KEY_CHARACTERS_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class InstanceCommands:
    """Commands to the instances of an org."""

    scope: OrgScope

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

    async def start_many(self, flow: str, inputs: Sequence[Mapping[str, Any]]) -> list[UUID]:
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
    """Commands to the entities of an org."""

    scope: OrgScope

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

    async def mutate_many(self, changes: Sequence[Change]) -> list[Outcome]:
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
