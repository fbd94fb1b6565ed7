"""App: what an application builds — its contracts, actions, tasks, flows — and the kernel and runtime that run them."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from assent.compiler.declarations import CompiledSources, DeclarationKind, kind_of
from assent.compiler.source import Source
from assent.definitions.check import RegisteredNames, check_sources, compare_contracts
from assent.effects.openapi import Headers, service_of
from assent.effects.outlets import Adapter, Outlets, leaving
from assent.kernel.mutate import Kernel
from assent.kernel.registry import AsyncAction, PureAction, RegisteredAction, Registry
from assent.model.contract import Contract, FieldSpec, contract_from
from assent.model.job import PRIORITY, TASK_ATTEMPTS_MAX, Channel, openapi_name
from assent.model.problems import Invalid, Problem
from assent.people.directory import Directory, MembersDirectory
from assent.runtime.core import Core, Operation
from assent.runtime.definition_commands import read_declared
from assent.runtime.event_processor import EventProcessor
from assent.runtime.runtime import Runtime
from assent.runtime.task_commands import TaskHandle
from assent.store.database import Database
from assent.tasks.task_type import TaskType, declare

A = TypeVar("A", bound=PureAction | AsyncAction)
O = TypeVar("O", bound=Operation)  # noqa: E741
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

    def task(
        self,
        name: str,
        *,
        attempts_max: int = TASK_ATTEMPTS_MAX,
        timeout: str | timedelta | None = None,
        priority: int = PRIORITY,
        capability: str | None = None,
    ) -> Callable[[Callable[P, R]], TaskHandle[P, R]]:
        """Register a task: a function, plain or async, that our own workers run in the background.

        The function becomes a handle: call it as before, or submit it: `await archive.submit(acme, number=7)`.

        Its parameters are the keys of its input; one that is a pydantic model, a dataclass or a mapping is the whole
        of it; one that is an `assent.TaskContext` gets the task itself. What it returns is kept as JSON. What it raises
        is tried again, up to `attempts_max` times; `assent.Retry` says when, `assent.GiveUp` that it is of no use. A
        plain function runs in a thread and blocks no other task. `timeout` is for one attempt: `30s`, `5m`.
        Submitting it, or publishing a workflow that does, takes `capability`, else `tasks:submit`.
        """
        self._name_capability(f"task:{name}", capability)

        def register(run: Callable[P, R]) -> TaskHandle[P, R]:
            if name in self.tasks:
                raise Invalid([Problem("DUPLICATE", f"task `{name}` is registered twice", (name,))])
            self.tasks[name] = declare(
                name, run, attempts_max=attempts_max, timeout=timeout, priority=priority
            )
            return TaskHandle(name, run)

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

    def _name_capability(self, thing: str, capability: str | None) -> None:
        if capability is not None:
            self.capabilities[thing] = capability

    def _add_operation(self, name: str, run: Operation) -> None:
        if name in self.operations:
            raise Invalid([Problem("DUPLICATE", f"operation `{name}` is registered twice", (name,))])
        self.operations[name] = run

    def kernel(self, database: Database) -> Kernel:
        return Kernel(database, self.registry)

    def runtime(self, database: Database) -> Runtime:
        """Return the application's runtime on a database; its caches are its own, so keep one for a process."""
        core = Core.build(
            database,
            self.kernel(database),
            self.operations,
            self.directory or MembersDirectory(),
            task_types=self.tasks,
            capabilities=self.capabilities,
            outlets=self.outlets,
        )
        return Runtime(core)

    def event_processor(self, runtime: Runtime) -> EventProcessor:
        """Return what processes events for a worker."""
        return EventProcessor(runtime.core)
