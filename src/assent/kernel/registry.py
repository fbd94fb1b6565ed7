"""What an application declares: its contracts, and the actions that it adds to the built-in ones."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assent.model.contract import BUILT_IN_ACTIONS, Contract, FieldSpec
from assent.model.mutation import Entity
from assent.model.parse import NAME_PATTERN, shown
from assent.model.problems import Invalid, Problem
from assent.store.database import Connection

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

    def verbs(self, entity_type: str) -> list[str]:
        """Everything that can be asked of an entity of this type, for messages."""
        own = [verb for of, verb in self._actions if of == entity_type]
        transitions = self._contracts[entity_type].lifecycle.transitions
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
