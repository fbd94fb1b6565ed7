"""The contracts of entities, declared and published, and the actions of an application beside the built-in ones."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assent.model.contract import BUILT_IN_ACTIONS, Contract, FieldSpec
from assent.model.mutation import Entity
from assent.model.parse import NAME_PATTERN, shown
from assent.model.problems import Invalid, Problem
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "kernel.sql")

Changes = Mapping[str, Any]
PureAction = Callable[[Entity, Mapping[str, Any]], Changes]
"""(entity, payload) → the fields that change."""
AsyncAction = Callable[[Connection, Entity, Mapping[str, Any]], Awaitable[Changes]]
"""The same, with the transaction's connection: what it writes commits or rolls back with the mutation."""


@dataclass(frozen=True, slots=True)
class RegisteredAction:
    """An action of the application's own, such as `invoice.reserve`."""

    verb: str
    run: PureAction | AsyncAction
    payload: Mapping[str, FieldSpec] | None = None
    """The payload's fields; without them any JSON object goes in."""

    @property
    def needs_connection(self) -> bool:
        return inspect.iscoroutinefunction(self.run)


class Registry:
    """Contracts by entity type and actions by name. Filled once, at start; read by every mutation."""

    def __init__(self) -> None:
        self._contracts: dict[str, Contract] = {}
        self._actions: dict[tuple[str, str], RegisteredAction] = {}
        self.settings: dict[str, FieldSpec] = {}
        """The settings of orgs that the application declares; with none, any setting is accepted."""

    @property
    def contracts(self) -> Mapping[str, Contract]:
        return self._contracts

    def add_contract(self, contract: Contract) -> None:
        if contract.name in self._contracts:
            raise Invalid(
                [Problem("DUPLICATE", f"contract `{contract.name}` is declared twice", ("contract",))]
            )
        self._contracts[contract.name] = contract

    def add_action(self, entity_type: str, action: RegisteredAction) -> None:
        if problem := self._problem_with(entity_type, action.verb):
            raise Invalid([problem])
        self._actions[entity_type, action.verb] = action

    def add_setting(self, name: str, spec: FieldSpec) -> None:
        if not _NAME.fullmatch(name):
            message = f"{shown(name)} is not a name: lower-case ASCII letters, digits and _"
            raise Invalid([Problem("BAD_NAME", message, (name,))])
        if name in self.settings:
            raise Invalid([Problem("DUPLICATE", f"setting `{name}` is declared twice", (name,))])
        self.settings[name] = spec

    def action(self, entity_type: str, verb: str) -> RegisteredAction | None:
        return self._actions.get((entity_type, verb))

    def may_wait(self, action: str) -> bool:
        """Return whether an action such as `invoice.reserve` is a function of the application that may wait."""
        entity_type, _, verb = action.partition(".")
        found = self.action(entity_type, verb)
        return found is not None and found.needs_connection

    @property
    def actions(self) -> list[str]:
        """The registered actions, such as `invoice.assign`."""
        return [f"{entity_type}.{verb}" for entity_type, verb in self._actions]

    def verbs(self, entity_type: str, contract: Contract | None = None) -> list[str]:
        """Return everything that can be asked of an entity of this type, by this version of its contract."""
        own = [verb for of, verb in self._actions if of == entity_type]
        transitions = (contract or self._contracts[entity_type]).lifecycle.transitions
        return sorted({*BUILT_IN_ACTIONS, *own, *transitions})

    def _problem_with(self, entity_type: str, verb: str) -> Problem | None:
        path = (f"{entity_type}.{verb}",)
        if entity_type not in self._contracts:
            return Problem(
                "UNKNOWN_ENTITY_TYPE", f"no contract `{entity_type}`; add it before its actions", path
            )
        if not _NAME.fullmatch(verb):
            return Problem(
                "BAD_NAME", f"{shown(verb)} is not a name: lower-case ASCII letters, digits and _", path
            )
        if verb in self.verbs(entity_type):
            return Problem("DUPLICATE", f"`{verb}` is an action of `{entity_type}` already", path)
        return None


_NAME: Final = re.compile(NAME_PATTERN)

ContractPin = tuple[str, int]
"""An entity type and a version of its contract."""


@dataclass(slots=True)
class PublishedContracts:
    """Published contracts by entity type and version, and those of the application for types that have none."""

    declared: Mapping[str, Contract]
    _kept: dict[ContractPin, Contract] = field(default_factory=dict)

    async def load(self, connection: Connection, pins: Iterable[ContractPin]) -> None:
        """Load those that are not in memory, in one statement; nothing is asked if all are."""
        missing = sorted(set(pins) - self._kept.keys())
        if not missing:
            return
        types, versions = [name for name, _ in missing], [version for _, version in missing]
        for row in await connection.fetch(_SQL.load_contracts, types, versions):
            self._kept[row["key"], row["version"]] = Contract.model_validate(row["contract"])

    def pinned(self, entity_type: str, version: int | None, newest: int | None) -> Contract:
        """Return what an entity of this version lives by.

        A version that was never published gives way to the newest that was, as `assent.contract_walls` does; a type of
        which none was published, such as one without a workflow, lives by the application's own contract.
        """
        for each in (version, newest):
            if each is not None and (found := self._kept.get((entity_type, each))) is not None:
                return found
        return self.declared[entity_type]
