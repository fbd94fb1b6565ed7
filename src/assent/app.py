"""App: what an application builds — its contracts and its actions — and the kernel that runs them."""

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from assent.approvals.directory import Directory
from assent.kernel.mutate import Kernel
from assent.kernel.registry import Action, AsyncAction, PureAction, Registry
from assent.model.contract import Contract, FieldSpec, contract_from
from assent.model.problems import Invalid, Problem
from assent.runtime.runtime import Operation, Runtime
from assent.store.database import Database

A = TypeVar("A", bound=PureAction | AsyncAction)
O = TypeVar("O", bound=Operation)  # noqa: E741


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
        for contract in contracts:
            self.add_contract(contract)

    def add_contract(self, contract: Contract | Mapping[str, Any]) -> Self:
        """Add a contract, as a value or as its author wrote it; raises `Invalid` with every problem."""
        self.registry.add_contract(contract if isinstance(contract, Contract) else contract_from(contract))
        return self

    def action(
        self, name: str, *, payload: Mapping[str, FieldSpec | Mapping[str, Any]] | None = None
    ) -> Callable[[A], A]:
        """Register an action: a pure `(entity, payload) → changes`, or an async one with the connection."""
        entity_type, _, verb = name.partition(".")
        fields = (
            {field: FieldSpec.model_validate(spec) for field, spec in payload.items()} if payload else None
        )

        def register(run: A) -> A:
            self.registry.add_action(entity_type, Action(verb, run, fields))
            return run

        return register

    def operation(self, name: str) -> Callable[[O], O]:
        """Register a function for `system` steps: `(connection, arguments) → result`, plain or async.

        It runs inside the transaction of its step: what it writes commits with it, and what it raises is tried
        again. Leave the outside world alone.
        """

        def register(run: O) -> O:
            if name in self.operations:
                raise Invalid([Problem("DUPLICATE", f"operation `{name}` is registered twice", (name,))])
            self.operations[name] = run
            return run

        return register

    def kernel(self, database: Database) -> Kernel:
        return Kernel(database, self.registry)

    def runtime(self, database: Database) -> Runtime:
        return Runtime(database, self.kernel(database), self.operations, self.directory)
