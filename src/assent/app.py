"""App: what an application builds — its contracts, actions, tasks, flows — and the kernel and runtime that run them."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from assent.compiler.declarations import CompiledSources, DeclarationKind, kind_of
from assent.compiler.source import Source
from assent.definitions.check import RegisteredNames, check_sources, compare_contracts
from assent.documents.blobs import Blobs
from assent.documents.extraction import Extractor
from assent.effects.openapi import Headers, service_of
from assent.effects.outlets import Adapter, Outlets, leaving
from assent.kernel.mutate import Kernel
from assent.kernel.registry import AsyncAction, PureAction, RegisteredAction, Registry
from assent.language.built_in_verbs import BUILT_IN, DOMAINS
from assent.language.check import check
from assent.language.program import Condition, Program, compile_expression, parse_condition
from assent.language.types import event_scope
from assent.language.verbs import ArgumentSpec, VerbRegistry, VerbSpec, load_verbs
from assent.model.contract import Contract, FieldSpec, contract_from
from assent.model.job import (
    CONCURRENCY_MAX,
    PRIORITY,
    TASK_ATTEMPTS_MAX,
    Channel,
    RateLimit,
    openapi_name,
    require_resources,
)
from assent.model.names import require_name
from assent.model.nodes.calls import SUBMIT_TASKS
from assent.model.problems import Invalid, Problem
from assent.model.timing import require_duration
from assent.people.directory import Directory, MembersDirectory
from assent.runtime.core import Core, Operation, Verbs
from assent.runtime.definition_commands import read_declared
from assent.runtime.event_processor import EventProcessor
from assent.runtime.extraction import EXTRACT, extraction_task
from assent.runtime.runtime import OrgRuntime, Runtime
from assent.runtime.task_commands import TaskHandle
from assent.runtime.verb_commands import StepVerbs
from assent.schedules.cron import Missed
from assent.schedules.schedules import DeclaredSchedule, check_input, parse_schedule
from assent.store.database import Database
from assent.store.settings import Settings
from assent.store.table_grants import PRIVILEGES, Privilege
from assent.tasks.errors import RetryOn
from assent.tasks.task_type import CLUSTER, TaskType, declare
from assent.triggers.triggers import DeclaredJoin, DeclaredTrigger, Triggers

TRIGGER_NAME_MAX: Final = 150
"""Characters of the name of a trigger or a join."""

if TYPE_CHECKING:
    from assent.runtime.sync_runtime import SyncRuntime

A = TypeVar("A", bound=PureAction | AsyncAction)
O = TypeVar("O", bound=Operation)  # noqa: E741
H = TypeVar("H", bound=TaskHandle[..., Any])
E = TypeVar("E", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


class App:
    """An application's declarations.

    app = App([invoice])

    @app.action("invoice.assign", payload={"cost_center": {"type": "text", "required": True}})
    def assign(entity, payload):
        return {"cost_center": payload["cost_center"]}
    """

    def __init__(
        self,
        contracts: "list[Contract | Mapping[str, Any]] | tuple[Contract, ...]" = (),
        *,
        directory: Directory | None = None,
    ) -> None:
        self.registry = Registry()
        self.directory = directory
        self.operations: dict[str, Operation] = {}
        self.outlets = Outlets()
        self.capabilities: dict[str, str] = {}
        """What it takes to use what is registered, where that is said: `operation:payroll.pay` → `payroll:pay`."""
        self.tasks: dict[str, TaskType] = {}
        self.resources: dict[str, int | None] = {}
        """Resource → how many tasks may run with it at a time; None for any number."""
        self.triggers: list[DeclaredTrigger] = []
        self.joins: list[DeclaredJoin] = []
        self.schedules: dict[str, DeclaredSchedule] = {}
        self.verbs: dict[str, tuple[VerbSpec, Operation]] = {}
        """Name → what it takes, and the function that runs it."""
        self.extractors: dict[str, Extractor] = {}
        self.grants: dict[str, tuple[Privilege, ...]] = {}
        """Table → what operations, actions and tasks may do with its rows."""
        self.sources: list[Source] = []
        """What is published when the application is run: everything that was added."""
        for contract in contracts:
            self.add_contract(contract)

    def add_contract(self, contract: Contract | Mapping[str, Any]) -> Self:
        """Add a contract, as a value or as its author wrote it; raises `Invalid` with every problem."""
        self.registry.add_contract(contract if isinstance(contract, Contract) else contract_from(contract))
        return self

    def add(self, *declared: str | Path | Mapping[str, Any]) -> Self:
        """Add contracts, patches and flows: YAML files, folders of them, or what such a file holds.

        Raises `Invalid` with every problem that `assent check` finds in them; patches may follow their contract later.
        """
        sources = [source for item in declared for source in read_declared(item)]
        found = check_sources(sources, beside=self._contract_sources)
        # A patch may be for a contract that was added as a value, or that another application publishes.
        if problems := [problem for problem in found.problems if problem.code != "UNKNOWN_CONTRACT"]:
            raise Invalid(problems)
        for source in sources:
            if kind_of(source) is DeclarationKind.CONTRACT:
                self.add_contract(contract_from(source.data))
        self.sources += sources
        return self

    def check(self, *declared: str | Path | Mapping[str, Any] | Source) -> CompiledSources:
        """Compile declarations, or everything that was added, and note what this application could not run.

        Operations, tasks, services, actions and channels that it does not register are problems. Call it when all of
        them are registered.
        """
        sources = [source for item in declared for source in read_declared(item)]
        contracts = self.registry.contracts
        names = RegisteredNames(
            operations=self.operations,
            tasks=self.tasks,
            channels=self.outlets.adapters,
            actions={name: self.registry.verbs(name) for name in contracts},
            verbs=self._verb_registry,
        )
        return check_sources(sources or self.sources, names, self._contract_sources)

    async def compare_contracts(self, database: Database) -> list[str]:
        """Return in words how its contracts differ from those that are published; none if they do not."""
        async with database.transaction(None, read_only=True) as connection:
            return await compare_contracts(connection, self.registry.contracts)

    @property
    def _contract_sources(self) -> list[Source]:
        return [source for source in self.sources if kind_of(source) is DeclarationKind.CONTRACT]

    def run(self, *, org: str = "default", host: str = "127.0.0.1", port: int | None = None) -> None:
        """Serve the application until a signal: database, what was added, HTTP API and worker, in one process.

        The database is `ASSENT_DATABASE_URL`, else one of our own; the port is `ASSENT_PORT`, else 8000.
        """
        # Imported late, for it lies above: an application that only declares needs neither HTTP nor a worker.
        running = import_module("assent.running")
        running.run(self, org=org, host=host, port=port or int(os.environ.get("ASSENT_PORT", "8000")))

    def action(
        self, name: str, *, payload: Mapping[str, FieldSpec | Mapping[str, Any]] | None = None
    ) -> Callable[[A], A]:
        """Register an action: a pure `(entity, payload) → changes`, or an async one with the connection."""
        entity_type, _, verb = name.partition(".")
        fields = (
            {field: FieldSpec.model_validate(spec) for field, spec in payload.items()} if payload else None
        )

        def register(run: A) -> A:
            self.registry.add_action(entity_type, RegisteredAction(verb, run, fields))
            return run

        return register

    def setting(self, name: str, spec: FieldSpec | Mapping[str, Any]) -> Self:
        """Declare a setting of orgs, such as `app.setting("budget", {"type": "money", "min": 0})`.

        Expressions read it as `org.budget`. Once one is declared, a setting that is not is refused.
        """
        self.registry.add_setting(name, FieldSpec.model_validate(spec))
        return self

    def grant(self, table: str, *privileges: Privilege) -> Self:
        """Declare a table of the application's own that operations, actions and tasks use, such as `bookings`.

        They run as the engine's role. `assent migrate --app`, `assent definitions publish --app` and `app.run` give it
        the rights, all of `SELECT`, `INSERT`, `UPDATE` and `DELETE` unless some are named; `assent doctor --app` says
        what is missing.
        """
        wrong = [one for one in privileges if one not in PRIVILEGES]
        if wrong:
            raise ValueError(f"Expected {', '.join(PRIVILEGES)}, found {', '.join(wrong)}.")
        require_name(table, "table")
        self.grants[table] = tuple(dict.fromkeys((*self.grants.get(table, ()), *(privileges or PRIVILEGES))))
        return self

    def operation(
        self, name: str, *, outside: bool = False, capability: str | None = None
    ) -> Callable[[O], O]:
        """Register a function for `system` steps: `(connection, arguments) → result`, plain or async.

        It runs inside the transaction of its step: what it writes commits with it, and what it raises is tried
        again. Leave the outside world alone; or register it as `outside`: then it is `(arguments, key) → result`, the
        effects worker runs it, and the step rests until its result is there. It may run more than once, and then
        gets the same key. Publishing a workflow that calls it takes `capability`, else `operation:<name>:use`.
        """
        self._name_capability(f"operation:{name}", capability)

        def register(run: O) -> O:
            self._add_operation(name, leaving(name) if outside else run)
            if outside:
                self.outlets.operations[name] = run
            return run

        return register

    def verb(
        self,
        name: str,
        args: Sequence[ArgumentSpec | Mapping[str, Any]] = (),
        *,
        description: str = "",
        capability: str | None = None,
    ) -> Callable[[O], O]:
        """Register a verb: `(connection, arguments) → result`, plain or async, called as `(domain.verb :key value)`.

        Steps, people and programs call it, each with their own rights: it takes `capability`, else
        `verb:<name>:use`. It runs inside the transaction of the step or the command. Raise `Refused` in it for what
        cannot be done.
        """
        declared = [one if isinstance(one, Mapping) else one.model_dump() for one in args]
        domain, _, verb = name.partition(".")
        spec = {
            "description": description,
            "args": declared,
            "capability": capability or f"verb:{name}:use",
        }
        loaded, problems = load_verbs({domain: {verb: spec}})
        if domain in DOMAINS:
            problems = [
                Problem("DUPLICATE", f"`{domain}` is a domain of the product; choose another", (name,))
            ]
        if name in self.verbs:
            problems = [Problem("DUPLICATE", f"verb `{name}` is registered twice", (name,))]
        if loaded is None or problems:
            raise Invalid(problems)

        def register(run: O) -> O:
            self.verbs[name] = (loaded.verbs[name], run)
            return run

        return register

    @property
    def _verb_registry(self) -> VerbRegistry:
        return VerbRegistry({**BUILT_IN.verbs, **{name: spec for name, (spec, _) in self.verbs.items()}})

    def task(  # noqa: PLR0913
        self,
        name: str,
        *,
        attempts_max: int = TASK_ATTEMPTS_MAX,
        timeout: str | timedelta | None = None,
        priority: int = PRIORITY,
        retry_on: RetryOn | None = None,
        resources: Sequence[str] = (),
        rate_limit: RateLimit | None = None,
        cluster: bool = False,
        capability: str | None = None,
    ) -> Callable[[Callable[P, R]], TaskHandle[P, R]]:
        """Register a task: a function, plain or async, that our own workers run in the background; or a class.

        The function becomes a handle: call it as before, or submit it: `await archive.submit(acme, number=7)`.

        Its parameters are the keys of its input; one that is a pydantic model, a dataclass or a mapping is the whole
        of it; one that is an `assent.TaskContext` gets the task itself. What it returns is kept as JSON. What it raises
        is tried again, up to `attempts_max` times; `assent.Retry` says when, `assent.GiveUp` that it is of no use. A
        plain function runs in a thread and blocks no other task. `timeout` is for one attempt: `30s`, `5m`.
        A class has `on_start`, and may have `on_resume` and `on_error` for when its subtasks have ended. `retry_on`
        says which errors are tried again: else of a function all, and of a class those of I/O (`assent.is_transient`).
        `resources` names what its attempts use, see `resource`; `rate_limit` says how many may start in a period.
        With `cluster` it runs on a node of the Dask cluster that the worker is connected to, and not in the worker.
        Submitting it, or publishing a workflow that does, takes `capability`, else `tasks:submit`.
        """
        self._name_capability(f"task:{name}", capability)

        def register(run: Callable[P, R]) -> TaskHandle[P, R]:
            if name in self.tasks:
                raise Invalid([Problem("DUPLICATE", f"task `{name}` is registered twice", (name,))])
            kind = self.tasks[name] = declare(
                name,
                run,
                attempts_max=attempts_max,
                timeout=timeout,
                priority=priority,
                retry_on=retry_on,
                resources=resources,
                rate_limit=rate_limit,
                cluster=cluster,
            )
            return TaskHandle(name, run, kind)

        return register

    def resource(self, name: str, *, max_concurrency: int | None = None) -> Self:
        """Declare what tasks use that can do only so much at a time: `app.resource("ollama", max_concurrency=2)`.

        Not more tasks that name it run at a time than that, of all orgs and on all workers; without a number, any. The
        setting `ASSENT_WORKER_RESOURCES` says which a worker can reach; it leaves other tasks to others.
        """
        require_resources([name])
        if name in self.resources:
            raise Invalid([Problem("DUPLICATE", f"resource `{name}` is declared twice", (name,))])
        if max_concurrency is not None and not 1 <= max_concurrency <= CONCURRENCY_MAX:
            message = f"1 to {CONCURRENCY_MAX} tasks at a time were expected, found {max_concurrency}"
            raise Invalid([Problem("OUT_OF_RANGE", message, (name, "max_concurrency"))])
        self.resources[name] = max_concurrency
        return self

    def schedule(  # noqa: PLR0913
        self,
        cron: str,
        *,
        zone: str = "UTC",
        missed: Missed = "once",
        input: Mapping[str, Any] | None = None,
        name: str | None = None,
        orgs: Sequence[str] | None = None,
    ) -> Callable[[H], H]:
        """Start a task at the times of a cron line, once for each time in all workers together.

        @app.schedule("0 2 * * *", zone="Europe/Berlin")
        @app.task("reports.build")
        async def build(scheduled_at: datetime): ...

        `scheduled_at` is the time of the schedule; a task that does not need it leaves it out. `missed` says what is
        done about times that came while no worker ran: `skip` them, start the task `once` for all, or for `all` of
        them. It runs in every org that has a record or a member, or in `orgs`. Its name is the task's, unless another
        is given.
        """
        if isinstance(orgs, str) or (orgs is not None and not orgs):
            raise ValueError(f"Expected the ids of orgs, or None for all, found {orgs!r}.")

        def register(task: H) -> H:
            named = name or task.name
            kind = self.tasks[task.name]
            written = {"task": task.name, "cron": cron, "zone": zone, "missed": missed, "input": input or {}}
            spec = parse_schedule(written)
            check_input(kind, spec.input)
            if named in self.schedules:
                raise Invalid([Problem("DUPLICATE", f"schedule `{named}` is declared twice", (named,))])
            self.schedules[named] = DeclaredSchedule(named, spec, tuple(orgs) if orgs is not None else None)
            return task

        return register

    def trigger(
        self,
        on: str,
        *,
        match: Condition | None = None,
        input: Mapping[str, str] | None = None,
        priority: int | None = None,
        name: str | None = None,
    ) -> Callable[[H], H]:
        """Start a task on each event under a key that matches, once for each event.

        @app.trigger(on="file.stored", match="mime_type startsWith 'image/'")
        @app.task("photo.read")
        async def read(hash: str): ...

        `match` is an expression over the fields of the event's data. The task takes of the data what its parameters
        name, or what `input` says: names with expressions, such as `{"hash": "event.file.hash"}`. Tasks that have
        completed are events under `task.completed:<type>`, with `id`, `type`, `input` and `output`.
        """

        def register(task: H) -> H:
            named = self._name_trigger(on, name or task.name)
            condition = None if match is None else _prepared(match, named)
            values = None if input is None else {key: _prepared(text, named) for key, text in input.items()}
            self.triggers.append(
                DeclaredTrigger(named, on, self.tasks[task.name], condition, values, priority)
            )
            return task

        return register

    def join(self, *types: str, key: str, name: str | None = None) -> Callable[[H], H]:
        """Start a task when tasks of all these types have completed that have a key in common, once for each key.

        @app.join("text.extract", "photo.read", key="input.hash")
        @app.task("search.index")
        async def index(key: str, outputs: dict[str, Any]): ...

        `key` is an expression over the completed task: `id`, `type`, `input`, `output`. The task takes `key`, `tasks`
        (the id of each type's task) and `outputs`, whichever its parameters name.
        """
        if len(set(types)) != len(types) or not types:
            raise ValueError(f"Expected the types of tasks, each once, found {', '.join(types) or 'none'}.")

        def register(task: H) -> H:
            named = self._name_trigger(",".join(types), name or task.name)
            self.joins.append(DeclaredJoin(named, types, _prepared(key, named), self.tasks[task.name]))
            return task

        return register

    def _name_trigger(self, on: str, name: str) -> str:
        """Return the name of a trigger or a join; raise `Invalid` for one that is taken."""
        require_name(on, "on")
        require_name(name, "name", length_max=TRIGGER_NAME_MAX)
        if name in {one.name for one in self.triggers} | {one.name for one in self.joins}:
            message = f"trigger `{name}` is declared twice; give one of them a `name` of its own"
            raise Invalid([Problem("DUPLICATE", message, (name,))])
        return name

    async def emit(self, org: OrgRuntime, key: str, data: Any = None, *, cause: str | None = None) -> bool:
        """Emit an event to the triggers and the steps that wait for its key: `acme.events.emit`, for an application."""
        return await org.events.emit(key, data, cause=cause)

    def extractor(
        self,
        document_type: str,
        *,
        timeout: str | timedelta = "2m",
        reject_below: float | None = None,
        reject_code: str = "LOW_RESOLUTION",
        rejects: Sequence[str] = (),
    ) -> Callable[[E], E]:
        """Register how the files of a type of document are read: `(file: FileToRead) → Extraction`, plain or async.

        `*` is for every type without one of its own. It runs as a background task after each upload, and fills the
        text, the fields, the quality and the confidence of the version. One whose quality is below `reject_below` is
        rejected with `reject_code`, one with a problem that `rejects` names with that code; else a reviewer decides.
        `assent.documents.reading.read_file` reads PDF and images.
        """
        length = require_duration(timeout)
        require_name(document_type, "document_type")

        def register(run: E) -> E:
            if document_type in self.extractors:
                message = f"extractor `{document_type}` is registered twice"
                raise Invalid([Problem("DUPLICATE", message, (document_type,))])
            self.extractors[document_type] = Extractor(
                run, length, reject_below, reject_code, frozenset(rejects)
            )
            return run

        return register

    def openapi(
        self,
        service: str,
        document: Mapping[str, Any],
        *,
        base_url: str,
        headers: Headers | None = None,
        capability: str | None = None,
    ) -> Self:
        """Register a service by its OpenAPI document; `system` steps call `<service>.<operationId>`.

        `headers` go with every call, such as credentials; a function is called at each attempt. They are never
        written down. Raises `Invalid` where the document describes nothing that can be called. Publishing a workflow
        that calls it takes `capability`, else `service:<service>:use`.
        """
        self._name_capability(f"service:{service}", capability)
        found = service_of(service, document, base_url, headers)
        for operation in found.operations:
            self._add_operation(openapi_name(f"{service}.{operation.id}"), operation)
        self.outlets.services[service] = found
        return self

    def adapter(self, channel: Channel, send: Adapter) -> Self:
        """Register how messages of a channel are sent: `(message) → evidence or None`, plain or async."""
        self.outlets.adapters[channel] = send
        return self

    def capability_to_submit(self, task_type: str) -> str:
        """Return the capability that a caller needs to submit a task of a type."""
        return self.capabilities.get(f"task:{task_type}", SUBMIT_TASKS)

    def _name_capability(self, thing: str, capability: str | None) -> None:
        if capability is not None:
            self.capabilities[thing] = capability

    def _add_operation(self, name: str, run: Operation) -> None:
        if name in self.operations:
            raise Invalid([Problem("DUPLICATE", f"operation `{name}` is registered twice", (name,))])
        self.operations[name] = run

    def kernel(self, database: Database) -> Kernel:
        return Kernel(database, self.registry)

    def runtime(self, database: Database, blobs: Blobs | None = None) -> Runtime:
        """Return the application's runtime on a database; its caches are its own, so keep one for a process.

        Files of documents are kept where `ASSENT_BLOBS` says, unless another store is named.
        """
        tasks = dict(self.tasks)
        # It has no limit, unless the application declares one.
        of_cluster = {CLUSTER: None} if any(kind.on_cluster for kind in tasks.values()) else {}
        resources = {**of_cluster, **self.resources}
        if unknown := sorted({r for kind in tasks.values() for r in kind.resources} - set(resources)):
            message = f"no resource `{unknown[0]}` is declared, which a task uses"
            raise Invalid([Problem("UNKNOWN_RESOURCE", message, (unknown[0],))])
        core = Core.build(
            database,
            self.kernel(database),
            self.operations,
            self.directory or MembersDirectory(),
            task_types=tasks,
            capabilities=self.capabilities,
            resources=resources,
            outlets=self.outlets,
            verbs=Verbs(self._verb_registry, {name: run for name, (_, run) in self.verbs.items()}),
            blobs=blobs,
            extractors=self.extractors,
            schedules=self.schedules,
            triggers=Triggers(tuple(self.triggers), tuple(self.joins)),
        )
        core.advancing.means.verbs = StepVerbs(core)
        if self.extractors:
            tasks[EXTRACT] = extraction_task(core)
        return Runtime(core)

    def sync_runtime(self, url: str | None = None, *, settings: Settings | None = None) -> "SyncRuntime":
        """Return the application's runtime for threads that block, such as those of Django or Flask.

        It connects at the first command, to `url`, else to `ASSENT_DATABASE_URL`, else to a server of our own. Keep
        one for a process; a process that is forked afterwards connects by itself.
        """
        from assent.runtime.sync_runtime import SyncRuntime  # noqa: PLC0415  few processes block

        return SyncRuntime(self.runtime, url, settings)

    def event_processor(self, runtime: Runtime) -> EventProcessor:
        """Return what processes events for a worker."""
        return EventProcessor(runtime.core)


def _prepared(condition: Condition, name: str) -> Program:
    """Return an expression over an event, ready to run; raise `Invalid` with every problem."""
    expression, problems = parse_condition(condition)
    if expression is None or (problems := check(expression, event_scope())[1]):
        raise Invalid([problem.under(name) for problem in problems])
    return compile_expression(expression, event_scope())
