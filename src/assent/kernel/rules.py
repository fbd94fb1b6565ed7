"""An org's own rules around actions: deny, set or emit, each with evidence of why.

In a rule, `entity` before an action is the entity as it is asked to be, after it the entity as it will be. A
rule that cannot be understood any more refuses the action: a broken guard must not become an open door.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from uuid import UUID

from assent.kernel.programs import RulePrograms, programs_of
from assent.kernel.resolve import ResolvedCommand
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, Entity, Event, Rejection
from assent.model.names import is_blank
from assent.model.views import actor_view

if TYPE_CHECKING:
    import asyncpg

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
        verb = draft.transition or draft.verb
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
    def of(cls, rows: "Iterable[asyncpg.Record]") -> Self:
        return cls(tuple(OrgRule(**dict(row)) for row in rows))

    def about(self, kind: tuple[str, str]) -> "RuleBook":
        """Those of one org for one entity type."""
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
    """An entity as expressions see it: `data`, and what is the entity's own."""
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
        message = f"rule `{rule.name}` cannot be applied: {problems[0].message}"
        return Rejection("RULE_BROKEN", message, ("rules", rule.name), hint="correct or disable the rule")
    evaluation = programs.condition(variables)
    evidence_id = new_id(now)
    effects.evidence.append(_evidence(rule, draft, variables, evaluation, evidence_id, now))
    if not evaluation.holds:
        return None
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


def _evidence(  # noqa: PLR0913, PLR0917
    rule: OrgRule,
    draft: ResolvedCommand,
    variables: Mapping[str, Any],
    evaluation: Any,
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
        "action": command.action,
        "entity_type": rule.entity_type,
        "entity_id": entity["id"],
        "entity_version": entity["version"],
        **evaluation.to_json(),
        "result": evaluation.holds,
        "outcome": rule.outcome if evaluation.holds else None,
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
    payload = {"cause": str(cause), "rule": rule.name, "key": programs.key(variables)}
    return Event(
        org_id=rule.org_id,
        id=new_id(now),
        event_type=ON_EVENT,
        payload={**payload, "data": programs.payload(variables)},
        instance_id=None,
        trace_id=draft.command.trace_id,
    )
