"""Keeping an org's rules: none is kept that could not be applied."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import Field

from assent.kernel.programs import programs_of
from assent.kernel.registry import Registry
from assent.kernel.rules import ANY_ACTION
from assent.language import Condition
from assent.model.ids import new_id
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Invalid, Problem
from assent.store.connection import Json
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.kernel", "kernel.sql")


class RuleSpec(Declaration):
    """A rule as its author writes it."""

    name: str = Field(min_length=1, max_length=100)
    entity_type: str
    action: str = ANY_ACTION
    timing: Literal["before", "after"]
    condition: Condition
    outcome: Literal["deny", "set", "emit"]
    outcome_json: dict[str, Any] = Field(alias="then")
    priority: int = Field(default=100, ge=0, le=10_000)
    enabled: bool = True


def check_rule(registry: Registry, spec: RuleSpec) -> Iterator[Problem]:
    """Everything that would keep a rule from being applied."""
    contract = registry.contracts.get(spec.entity_type)
    if contract is None:
        yield Problem("UNKNOWN_ENTITY_TYPE", f"no contract `{spec.entity_type}`", ("entity_type",))
        return
    verbs = registry.verbs(spec.entity_type)
    if spec.action not in (ANY_ACTION, *verbs):
        yield Problem("UNKNOWN_ACTION", f"expected * or one of: {', '.join(verbs)}", ("action",))
    _, problems = programs_of(spec.condition, spec.outcome, spec.outcome_json, contract)
    yield from problems


async def save_rule(
    connection: Connection, registry: Registry, org_id: str, rule: object, now: datetime
) -> UUID:
    """Keep a rule, replacing the one of the same name; raises `Invalid` with everything that is wrong."""
    spec, problems = parse_declaration(RuleSpec, rule)
    if spec is None or (problems := list(check_rule(registry, spec))):
        raise Invalid(problems)
    kept: UUID = await connection.fetchval(
        _SQL.keep_rule,
        org_id,
        new_id(now),
        spec.name,
        spec.entity_type,
        spec.action,
        spec.timing,
        Json(spec.condition),
        spec.outcome,
        spec.outcome_json,
        spec.priority,
        spec.enabled,
    )
    return kept
