"""Running commands to instances: each at once, alone or in one transaction with others that come at the same time.

The target of a command is an instance, or the request, form or entity that leads to one.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.definitions import DefinitionRef
from assent.engine.inputs import Advance, Input, Start
from assent.model.actor import Origin
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.model.terms import is_engines_own
from assent.people.directory import MembersDirectory
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem, Execution, NewInstance
from assent.runtime.errors import CommandsRefused
from assent.runtime.views import InstanceView, view_of
from assent.runtime.watch import Watch, commanding, watching
from assent.store.commit import CommitProof
from assent.store.connection import put
from assent.store.database import Connection, Database, act_for_org
from assent.store.group_commit import GroupCommit
from assent.store.queries import load_queries
from assent.telemetry import current_trace

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

Noun = Literal["instance", "request", "form", "entity"]
_CALLED: Final[Mapping[Noun, tuple[str, str]]] = {
    "instance": ("instance", "instance_id"),
    "request": ("approval request", "request_id"),
    "form": ("form", "step_id"),
    "entity": ("entity", "entity_id"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A command, and what it names."""

    org_id: str
    noun: Noun
    id: UUID
    given: Input
    birth: NewInstance | None = None
    partition_id: str | None = None
    """The one partition that the caller can see; the whole org without it."""
    origin: Origin = field(default_factory=Origin)
    trace: str | None = None

    def not_found(self) -> Refused:
        called, path = _CALLED[self.noun]
        return Refused(Rejection("NOT_FOUND", f"no {called} {self.id}", (path,)))

    def work(self, row: Any, now: datetime) -> BatchItem:
        """Return the batch item for the row that was found; an entity whose instance has ended starts another (D18)."""
        if row is None or not self._sees(row):
            raise self.not_found()
        if row["instance_id"] is not None:
            return self._work(row, row["instance_id"], self.given, self.birth)
        assert isinstance(self.given, Advance)
        entity_type, actor = row["entity_type"], self.given.actor
        birth = NewInstance(
            DefinitionRef(self.org_id, "effective", entity_type), actor.id, entity_type, self.id
        )
        again = Start(self.given.id, actor, self.given.data, transition=self.given.event)
        return self._work(row, new_id(now), again, birth)

    def _sees(self, row: Any) -> bool:
        """Return whether what the command names is of the caller's partition, as far as it was read."""
        if self.partition_id is None:
            return True
        if self.noun == "instance":
            # Read with its lock alone; one that is about to begin will be of the caller's partition.
            return row["instance"] is None or row["instance"]["partition_id"] == self.partition_id
        return bool(row["partition_id"] == self.partition_id)

    def _work(self, row: Any, instance_id: UUID, command: Input, birth: NewInstance | None) -> BatchItem:
        return BatchItem(
            self.org_id,
            instance_id,
            birth=birth,
            command=command,
            origin=self.origin,
            opened=row,
            trace=self.trace,
        )


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """The instance that a command is for, and whether this transaction has its lock."""

    work: BatchItem | Refused
    held: bool


async def open_targets(
    connection: Connection, asked: Sequence[Target], now: datetime, *, waits: bool
) -> list[ResolvedTarget]:
    """Return the instance of each target, locked and read: where its lock is free, or after waiting for it."""
    nouns, ids = [one.noun for one in asked], [one.id for one in asked]
    users = [one.given.actor.id for one in asked]
    rows = await connection.fetch(_SQL.open_targets, asked[0].org_id, nouns, ids, users, waits)
    by_place = {row["place"]: row for row in rows}
    return [_found(one, by_place.get(place), now) for place, one in enumerate(asked, 1)]


async def open_targets_of_orgs(
    connection: Connection, asked: Mapping[str, Sequence[Target]], now: datetime
) -> dict[str, list[ResolvedTarget]]:
    """Return the instance of each target of some orgs, locked and read where its lock is free; in one statement."""
    every = [one for some in asked.values() for one in some]
    rows = await connection.fetch(
        _SQL.open_targets_of_orgs,
        [one.org_id for one in every],
        [one.noun for one in every],
        [one.id for one in every],
        [one.given.actor.id for one in every],
    )
    by_place = {row["place"]: row for row in rows}
    found = iter([_found(one, by_place.get(place), now) for place, one in enumerate(every, 1)])
    return {org_id: [next(found) for _ in some] for org_id, some in asked.items()}


def _found(one: Target, row: Any, now: datetime) -> ResolvedTarget:
    try:
        return ResolvedTarget(one.work(row, now), row["held"] is True)
    except Refused as refused:
        return ResolvedTarget(refused, False)


KEY_REUSED: Final = Rejection(
    "IDEMPOTENCY_KEY_REUSED",
    "this key was used for another start",
    ("idempotency_key",),
    hint="a new start needs a new key",
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The execution of a command; none where the instance does not exist."""

    execution: Execution | None


class CommandRunner:
    """Runs commands to instances of one application on one database."""

    def __init__(self, database: Database, advancing: Advancing) -> None:
        self._database = database
        self._advancing = advancing
        # A directory of the application's own may take long, and is asked in every command.
        shares = type(advancing.loader.directory) is MembersDirectory
        self._group_commit: GroupCommit[Target, CommandResult] = GroupCommit(
            self._run_group, self._run_alone, self._run_shared if shares else None
        )

    async def run(self, target: Target) -> Execution:
        """Run a command for its instance, maybe in one transaction with others of the org; raise `Refused`."""
        with commanding(target.org_id, target.id if target.noun == "instance" else None, target.given):
            target = replace(target, trace=current_trace())
            try:
                if self._database.is_joined:
                    result = await self._run_alone(target)
                else:
                    result = await self._group_commit.run(target.org_id, target)
            except CommandsRefused as refused:
                raise Refused(refused.rejection) from None
            if result.execution is None:
                raise target.not_found()
            if (why := _refusal(result.execution)) is not None:
                raise Refused(why)
            return result.execution

    async def _run_group(self, targets: Sequence[Target]) -> list[CommandResult | Exception | None]:
        """Run commands in one transaction; those that are refused for what they led to are left out of it.

        Each time that some are refused, the others are run again without them: a refusal undoes no other command.
        """
        refused: dict[UUID, Exception] = {}
        results: list[CommandResult | Exception | None] = []
        while left := [target for target in targets if target.given.id not in refused]:
            try:
                results = await self._try_group(left)
                break
            except CommandsRefused as found:
                refused |= {command: Refused(why) for command, why in found.refusals.items()}
        others = iter(results)
        return [refused[t.given.id] if t.given.id in refused else next(others) for t in targets]

    async def _try_group(self, targets: Sequence[Target]) -> list[CommandResult | Exception | None]:
        """Run in one transaction the first command of each instance that is free; return None for the others."""
        proof, org_id = CommitProof(), targets[0].org_id

        async def work(connection: Connection) -> list[CommandResult | Exception | None]:
            found = await open_targets(connection, targets, self._database.clock.now(), waits=False)
            return await self._run_found(connection, org_id, found, proof, watch)

        with watching(self._database.clock.now, inline=True, alone=len(targets) == 1) as watch:
            return await self._database.run(work, org_id=org_id, plans="kept", proof=proof)

    async def _run_shared(
        self, targets: Mapping[str, Sequence[Target]]
    ) -> list[CommandResult | Exception | None]:
        """Run commands of several orgs in one transaction, each org's under its own row security.

        Orgs come in the order of their ids, so that two such transactions never wait for each other's locks. An org at
        which it fails shares none for a while.
        """
        proof, org_ids, now = CommitProof(), sorted(targets), self._database.clock.now
        at = ""

        async def work(connection: Connection) -> list[CommandResult | Exception | None]:
            nonlocal at
            found = await open_targets_of_orgs(connection, targets, now())
            results = {}
            for at in org_ids:
                await act_for_org(connection, at)
                given = connection, at, found[at], proof, watches[at]
                results[at] = await self._run_found(*given, shared=True)
            at = ""
            return [result for org_id in targets for result in results[org_id]]

        with ExitStack() as stack:
            watches = {org_id: stack.enter_context(watching(now, inline=True)) for org_id in org_ids}
            try:
                # Not again together: each org by itself waits for its own.
                return await self._database.run(
                    work, org_id=org_ids[0], plans="kept", proof=proof, attempts_max=1
                )
            except Exception:
                if at:
                    self._group_commit.set_apart(at)
                raise

    async def _run_found(  # noqa: PLR0913
        self,
        connection: Connection,
        org_id: str,
        found: Sequence[ResolvedTarget],
        proof: CommitProof,
        watch: Watch,
        *,
        shared: bool = False,
    ) -> list[CommandResult | Exception | None]:
        """Run the first command of each instance of an org that is free; return None for the others."""
        works: dict[UUID, BatchItem] = {}
        for one in found:
            if isinstance(one.work, BatchItem) and one.held:
                works.setdefault(one.work.instance_id, one.work)
        refused = await take_start_keys(connection, list(works.values()))
        able = [work for work in works.values() if work.instance_id not in refused]
        jobs = await self._advance(connection, able, watch, shared=shared)
        if (audit_id := _first_audit_id(jobs)) is not None:
            proof.audit_id, proof.org_id = audit_id, org_id
        done = {job.work.instance_id: job for job in jobs}
        return [_result_of(one, works, done, refused) for one in found]

    async def _run_alone(self, target: Target) -> CommandResult:
        """Run a command in a transaction of its own, or the caller's; wait for the lock of its instance."""
        proof = CommitProof()

        async def work(connection: Connection) -> CommandResult:
            (found,) = await open_targets(connection, [target], self._database.clock.now(), waits=True)
            if isinstance(found.work, Refused):
                raise found.work
            if not found.held:  # a new instance of an entity
                await put(connection, _SQL.lock_instances, [found.work.instance_id])
            for refused in (await take_start_keys(connection, [found.work])).values():
                raise refused
            jobs = await self._advance(connection, [found.work], watch)
            proof.audit_id = _first_audit_id(jobs)
            return CommandResult(jobs[0] if jobs else None)

        with watching(self._database.clock.now, inline=True, alone=True) as watch:
            return await self._database.run(work, org_id=target.org_id, plans="kept", proof=proof)

    async def _advance(
        self, connection: Connection, works: list[BatchItem], watch: Watch | None, *, shared: bool = False
    ) -> list[Execution]:
        if not works:
            return []
        beginning = {work.key for work in works if work.birth is not None}
        now = self._database.clock.now()
        jobs = await self._advancing.advance(connection, works, now, copies=False, watch=watch, shared=shared)
        # An instance that cannot begin leaves nothing behind.
        began = [job for job in jobs if job.is_new and job.work.key in beginning]
        refusals = {job.work.command.id: why for job in began if job.work.command and (why := _refusal(job))}
        if refusals:
            raise CommandsRefused(refusals)
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


def _result_of(
    one: ResolvedTarget,
    works: Mapping[UUID, BatchItem],
    done: Mapping[UUID, Execution],
    refused: Mapping[UUID, Refused],
) -> "CommandResult | Exception | None":
    """Return the result of a command of a group; None where its instance was busy, also with another command."""
    if isinstance(one.work, Refused):
        return one.work
    instance_id = one.work.instance_id
    if works.get(instance_id) is not one.work:
        return None
    return refused.get(instance_id) or CommandResult(done.get(instance_id))


def _first_audit_id(jobs: Sequence[Execution]) -> UUID | None:
    """Return the audit entry of one of the commands: all of them commit together."""
    return next((job.audit_id for job in jobs if job.audit_id is not None), None)


def _refusal(job: Execution) -> Rejection | None:
    """Return why a command was not taken; None where it was, or where the instance that it starts is there."""
    given = job.work.command
    outcome = next(outcome for offered, outcome in job.run.outcomes if offered is given)
    if not isinstance(outcome, Rejection):
        return None
    already_there = isinstance(given, Start) and not job.is_new and outcome.code != "POLICY_DENIED"
    return None if already_there else outcome


def view_of_execution(job: Execution) -> InstanceView:
    """Return the state to which a command led."""
    return view_of(job.run.plan, job.run.instance, job.run.world.asked, job.run.world.entity)


def check_data(data: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return data that can be kept as JSON; raise `Refused` otherwise, and for names that are the engine's."""
    given = data or {}
    try:
        require_canonical(given)
    except NotCanonical as error:
        raise Refused(Rejection(error.code, str(error), ("data", *error.path))) from error
    if reserved := [name for name in given if is_engines_own(name)]:
        message = f"`{reserved[0]}` is the engine's own; choose another name"
        raise Refused(Rejection("RESERVED_NAME", message, ("data", reserved[0])))
    return given
