"""An org's own rules around actions: deny, set or emit, each with evidence of why.

In a rule, `entity` before an action is the entity as it is asked to be, after it the entity as it will be. No rule is
kept that could not be applied. A rule that cannot be understood any more refuses the action: a broken guard must not
become an open door. So does a rule that denies and whose setting the org does not have. The texts of a rule are its
condition, and those of its outcome:

deny: {message: "over the limit of {org.limit}"}
set:  {cost_center: "'R&D'", checked: "true"}            field → expression
emit: {key: "invoice:large:{entity.number}", payload: {total: "{entity.grand_total}"}}
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, Self
from uuid import UUID

import orjson
from pydantic import Field

from assent.kernel.registry import Registry
from assent.kernel.resolve import ResolvedCommand
from assent.language import (
    Condition,
    Program,
    Scope,
    as_json,
    check,
    compile_expression,
    parse,
    parse_condition,
    prepare,
    prepare_template,
    scope_of,
)
from assent.language.program import Evaluation
from assent.language.render import render_node
from assent.language.syntax import EQUALITY, Compare, walk
from assent.language.syntax import Literal as LiteralNode
from assent.model.canonical import canonical_json
from assent.model.contract import Contract
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, PEOPLE, Entity, Event, Rejection, actor_view
from assent.model.names import is_blank
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Invalid, Problem, did_you_mean
from assent.store.connection import Json
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

Variables = Mapping[str, Any]
Prepared = tuple[Program | None, list[Problem]]


@dataclass(frozen=True, slots=True)
class RulePrograms:
    """What a rule runs: its condition, and the parts of its outcome by their path."""

    condition: Program
    parts: Mapping[tuple[str, ...], Program]
    optional_settings: frozenset[str] = frozenset()
    """The settings that the condition compares with null: it says itself what their absence means."""

    def missing_setting(self, evaluation: Evaluation) -> str | None:
        """Return a setting that the condition read and the org does not have; None if it had all that it read."""
        missing = (name for name, value in evaluation.variables.items() if value is None)
        settings = (name for name in missing if name.startswith("org."))
        return next((name for name in settings if name not in self.optional_settings), None)

    def message(self, variables: Variables) -> str:
        return str(self.parts["message",].value(variables))

    def key(self, variables: Variables) -> str:
        return str(self.parts["key",].value(variables))

    def sets(self, variables: Variables) -> dict[str, Any]:
        return {name: as_json(program.value(variables)) for (name,), program in self.parts.items()}

    def payload(self, variables: Variables) -> dict[str, Any]:
        parts = {path[1]: part for path, part in self.parts.items() if len(path) == 2}
        return {name: as_json(part.value(variables)) for name, part in parts.items()}


def programs_of(
    condition: Condition, outcome: str, outcome_json: Mapping[str, Any], contract: Contract
) -> tuple[RulePrograms | None, list[Problem]]:
    """Return the programs of a rule, or everything that is wrong with it. Prepared once per distinct text."""
    return _prepared(canonical_json([condition, outcome, outcome_json]), contract)


@lru_cache(maxsize=4096)
def _prepared(text: bytes, contract: Contract) -> tuple[RulePrograms | None, list[Problem]]:
    condition, outcome, outcome_json = orjson.loads(text)
    scope = scope_of(contract)
    program, problems = prepare(condition, scope)
    problems = [problem.under("condition") for problem in problems]
    parts: dict[tuple[str, ...], Program] = {}
    for path, (part, found) in _OUTCOMES[outcome](outcome_json, contract, scope):
        problems += [problem.under("outcome", *path) for problem in found]
        if part is not None:
            parts[path] = part
    if problems or program is None:
        return None, problems
    return RulePrograms(program, parts, _optional_settings(condition)), []


def _optional_settings(condition: Condition) -> frozenset[str]:
    expression, _ = parse_condition(condition)
    assert expression is not None, "the condition was prepared before"
    sides = [
        (node.left, node.right)
        for node in walk(expression.root)
        if isinstance(node, Compare) and node.operator in EQUALITY
    ]
    pairs = [*sides, *((right, left) for left, right in sides)]
    return frozenset(
        render_node(one) for one, other in pairs if isinstance(other, LiteralNode) and other.value is None
    )


Parts = Iterator[tuple[tuple[str, ...], Prepared]]


def _deny_parts(outcome: Mapping[str, Any], contract: Contract, scope: Scope) -> Parts:
    yield from _unknown_keys(outcome, {"message"})
    yield ("message",), _template(outcome.get("message"), scope)


def _emit_parts(outcome: Mapping[str, Any], contract: Contract, scope: Scope) -> Parts:
    yield from _unknown_keys(outcome, {"key", "payload"})
    yield ("key",), _template(outcome.get("key"), scope)
    for name, text in (outcome.get("payload") or {}).items():
        yield ("payload", name), _template(text, scope)


def _set_parts(outcome: Mapping[str, Any], contract: Contract, scope: Scope) -> Parts:
    yield from _unknown_keys(outcome, contract.fields)
    for name, text in outcome.items():
        yield (name,), _expression(text, scope)


def _unknown_keys(outcome: Mapping[str, Any], known: "set[str] | Mapping[str, Any]") -> Parts:
    for name in outcome:
        if name not in known:
            message = f"`{name}` is not known here; there are: {', '.join(known)}"
            yield (name,), (None, [Problem("UNKNOWN_KEY", message, hint=did_you_mean(name, known))])


def _template(text: object, scope: Scope) -> Prepared:
    if not isinstance(text, str) or not text:
        return None, [Problem("MISSING_KEY", "expected a text here")]
    return prepare_template(text, scope)


def _expression(text: object, scope: Scope) -> Prepared:
    if not isinstance(text, str):
        return None, [
            Problem("WRONG_TYPE", "expected an expression as text", hint="write text in quotes: \"'R&D'\"")
        ]
    expression, problems = parse(text)
    if expression is None:
        return None, problems
    _, problems = check(expression, scope)
    return (None if problems else compile_expression(expression, scope)), problems


_OUTCOMES: Final[Mapping[str, Callable[[Mapping[str, Any], Contract, Scope], Parts]]] = {
    "deny": _deny_parts,
    "set": _set_parts,
    "emit": _emit_parts,
}


Timing = Literal["before", "after"]
ANY_ACTION: Final = "*"


@dataclass(frozen=True, slots=True)
class OrgRule:
    """One rule as it is kept."""

    org_id: str
    id: UUID
    name: str
    entity_type: str
    action: str
    timing: Timing
    condition: str | Mapping[str, Any]
    outcome: Literal["deny", "set", "emit"]
    outcome_json: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The org's, which expressions read as `org`."""

    def answers(self, draft: ResolvedCommand, timing: Timing) -> bool:
        about = (draft.command.org_id, draft.contract.name, timing)
        # A rejection that leads back is not the transition that was rejected.
        verb = draft.verb if draft.is_way_back else draft.transition or draft.verb
        return about == (self.org_id, self.entity_type, self.timing) and self.action in (ANY_ACTION, verb)


@dataclass(slots=True)
class RuleEffects:
    """What the rules around one command did."""

    sets: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def take_sets(self) -> dict[str, Any]:
        taken, self.sets = self.sets, {}
        return taken


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules that may answer a batch of commands, in the order in which they apply."""

    rules: tuple[OrgRule, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self:
        """Return the rules in rows of `load_rules`; one without an id says only that its type has no rules."""
        named = [{name: row[name] for name in OrgRule.__dataclass_fields__} for row in rows if row["id"]]
        return cls(tuple(OrgRule(**row) for row in named))

    def about(self, kind: tuple[str, str]) -> "RuleBook":
        """Return those of one org for one entity type."""
        return RuleBook(tuple(rule for rule in self.rules if (rule.org_id, rule.entity_type) == kind))

    def apply(
        self,
        timing: Timing,
        draft: ResolvedCommand,
        view: Mapping[str, Any],
        now: datetime,
        effects: RuleEffects,
    ) -> Rejection | None:
        """Ask every rule in turn; a denial ends it. Later rules see what earlier ones have set."""
        for rule in self.rules:
            if not rule.answers(draft, timing):
                continue
            seen = _variables(draft, {**view, **effects.sets}, rule.settings, now)
            if denied := _apply_one(rule, draft, seen, now, effects):
                return denied
        return None


def entity_view(draft: ResolvedCommand, entity: Entity | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entity as expressions see it: `data`, and what is the entity's own."""
    own = {
        "id": str(entity.id if entity else draft.new_entity_id),
        "type": draft.contract.name,
        "state": entity.state if entity else draft.contract.lifecycle.initial,
        "version": entity.version if entity else 0,
    }
    return {**data, **own}


def _variables(
    draft: ResolvedCommand, entity: Mapping[str, Any], settings: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    return {
        "entity": entity,
        "actor": actor_view(draft.command.actor),
        "org": {**settings, "id": draft.command.org_id},
        "now": now,
    }


def _apply_one(
    rule: OrgRule, draft: ResolvedCommand, variables: Mapping[str, Any], now: datetime, effects: RuleEffects
) -> Rejection | None:
    programs, problems = programs_of(rule.condition, rule.outcome, rule.outcome_json, draft.contract)
    if programs is None:
        by = f"version {draft.contract.version} of the contract"
        message = f"rule `{rule.name}` cannot be applied by {by}: {problems[0].message}"
        return Rejection("RULE_BROKEN", message, ("rules", rule.name), hint="correct or disable the rule")
    evaluation = programs.condition(variables)
    missing = programs.missing_setting(evaluation) if rule.outcome == "deny" else None
    applies = evaluation.holds or missing is not None
    evidence_id = new_id(now)
    effects.evidence.append(_evidence(rule, draft, variables, evaluation, applies, evidence_id, now))
    if not applies:
        return None
    if not evaluation.holds:
        return denied_without_setting(rule.name, str(missing))
    if rule.outcome == "deny":
        return Rejection("RULE_DENIED", programs.message(variables), ("rules", rule.name))
    if rule.outcome == "set":
        effects.sets |= programs.sets(variables)
    else:
        event = _emitted(rule, draft, programs, variables, evidence_id, now)
        if is_blank(event.payload["key"]):
            message = f"rule `{rule.name}` cannot be applied: the key of its event is blank"
            return Rejection("RULE_BROKEN", message, ("rules", rule.name), hint="correct or disable the rule")
        effects.events.append(event)
    return None


def denied_without_setting(rule: str, setting: str) -> Rejection:
    """Return the denial of a rule that cannot tell whether to deny: a missing setting opens no door."""
    message = f"rule `{rule}` denies this: the org has no setting `{setting}` to decide by"
    return Rejection("RULE_DENIED", message, ("rules", rule), hint=f"set `{setting}`, or disable the rule")


def _evidence(  # noqa: PLR0913, PLR0917
    rule: OrgRule,
    draft: ResolvedCommand,
    variables: Mapping[str, Any],
    evaluation: Evaluation,
    applies: bool,
    evidence_id: UUID,
    now: datetime,
) -> dict[str, Any]:
    entity, command = variables["entity"], draft.command
    return {
        "org_id": rule.org_id,
        "id": evidence_id,
        "rule_id": rule.id,
        "rule_name": rule.name,
        "timing": rule.timing,
        "action": draft.action_name,
        "entity_type": rule.entity_type,
        "entity_id": entity["id"],
        "entity_version": entity["version"],
        **evaluation.to_json(),
        "result": applies,
        "outcome": rule.outcome if applies else None,
        "actor_id": (command.acted_by or command.actor).id,
        "trace_id": command.trace_id,
        "at": now,
    }


def _emitted(  # noqa: PLR0913, PLR0917
    rule: OrgRule,
    draft: ResolvedCommand,
    programs: RulePrograms,
    variables: Mapping[str, Any],
    cause: UUID,
    now: datetime,
) -> Event:
    payload: dict[str, Any] = {"cause": str(cause), "rule": rule.name, "key": programs.key(variables)}
    if people := draft.command.people:
        payload[PEOPLE] = list(people)
    return Event(
        org_id=rule.org_id,
        id=new_id(now),
        event_type=ON_EVENT,
        payload={**payload, "data": programs.payload(variables)},
        instance_id=None,
        trace_id=draft.command.trace_id,
    )


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
    """Yield everything that would keep a rule from being applied."""
    contract = registry.contracts.get(spec.entity_type)
    if contract is None:
        yield Problem("UNKNOWN_ENTITY_TYPE", f"no contract `{spec.entity_type}`", ("entity_type",))
        return
    verbs = registry.verbs(spec.entity_type)
    if spec.action not in (ANY_ACTION, *verbs):
        message = f"expected * or one of: {', '.join(verbs)}"
        yield Problem("UNKNOWN_ACTION", message, ("action",), did_you_mean(spec.action, verbs))
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
