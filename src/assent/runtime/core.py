"""What every command works with: the parts of an application on one database, bound to an org and an actor."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from assent.audit.entries import AuditEntry, SubjectKind, write_entries
from assent.definitions import Definitions
from assent.documents.blobs import Blobs
from assent.documents.extraction import Extractor
from assent.engine.inputs import Input
from assent.kernel import Kernel
from assent.language.built_in_verbs import BUILT_IN
from assent.language.verbs import VerbRegistry
from assent.model.actor import SYSTEM, Actor, Origin
from assent.model.ids import new_id
from assent.model.mutation import Entity
from assent.people.directory import Directory
from assent.runtime.advance import Advancing
from assent.runtime.batch import Execution, NewInstance
from assent.runtime.commands import CommandRunner, Noun, Target, view_of_execution
from assent.runtime.load import Loader
from assent.runtime.needs import NeedsFulfilment
from assent.runtime.views import InstanceView
from assent.schedules.schedules import DeclaredSchedule
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database, Plans
from assent.store.failures import retry_lost
from assent.tasks.context import people_of_attempt
from assent.tasks.ends import TaskEnds
from assent.tasks.task_type import TaskType
from assent.telemetry import current_trace
from assent.triggers.triggers import Triggers

if TYPE_CHECKING:
    from assent.effects.outlets import Outlets

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verbs:
    """The verbs that can be called: ours, and those of the application with their functions."""

    registry: VerbRegistry = BUILT_IN
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


Operation = Callable[..., Any]
"""A function for `system` steps: (connection, arguments) → result, plain or async."""


@dataclass(frozen=True, slots=True)
class Core:
    """The parts of an application on one database. Definitions and plans are shared by all cores of a process."""

    database: Database
    kernel: Kernel
    advancing: Advancing
    runner: CommandRunner
    task_types: Mapping[str, TaskType]
    """The tasks that the application declares, by name."""
    resources: Mapping[str, int | None]
    """The resources that it declares, by name, with how many tasks may run with each."""
    capabilities: Mapping[str, str]
    """The capability that it takes to use an operation, a task or a service, where the application names one."""
    ends: TaskEnds
    """Where this process waits for the end of tasks."""
    outlets: "Outlets | None" = None
    """The ways out of the application, for the effects worker; nothing is sent from here (WF-10)."""
    extractors: Mapping[str, Extractor] = field(default_factory=dict)
    """How the files of documents are read, by the type of document."""
    blobs: Blobs = field(default_factory=Blobs)
    """The store of files."""
    verbs: Verbs = field(default_factory=Verbs)
    schedules: Mapping[str, DeclaredSchedule] = field(default_factory=dict)
    """The schedules that the application declares, by name."""
    triggers: Triggers = field(default_factory=Triggers)
    """What the application starts on events."""
    origin: Origin = field(default_factory=Origin)
    """The way in that commands took, for the audit log."""

    @classmethod
    def build(  # noqa: PLR0913
        cls,
        database: Database,
        kernel: Kernel,
        operations: Mapping[str, Operation],
        directory: Directory,
        *,
        task_types: Mapping[str, TaskType],
        capabilities: Mapping[str, str],
        resources: Mapping[str, int | None] = MappingProxyType({}),
        outlets: "Outlets | None" = None,
        blobs: Blobs | None = None,
        extractors: Mapping[str, Extractor] = MappingProxyType({}),
        verbs: Verbs | None = None,
        schedules: Mapping[str, DeclaredSchedule] = MappingProxyType({}),
        triggers: Triggers | None = None,
    ) -> Self:
        """Return the core of an application with empty caches."""
        loader = Loader(kernel, Definitions(database.clock), directory)
        advancing = Advancing(NeedsFulfilment(kernel, directory, dict(operations), task_types), loader)
        runner = CommandRunner(database, advancing)
        rights = (capabilities, TaskEnds(database), outlets)
        return cls(
            database,
            kernel,
            advancing,
            runner,
            task_types,
            resources,
            *rights,
            extractors,
            blobs or Blobs(),
            verbs or Verbs(),
            schedules,
            triggers or Triggers(),
        )

    @property
    def definitions(self) -> Definitions:
        return self.advancing.loader.definitions

    @property
    def directory(self) -> Directory:
        return self.advancing.loader.directory

    def on(self, database: Database) -> Self:
        """Return the same application on another database, such as a transaction of the caller."""
        kernel = Kernel(database, self.kernel.registry, self.kernel.contracts)
        advancing = Advancing(
            replace(self.advancing.means, kernel=kernel), replace(self.advancing.loader, kernel=kernel)
        )
        runner = CommandRunner(database, advancing)
        # A task of the caller's transaction is awaited after its commit, on the connections of the process.
        ends = self.ends if database.is_joined else TaskEnds(database)
        return replace(self, database=database, kernel=kernel, advancing=advancing, runner=runner, ends=ends)

    def via(self, origin: Origin) -> Self:
        """Return the same application for commands that come by another way."""
        return replace(self, origin=origin)


@dataclass(frozen=True, slots=True)
class OrgScope:
    """A core, bound to an org, and optionally to an actor and to one partition of the org."""

    core: Core
    org_id: str
    actor: Actor | None = None
    partition_id: str | None = None
    acting_instance: Mapping[str, Any] | None = None
    """The instance whose step acts: its row may not be written yet."""

    @property
    def database(self) -> Database:
        return self.core.database

    @property
    def required_actor(self) -> Actor:
        """Return the actor; raise `ValueError` if none is bound."""
        if self.actor is None:
            raise ValueError(
                "Expected an actor for this command, found none; bind one: runtime.org(org_id, actor)."
            )
        return _in_task(self.actor)

    @property
    def actor_or_system(self) -> Actor:
        return _in_task(self.actor if self.actor is not None else SYSTEM)

    def new_id(self) -> UUID:
        return new_id(self.database.clock.now())

    def reading(self, plans: Plans = "fresh") -> AbstractAsyncContextManager[Connection]:
        """Return a transaction that only reads."""
        return self.database.transaction(self.org_id, plans=plans, read_only=True)

    async def read(self, query: Callable[[Connection], Awaitable[T]]) -> T:
        """Call a query in a transaction that only reads one snapshot, or in the caller's transaction.

        The query runs again if a migration has just changed the result of a prepared statement.
        """
        database = self.database

        async def attempt() -> T:
            reading = database.transaction(self.org_id, isolation="repeatable_read", read_only=True)
            async with reading as connection:
                return await query(connection)

        attempts_max = 1 if database.is_joined else database.settings.transaction_attempts_max
        return await retry_lost(attempt, attempts_max)

    def sees(self, partition_id: str | None) -> bool:
        """Return whether a partition is there for the caller."""
        return self.partition_id in (None, partition_id)

    async def execute(
        self,
        noun: Noun,
        target_id: UUID,
        command: Input,
        *,
        birth: NewInstance | None = None,
    ) -> Execution:
        """Run a command for the instance that its target leads to; raise `Refused` where it is refused.

        What is of another partition than the caller's is not there.
        """
        target = Target(self.org_id, noun, target_id, command, birth, self.partition_id, self.core.origin)
        return await self.core.runner.run(target)

    async def run_command(self, instance_id: UUID, command: Input) -> InstanceView:
        """Run a command for an instance and return the instance's new state."""
        return view_of_execution(await self.execute("instance", instance_id, command))

    async def write(
        self, work: "Callable[[CommandTransaction], Awaitable[T]]", *, plans: Plans = "fresh"
    ) -> T:
        """Run work in one transaction, again if it lost against others; the entry that it notes proves its commit."""
        proof = CommitProof()

        async def attempt(connection: Connection) -> T:
            return await work(CommandTransaction(connection, self, proof))

        return await self.database.run(attempt, org_id=self.org_id, plans=plans, proof=proof)


def _in_task(actor: Actor) -> Actor:
    """Return an actor that carries the work of those on whose behalf the calling task runs, if a task is calling."""
    people = people_of_attempt.get()
    return replace(actor, contributors=people) if people else actor


@dataclass(frozen=True, slots=True)
class CommandTransaction:
    """The transaction of one command: its connection, and the audit entry that it leaves."""

    connection: Connection
    scope: OrgScope
    proof: CommitProof

    async def note(
        self,
        noun: SubjectKind,
        action: str,
        *targets: str,
        details: Mapping[str, Any] | None = None,
        instance_id: UUID | None = None,
        entity: Entity | None = None,
    ) -> None:
        """Write an audit entry for each target of a command: an id, a name, or `*` for all of a kind."""
        scope = self.scope
        entries = [
            AuditEntry(
                scope.org_id,
                scope.actor_or_system,
                action,
                noun,
                target,
                scope.core.origin,
                details or {},
                instance_id=instance_id,
                entity_type=entity.type if entity is not None else None,
                entity_id=entity.id if entity is not None else None,
                trace=current_trace(),
            )
            for target in targets
        ]
        audit_ids = await write_entries(self.connection, entries, scope.database.clock.now())
        self.proof.audit_id = next(iter(audit_ids), None)
