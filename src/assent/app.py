"""App: what an application builds — its contracts, actions, tasks, flows — and the kernel and runtime that run them."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

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
from assent.runtime.runtime import Runtime
from assent.runtime.task_commands import TaskHandle
from assent.runtime.verb_commands import StepVerbs
from assent.store.database import Database
from assent.store.settings import Settings
from assent.store.table_grants import PRIVILEGES, Privilege
from assent.tasks.errors import RetryOn
from assent.tasks.task_type import TaskType, declare

if TYPE_CHECKING:
    from assent.runtime.sync_runtime import SyncRuntime

A = TypeVar("A", bound=PureAction | AsyncAction)
O = TypeVar("O", bound=Operation)  # noqa: E741
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
        Submitting it, or publishing a workflow that does, takes `capability`, else `tasks:submit`.
        """
        self._name_capability(f"task:{name}", capability)

        def register(run: Callable[P, R]) -> TaskHandle[P, R]:
            if name in self.tasks:
                raise Invalid([Problem("DUPLICATE", f"task `{name}` is registered twice", (name,))])
            self.tasks[name] = declare(
                name,
                run,
                attempts_max=attempts_max,
                timeout=timeout,
                priority=priority,
                retry_on=retry_on,
                resources=resources,
                rate_limit=rate_limit,
            )
            return TaskHandle(name, run)

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
        if unknown := sorted({r for kind in tasks.values() for r in kind.resources} - set(self.resources)):
            message = f"no resource `{unknown[0]}` is declared, which a task uses"
            raise Invalid([Problem("UNKNOWN_RESOURCE", message, (unknown[0],))])
        core = Core.build(
            database,
            self.kernel(database),
            self.operations,
            self.directory or MembersDirectory(),
            task_types=tasks,
            capabilities=self.capabilities,
            resources=dict(self.resources),
            outlets=self.outlets,
            verbs=Verbs(self._verb_registry, {name: run for name, (_, run) in self.verbs.items()}),
            blobs=blobs,
            extractors=self.extractors,
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
