"""Commands of people and programs: each runs at once, in a transaction of its own, and answers with the new state."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, cast
from uuid import UUID, uuid5

import asyncpg

from assent.audit.write import AuditEntry, write_entries
from assent.definitions import DefinitionRef
from assent.engine.inputs import (
    Advance,
    Cancel,
    CancelToken,
    ForceFail,
    Input,
    Pause,
    Resume,
    RetryInstance,
    Skip,
    Start,
)
from assent.model.actor import Actor, Authority
from assent.model.canonical import NotCanonical, canonical_hash, require_canonical
from assent.model.ids import new_id
from assent.model.mutation import Event, Refused, Rejection
from assent.model.names import require_name
from assent.model.origin import Origin
from assent.outbox.emit import emit_events
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem, Execution, NewInstance
from assent.runtime.event_inputs import ON_START
from assent.runtime.keyed_events import arrival
from assent.runtime.rights import may_operate, may_start
from assent.runtime.targets import ResolvedTarget, Target, find_instances
from assent.runtime.view import InstanceView, view_of
from assent.runtime.watch import Watch, commanding, watching
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database
from assent.store.group_commit import GroupCommit
from assent.store.queries import load_queries
from assent.telemetry import current_trace

if TYPE_CHECKING:
    from assent.runtime.runtime import Runtime

_SQL: Final = load_queries("assent.runtime", "runtime.sql")
_STARTED: Final = UUID("5f0f6b0e-6f1a-5d1e-9d0e-2b1c6f9a7c11")
"""The namespace of instances that were started under a key: one key, one id, one lock."""
KEY_CHARACTERS_MAX: Final = 255
KEY_REUSED: Final = Rejection(
    "IDEMPOTENCY_KEY_REUSED",
    "this key was used for another start",
    ("idempotency_key",),
    hint="a new start needs a new key",
)


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a command; no job where there is no such instance."""

    job: Execution | None


@dataclass
class Commands:
    """What can be asked of instances."""

    database: Database
    advancing: Advancing
    group_commit: GroupCommit[Target, Answered]
    origin: Origin = field(default=Origin(), init=False)
    """By which way its commands come, for the audit log."""

    def via(self, origin: Origin) -> Self:
        """The same, for commands that come by another way."""
        other = copy.copy(self)
        other.origin = origin
        return other

    async def start(  # noqa: PLR0913
        self,
        org_id: str,
        flow: str,
        actor: Actor,
        data: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        partition_id: str | None = None,
    ) -> InstanceView:
        """Start a flow. The same key again answers with the instance that it started before.

        A key stands for its flow and input for good, in the whole org or in its partition: with another one it is
        refused, and so it is after the instance was deleted, or to an actor who may not read the instance.
        """
        now = self.database.clock.now()
        require_name(org_id, "org_id")
        require_name(flow, "flow")
        if idempotency_key is not None:
            require_name(idempotency_key, "idempotency_key", length_max=KEY_CHARACTERS_MAX)
        if partition_id is not None:
            require_name(partition_id, "partition_id")
        data = checked(data)
        key = _in_partition(partition_id, idempotency_key)
        instance_id = uuid5(_STARTED, f"{len(org_id)}:{org_id}{key}") if key is not None else new_id(now)
        birth = NewInstance(
            DefinitionRef(org_id, "flow", flow),
            actor.id,
            partition_id=partition_id,
            idempotency_key=key,
            request_hash=canonical_hash({"flow": flow, "data": data}) if key is not None else None,
        )
        started = Target(org_id, "instance", instance_id, Start(new_id(now), actor, data), birth)
        job = await self.run_job(started)
        view = view_of_job(job)
        if not job.is_new and view.subject_id != actor.id:
            await self._require_readable(view, actor)
        return view

    async def _require_readable(self, view: InstanceView, actor: Actor) -> None:
        """Raise `Refused` where a key of somebody else's start leads to an instance that the actor may not read."""
        from assent.runtime.readers import may_read_instance  # noqa: PLC0415 - readers build on the runtime

        async with self.database.transaction(view.org_id) as connection:
            try:
                await may_read_instance(cast("Runtime", self), connection, view, actor)
            except Refused:
                raise Refused(KEY_REUSED) from None

    async def start_many(
        self, org_id: str, flow: str, actor: Actor, inputs: list[Mapping[str, Any]]
    ) -> list[UUID]:
        """Start a flow for each input, in the background; answers with the ids that the instances will have."""
        require_name(org_id, "org_id")
        require_name(flow, "flow")
        now = self.database.clock.now()
        ids = [new_id(now) for _ in inputs]
        known = [checked(data) for data in inputs]

        async def work(connection: Connection) -> None:
            granted = await self._may_start(connection, org_id, flow, actor)
            authority = Authority.of(actor).to_json()
            payload = {"flow": flow, "actor": actor.id, "authority": authority, "granted": granted}
            events = [
                Event(
                    org_id,
                    new_id(now),
                    ON_START,
                    {**payload, "cause": str(instance_id), "data": dict(data)},
                    instance_id,
                )
                for instance_id, data in zip(ids, known, strict=True)
            ]
            await emit_events(connection, events, now)

        await self.database.run(work, org_id=org_id)
        return ids

    async def _may_start(self, connection: Connection, org_id: str, flow: str, actor: Actor) -> bool:
        """Whether it is granted; what is not there yet, or cannot be loaded, is asked when it starts."""
        try:
            definition = await self.advancing.loader.definitions.for_flow(connection, org_id, flow)
        except Refused:
            return False
        may_start(definition.workflow, actor)
        return True

    async def emit(  # noqa: PLR0913
        self,
        org_id: str,
        key: str,
        data: Any = None,
        *,
        cause: str | None = None,
        actor: Actor | None = None,
        partition_id: str | None = None,
    ) -> bool:
        """Tell whoever waits for a key, or will, that it has come; false when this cause has told it before.

        Where somebody tells it, the audit log says who. With a partition it is for the instances of that one only.
        """
        require_name(org_id, "org_id")
        require_name(key, "key")
        if cause is not None:
            require_name(cause, "cause")
        if partition_id is not None:
            require_name(partition_id, "partition_id")
        checked({"data": data})
        proof = CommitProof()

        async def work(connection: Connection) -> bool:
            now = self.database.clock.now()
            event = arrival(org_id, key, now, cause, partition_id, data=data)
            new = await emit_events(connection, [event], now) == 1
            if new and actor is not None:
                proof.audit_id = await self._note_event(connection, org_id, key, actor, cause)
            return new

        return await self.database.run(work, org_id=org_id, proof=proof)

    async def advance(  # noqa: PLR0913
        self,
        org_id: str,
        instance_id: UUID,
        event: str,
        actor: Actor,
        data: Mapping[str, Any] | None = None,
        *,
        step: str | None = None,
    ) -> InstanceView:
        """Answer a step that rests, or make a transition of the entity."""
        given = Advance(self._id(), actor, event, checked(data), step)
        return await self.run_input(org_id, instance_id, given)

    async def transition(
        self,
        org_id: str,
        entity_id: UUID,
        name: str,
        actor: Actor,
        data: Mapping[str, Any] | None = None,
    ) -> InstanceView:
        """Make a transition of an entity through its instance; after one has ended, through a new one (D18)."""
        given = Advance(self._id(), actor, name, checked(data))
        try:
            return view_of_job(await self.run_job(Target(org_id, "entity", entity_id, given)))
        except asyncpg.UniqueViolationError:
            # Somebody else was first to start the next instance; it is theirs that the transition goes to.
            return await self.transition(org_id, entity_id, name, actor, data)

    async def cancel(self, org_id: str, instance_id: UUID, actor: Actor, reason: str) -> InstanceView:
        return await self.run_input(org_id, instance_id, Cancel(self._id(), actor, reason))

    async def pause(self, org_id: str, instance_id: UUID, actor: Actor, reason: str = "") -> InstanceView:
        return await self.run_input(org_id, instance_id, Pause(self._id(), actor, reason))

    async def resume(self, org_id: str, instance_id: UUID, actor: Actor) -> InstanceView:
        return await self.run_input(org_id, instance_id, Resume(self._id(), actor))

    async def retry(
        self, org_id: str, instance_id: UUID, actor: Actor, step: str | None = None
    ) -> InstanceView:
        return await self.run_input(org_id, instance_id, RetryInstance(self._id(), actor, step))

    async def skip(  # noqa: PLR0913, PLR0917
        self, org_id: str, instance_id: UUID, actor: Actor, step: str, edge: str, reason: str = ""
    ) -> InstanceView:
        """An admin's way past a step, by an edge that is named."""
        return await self.run_input(org_id, instance_id, Skip(self._id(), actor, step, edge, reason))

    async def cancel_token(
        self, org_id: str, instance_id: UUID, actor: Actor, token: str, reason: str = ""
    ) -> InstanceView:
        return await self.run_input(org_id, instance_id, CancelToken(self._id(), actor, token, reason))

    async def force_fail(self, org_id: str, instance_id: UUID, actor: Actor, reason: str) -> InstanceView:
        return await self.run_input(org_id, instance_id, ForceFail(self._id(), actor, reason))

    async def dead_letters(self, org_id: str, limit: int = 100) -> list[Mapping[str, Any]]:
        """The events that were given up, newest first."""
        async with self.database.transaction(org_id, read_only=True) as connection:
            return [dict(row) for row in await connection.fetch(_SQL.list_dead_letters, org_id, limit)]

    async def revive(self, org_id: str, event_id: UUID, actor: Actor) -> None:
        """Try a dead letter again: the step that failed for it, or the event itself where none was recorded."""
        may_operate(actor, "retry")
        proof = CommitProof()

        async def work(connection: Connection) -> None:
            instance_id = await connection.fetchval(_SQL.revive_dead_letter, org_id, event_id)
            if instance_id is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead letter {event_id}", ("event_id",)))
            again = BatchItem(
                org_id, instance_id, command=RetryInstance(self._id(), actor), origin=self.origin
            )
            await connection.execute(_SQL.lock_instances, [instance_id])
            jobs = await self.advancing.advance(
                connection, [again], self.database.clock.now(), as_owner=False
            )
            proof.audit_id = _first_audit_id(jobs)

        await self.database.run(work, org_id=org_id, proof=proof)

    async def _note_event(
        self, connection: Connection, org_id: str, key: str, actor: Actor, cause: str | None
    ) -> UUID:
        details = {"cause": cause} if cause is not None else {}
        note = AuditEntry(
            org_id, actor, "event.emit", "event", key, self.origin, details, trace=current_trace()
        )
        (audit_id,) = await write_entries(connection, [note], self.database.clock.now())
        return audit_id

    def _id(self) -> UUID:
        return new_id(self.database.clock.now())

    async def run_input(
        self, org_id: str, instance_id: UUID, given: Input, birth: NewInstance | None = None
    ) -> InstanceView:
        return view_of_job(await self.run_job(Target(org_id, "instance", instance_id, given, birth)))

    async def run_job(self, asked: Target) -> Execution:
        """Hand an input to an instance; those that come at the same time may go through one transaction."""
        with commanding(asked.org_id, asked.id if asked.noun == "instance" else None, asked.given):
            asked = replace(asked, origin=self.origin, trace=current_trace())
            job = (await self._carry_out(asked)).job
            if job is None:
                raise asked.not_found()
            _require_taken(job)
            return job

    async def _carry_out(self, asked: Target) -> Answered:
        if self.database.is_joined:
            return await self.run_waiting(asked)
        return await self.group_commit.run(asked.org_id, asked)

    async def run_together(self, asked: Sequence[Target]) -> list[Answered | Exception | None]:
        """In one transaction those whose instances are free, one command for each; none for the others."""
        proof = CommitProof()

        async def work(connection: Connection) -> list[Answered | Exception | None]:
            found = await find_instances(connection, asked, self.database.clock.now())
            works: dict[UUID, BatchItem] = {}
            for one in found:
                if isinstance(one.work, BatchItem) and one.held:
                    works.setdefault(one.work.instance_id, one.work)
            refused = await take_start_keys(connection, list(works.values()))
            able = [work for work in works.values() if work.instance_id not in refused]
            jobs = await self._advance(connection, able, watch)
            proof.audit_id = _first_audit_id(jobs)
            done = {job.work.instance_id: job for job in jobs}
            return [_answered(one, works, done, refused) for one in found]

        with watching(self.database.clock.now, inline=True, alone=len(asked) == 1) as watch:
            return await self.database.run(work, org_id=asked[0].org_id, plans="kept", proof=proof)

    async def run_waiting(self, asked: Target) -> Answered:
        """In a transaction of its own, or the caller's, after whoever is busy with the instance."""
        proof = CommitProof()

        async def work(connection: Connection) -> Answered:
            (found,) = await find_instances(connection, [asked], self.database.clock.now())
            if isinstance(found.work, Refused):
                raise found.work
            if not found.held:
                await connection.execute(_SQL.lock_instances, [found.work.instance_id])
            for refused in (await take_start_keys(connection, [found.work])).values():
                raise refused
            jobs = await self._advance(connection, [found.work], watch)
            proof.audit_id = _first_audit_id(jobs)
            return Answered(jobs[0] if jobs else None)

        with watching(self.database.clock.now, inline=True, alone=True) as watch:
            return await self.database.run(work, org_id=asked.org_id, plans="kept", proof=proof)

    async def _advance(
        self, connection: Connection, works: list[BatchItem], watch: Watch | None
    ) -> list[Execution]:
        if not works:
            return []
        beginning = {work.key for work in works if work.birth is not None}
        now = self.database.clock.now()
        jobs = await self.advancing.advance(connection, works, now, as_owner=False, watch=watch)
        for job in jobs:
            if job.is_new and job.work.key in beginning:
                _require_taken(job)  # an instance that cannot begin leaves nothing behind
        return jobs


async def take_start_keys(connection: Connection, works: Sequence[BatchItem]) -> dict[UUID, Refused]:
    """Take the keys under which these works start flows; return why not, by instance, where a key stands for another.

    The locks of the instances are held, and an instance's id follows from its key: two starts under one key come here
    one after the other.
    """
    births = [(work, work.birth) for work in works if work.birth and work.birth.idempotency_key is not None]
    if not births:
        return {}
    wanted = [(w.org_id, b.idempotency_key, w.instance_id, b.request_hash) for w, b in births]
    known = await connection.fetch(_SQL.take_start_keys, *map(list, zip(*wanted, strict=True)))
    hashes = {work.instance_id: birth.request_hash for work, birth in births}
    refused = {}
    for row in known:
        if row["request_hash"] != hashes[row["instance_id"]]:
            refused[row["instance_id"]] = Refused(KEY_REUSED)
        elif not row["is_there"]:
            message = f"this key started instance {row['instance_id']}, which has ended and was deleted since"
            hint = "a new start needs a new key"
            refused[row["instance_id"]] = Refused(
                Rejection("INSTANCE_DELETED", message, ("idempotency_key",), hint=hint)
            )
    return refused


def _answered(
    one: ResolvedTarget,
    works: Mapping[UUID, BatchItem],
    done: Mapping[UUID, Execution],
    refused: Mapping[UUID, Refused],
) -> "Answered | Exception | None":
    """What became of a command that came with others; none where its instance was busy, also with another of them."""
    if isinstance(one.work, Refused):
        return one.work
    instance_id = one.work.instance_id
    if works.get(instance_id) is not one.work:
        return None
    return refused.get(instance_id) or Answered(done.get(instance_id))


def _first_audit_id(jobs: Sequence[Execution]) -> UUID | None:
    """Return the audit entry of one of the commands: all of them commit together."""
    return next((job.audit_id for job in jobs if job.audit_id is not None), None)


def _in_partition(partition_id: str | None, key: str | None) -> str | None:
    """A key as it is kept: one of a partition never meets one of another partition, or of the whole org."""
    return key if key is None or partition_id is None else f"{partition_id}\x1f{key}"


def _require_taken(job: Execution) -> None:
    given = job.work.command
    outcome = next(outcome for offered, outcome in job.run.outcomes if offered is given)
    if not isinstance(outcome, Rejection):
        return
    already_there = isinstance(given, Start) and not job.is_new and outcome.code != "POLICY_DENIED"
    if not already_there:
        raise Refused(outcome)


def view_of_job(job: Execution) -> InstanceView:
    return view_of(job.run.plan, job.run.instance, job.run.world.asked)


def checked(data: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What somebody sends, if it can be kept. Names that begin with an underscore are the engine's own."""
    given = data or {}
    try:
        require_canonical(given)
    except NotCanonical as error:
        raise Refused(Rejection(error.code, str(error), ("data", *error.path))) from error
    if reserved := [name for name in given if name.startswith("_")]:
        message = f"`{reserved[0]}` is the engine's own; choose another name"
        raise Refused(Rejection("RESERVED_NAME", message, ("data", reserved[0])))
    return given
