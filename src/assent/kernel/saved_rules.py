"""The rules of an org as administrators see them: saved with warnings, listed, deleted, and the history of evaluations.

What a rule means is in `assent.kernel.rules`. A member saves only a rule that does what the member may do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

import asyncpg

from assent.kernel.registry import Registry
from assent.kernel.rules import RuleSpec, check_rule, save_rule
from assent.language import Condition
from assent.language.program import parse_condition
from assent.language.syntax import Node, Variable, children
from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.model.parse import parse_declaration
from assent.model.policy import check_policy, refuse_not_held
from assent.model.problems import Invalid, Problem
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "kernel.sql")

MANAGE_RULES: Final = "rules:manage"
"""The capability to read, save and delete rules, and to read their evaluations."""
EMIT_EVENTS: Final = "events:emit"
"""The capability that saving a rule takes which emits events."""

Position = tuple[str, str]
"""The entity type and the name of a rule."""


@dataclass(frozen=True, slots=True)
class SavedRule:
    """A rule of an org."""

    id: UUID
    name: str
    entity_type: str
    action: str
    timing: str
    condition: Condition
    outcome: str
    outcome_json: Mapping[str, Any]
    priority: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    warnings: tuple[Problem, ...] = ()
    """What may be a mistake in a rule that was saved all the same."""

    @classmethod
    def of(cls, row: asyncpg.Record, warnings: Sequence[Problem] = ()) -> Self:
        return cls(**row, warnings=tuple(warnings))

    @property
    def position(self) -> Position:
        return self.entity_type, self.name


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """One evaluation of a rule: what it was asked, what it read, and what it did."""

    id: UUID
    rule_id: UUID
    rule_name: str
    timing: str
    action: str
    entity_type: str
    entity_id: UUID
    entity_version: int
    expression: str
    variables: Mapping[str, Any]
    result: bool
    outcome: str | None
    actor_id: str
    trace_id: str | None
    at: datetime


async def list_rules(
    connection: Connection,
    org_id: str,
    entity_type: str | None = None,
    *,
    after: Position | None = None,
    limit: int | None = None,
) -> list[SavedRule]:
    """Return the rules of an org, or of one entity type, by entity type and name."""
    rows = await connection.fetch(_SQL.list_rules, org_id, entity_type, None, *(after or (None, None)), limit)
    return [SavedRule.of(row) for row in rows]


async def read_rule(connection: Connection, org_id: str, entity_type: str, name: str) -> SavedRule:
    """Return a rule; raise `Refused` if there is none."""
    row = await connection.fetchrow(_SQL.list_rules, org_id, entity_type, name, None, None, 1)
    return SavedRule.of(_found(row, entity_type, name))


async def save_rule_by_member(  # noqa: PLR0913, PLR0917
    connection: Connection,
    registry: Registry,
    org_id: str,
    rule: object,
    settings: Mapping[str, Any],
    by: Actor,
    now: datetime,
) -> SavedRule:
    """Save a rule by a member who may do what it does; raise `Invalid` with every problem, or `Refused`.

    The warnings of the result name the settings that its condition reads and that the org does not have.
    """
    spec, problems = parse_declaration(RuleSpec, rule)
    if spec is None or (problems := list(check_rule(registry, spec))):
        raise Invalid(problems)
    _check_rights(registry, spec, by)
    await save_rule(connection, registry, org_id, rule, now)
    row = await connection.fetchrow(_SQL.list_rules, org_id, spec.entity_type, spec.name, None, None, 1)
    return SavedRule.of(_found(row, spec.entity_type, spec.name), _missing_settings(spec.condition, settings))


async def delete_rule(connection: Connection, org_id: str, entity_type: str, name: str) -> SavedRule:
    """Delete a rule and return it; raise `Refused` if there is none. The record of its evaluations stays."""
    row = await connection.fetchrow(_SQL.delete_rule, org_id, entity_type, name)
    return SavedRule.of(_found(row, entity_type, name))


async def list_rule_evaluations(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    entity_type: str,
    name: str,
    *,
    after: UUID | None = None,
    limit: int | None = None,
    partition_id: str | None = None,
) -> list[RuleEvaluation]:
    """Return the evaluations of a rule, newest first, also of one that was deleted."""
    rows = await connection.fetch(
        _SQL.list_rule_evaluations, org_id, entity_type, name, after, limit, partition_id
    )
    return [RuleEvaluation(**row) for row in rows]


def _check_rights(registry: Registry, spec: RuleSpec, by: Actor) -> None:
    """Refuse a rule that writes or emits what its author may not: it acts in every command of the org."""
    if spec.outcome == "emit":
        refuse_not_held(by, {EMIT_EVENTS}, "outcome")
    elif spec.outcome == "set" and (
        denied := check_policy(registry.contracts[spec.entity_type], "update", by)
    ):
        raise Refused(denied)


def _missing_settings(condition: Condition, settings: Mapping[str, Any]) -> list[Problem]:
    """Warn of settings that a condition compares and the org lacks: such a comparison is always false."""
    expression, _ = parse_condition(condition)
    names = sorted(set(_settings_in(expression.root))) if expression is not None else []
    return [
        Problem(
            "MISSING_SETTING",
            f"the condition reads `org.{name}`, and the org has no such setting",
            ("condition",),
            f"set it first: assent org set {name}=…",
        )
        for name in names
        if name != "id" and settings.get(name) is None
    ]


def _settings_in(node: Node) -> list[str]:
    if isinstance(node, Variable):
        return [node.path[1]] if node.path[0] == "org" and len(node.path) > 1 else []
    return [name for child in children(node) for name in _settings_in(child)]


def _found(row: asyncpg.Record | None, entity_type: str, name: str) -> asyncpg.Record:
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no rule `{name}` for {entity_type}", ("name",)))
    return row
