"""Asking people: finding them, notifying them, deadlines, the fields that they fill in, and new approval requests.

Forms share all but the requests. A new request says who was left out, how many must agree, and who is asked first.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from assent.engine.consent import next_seats
from assent.engine.instance import root_id
from assent.engine.nodes.base import deadline
from assent.engine.programs import program
from assent.language import Scope, parse
from assent.language.mails import LANGUAGE, TIME_ZONE, question_variables, render_mail
from assent.language.syntax import And, Or, Variable
from assent.language.syntax import Node as Syntax
from assent.model.actor import SYSTEM_ID
from assent.model.approval import (
    ESCALATION,
    ApprovalRequest,
    FoundGroup,
    FoundPeople,
    Group,
    GroupQuery,
    PeopleSearch,
    Pick,
    Seat,
    SeatedRequest,
)
from assent.model.contract import FieldSpec, currency_of
from assent.model.graph import Node, NodeKind
from assent.model.ids import new_id
from assent.model.job import Effect, EffectType
from assent.model.problems import Problem
from assent.model.values import check_changes, check_required

if TYPE_CHECKING:
    from assent.engine.visit import Visit

Occasion = Literal["asked", "reminded", "escalated"]
"""Why a person is written to; it is also the kind of the mail."""


class ApproverGroups:
    """The groups of an approval, with their expressions compiled."""

    def __init__(self, groups: Sequence[Mapping[str, Any]], scope: Scope) -> None:
        self._groups = groups
        self._people = [PeopleFinder(group["approvers"], scope) for group in groups]

    def groups(self, visit: "Visit") -> tuple[GroupQuery, ...]:
        return tuple(
            GroupQuery(group["name"], people.seek(visit), group.get("mode", "any"), group.get("quorum"))
            for group, people in zip(self._groups, self._people, strict=True)
        )

    def explain(self, visit: "Visit") -> dict[str, Any]:
        """Return, of each group that an expression finds, the expression, what it read and its result."""
        found = {
            group["name"]: people.explain(visit)
            for group, people in zip(self._groups, self._people, strict=True)
        }
        return {name: evaluation for name, evaluation in found.items() if evaluation is not None}


class PeopleFinder:
    """One way to find people, as its author wrote it."""

    def __init__(self, declared: Mapping[str, Any], scope: Scope) -> None:
        self._declared = declared
        manager = declared.get("manager")
        self._rule = program(declared.get("rule"), scope)
        self._manager_of = program(manager, scope) if isinstance(manager, str) else None

    def seek(self, visit: "Visit") -> PeopleSearch:
        declared = self._declared
        if "user" in declared:
            return PeopleSearch("users", (declared["user"],))
        if "role" in declared:
            return PeopleSearch("roles", (declared["role"],), cast(Pick, declared.get("pick", "all")))
        if "chain" in declared:
            return PeopleSearch("chain", (declared["chain"],))
        if "permission" in declared:
            return _permitted(visit, declared["permission"])
        if self._rule is not None:
            return PeopleSearch("users", tuple(_names(self._rule.value(visit.variables))))
        of = self._manager_of.value(visit.variables) if self._manager_of else visit.instance.subject_id
        return PeopleSearch("manager", tuple(_names(of)), levels=declared.get("levels", 1))

    def explain(self, visit: "Visit") -> dict[str, Any] | None:
        read = self._rule or self._manager_of
        return read(visit.variables).to_json() if read is not None else None


def _permitted(visit: "Visit", verb: str) -> PeopleSearch:
    """Return a search for the people who hold the capability, or a role that the contract names."""
    contract = visit.plan.contract
    roles = contract.permissions.get(verb, ()) if contract is not None else ()
    return PeopleSearch("permission", (f"{visit.instance.entity_type}:{verb}", *roles))


def _names(value: Any) -> Iterable[str]:
    found = value if isinstance(value, list | tuple) else [value]
    return [str(name) for name in found if name]


def messages_to(  # noqa: PLR0913
    visit: "Visit",
    config: Mapping[str, Any],
    request: SeatedRequest,
    seats: Sequence[Seat],
    occasion: Occasion = "asked",
    *,
    round_of_reminders: int = 0,
) -> tuple[Effect, ...]:
    """Return the messages to the people in these seats, by the channel that the node names.

    Without a channel, reminders and escalations go by e-mail, and being asked sends none. A person with several seats
    gets one message.
    """
    channel = config.get("notify") or ("email" if occasion != "asked" else None)
    if channel is None:
        return ()
    by_person = {seat.user_id: seat for seat in reversed(seats)}
    asked = [seat for seat in seats if by_person[seat.user_id] is seat]
    messages = [_message(visit, channel, request, seat, occasion) for seat in asked]
    return tuple(
        replace(message, identity=_identity(message, request, seat, round_of_reminders))
        for message, seat in zip(messages, asked, strict=True)
    )


def _message(visit: "Visit", channel: str, request: SeatedRequest, seat: Seat, occasion: Occasion) -> Effect:
    node = visit.node.node
    is_form = node.kind is NodeKind.FORM
    step, title = node.label or node.name, request.title or request.entity_type or visit.plan.workflow.key
    facts = {
        "what": f"{step}: {title}",
        "step": step,
        "title": title,
        "figure": str(request.figure) if request.currency else None,
        "currency": request.currency,
        # A person need not be informed that they asked themselves.
        "requested_by": request.requested_by
        if request.requested_by not in (seat.user_id, SYSTEM_ID)
        else None,
        "due_at": request.due_at.isoformat() if request.due_at else None,
        "version": None if is_form else request.entity_version,
    }
    words = render_mail(occasion, (), {}, question_variables(facts, LANGUAGE, TIME_ZONE))
    payload = {
        "channel": channel,
        "to": (seat.email or "") if channel == "email" else seat.user_id,
        "user": seat.user_id,
        # For the record: the worker writes the words, in the person's language and by the org's template.
        "subject": words.subject,
        "text": words.text,
        "mail": {"kind": occasion, "facts": facts},
        "occasion": occasion,
        "at": visit.now.isoformat(),
        "request": str(request.id),
        "page": "forms" if is_form else "approvals",
        "instance": str(request.instance_id),
    }
    if isinstance(request, ApprovalRequest):
        payload["content"] = request.content
    return Effect(cast(EffectType, channel), payload)


def _identity(message: Effect, request: SeatedRequest, seat: Seat, round_of_reminders: int) -> dict[str, Any]:
    """Return what makes it another message than those before: its payload says when, and for which request."""
    return {
        **{name: message.payload[name] for name in ("channel", "to", "user", "occasion")},
        **{"group": seat.group, "position": seat.position, "reassigned": _reassignments(request, seat)},
        "round": round_of_reminders,
    }


def _reassignments(request: SeatedRequest, seat: Seat) -> int:
    """Return how often a seat was handed on: a person who gets it back is notified again."""
    replaced = {one.id: one.replaces for one in (*request.seats, seat)}
    count, former = 0, seat.replaces
    while former is not None:
        count, former = count + 1, replaced.get(former)
    return count


def common_fields(visit: "Visit") -> dict[str, Any]:
    """Return the fields that approval requests and forms share, with what the inbox shows of the entity."""
    instance, node, entity = visit.instance, visit.node.node, visit.world.entity
    fields: dict[str, Any] = {
        "org_id": instance.org_id,
        "instance_id": instance.id,
        "step_id": visit.step_id,
        "node_id": node.id,
        "node_name": node.name,
        "requested_by": visit.token.authority.requester.id,
        "created_at": visit.now,
        "partition_id": instance.partition_id,
    }
    if entity is not None:
        shown: Mapping[str, str] = node.config.get("inbox", {})
        fields |= {"entity_type": entity.type, "entity_id": entity.id, "entity_version": entity.version}
        fields |= {key: entity.data.get(shown.get(key, "")) for key in ("title", "figure")}
        if visit.plan.contract is not None and "figure" in shown:
            fields["currency"] = currency_of(visit.plan.contract.fields, shown["figure"], entity.data)
    return fields


class Deadlines:
    """The times of reminders, the escalation and the end, computed from when people were asked; kept nowhere."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self._remind = timedelta(seconds=config["remind"]) if "remind" in config else None
        self._escalate = timedelta(seconds=config["escalate"]["after"]) if "escalate" in config else None

    def is_over(self, visit: "Visit", request: SeatedRequest) -> bool:
        end = deadline(visit, request.created_at)
        return end is not None and visit.now >= end

    def escalated(self, visit: "Visit", request: SeatedRequest) -> list[Seat]:
        """Return the seats of the escalation, if the others have not answered in time."""
        if self._escalate is None or visit.now < request.created_at + self._escalate:
            return []
        return [seat for seat in request.seats_of(ESCALATION) if seat.status == "later"]

    def reminded(self, visit: "Visit", request: SeatedRequest) -> list[Seat]:
        if self._remind is None or visit.now < request.created_at + self._remind:
            return []
        return [seat for seat in request.seats if seat.status == "open"]

    def round(self, visit: "Visit", request: SeatedRequest) -> int:
        """Return how many rounds of reminders were due by now."""
        return (visit.now - request.created_at) // self._remind if self._remind else 0

    def next_time(self, visit: "Visit", request: SeatedRequest) -> datetime | None:
        """Return the next time at which something is due; missed reminders are not sent later."""
        times = [deadline(visit, request.created_at)]
        if self._escalate and any(seat.status == "later" for seat in request.seats_of(ESCALATION)):
            times.append(request.created_at + self._escalate)
        if self._remind:
            times.append(request.created_at + (self.round(visit, request) + 1) * self._remind)
        return min((time for time in times if time is not None), default=None)


class FilledForm:
    """The fields of a form or of an approval. Without fields, any data is taken."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.fields = {name: FieldSpec.model_validate(spec) for name, spec in declared.items()}

    def check(self, data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        """Return the data to keep, and every problem at its field."""
        if not self.fields:
            return dict(data), []
        kept, problems = check_changes(self.fields, data, ("data",))
        # What was sent and is wrong is not missing as well.
        return kept, [*problems, *check_required(self.fields, data, ("data",))]


_FILLS_ANOTHER: Final = "fills another seat"


def without_originators(found: FoundPeople, originators: Set[str], filled: Set[str]) -> list[FoundGroup]:
    """Return the groups without originators, and without people who fill a seat of the round."""
    reasons = dict.fromkeys(filled, _FILLS_ANOTHER) | dict.fromkeys(originators, "originator")
    return [_without(group, reasons) for group in found.groups]


def _without(group: FoundGroup, reasons: Mapping[str, str]) -> FoundGroup:
    """Return the group without these people, and with the reasons on record."""
    people = tuple(person for person in group.people if person.user_id not in reasons)
    names = [person.user_id for person in group.people if person.user_id in reasons]
    left_out = ({"user_id": name, "why": reasons[name]} for name in names)
    return replace(group, people=people, skipped=(*group.skipped, *left_out))


def needed_of(found: FoundGroup) -> Group:
    count = len(found.people)
    needed = {
        "any": 1,
        "all": max(count, 1),
        "sequence": max(count, 1),
        "quorum": found.quorum or 1,
        "percentage": max(ceil(count * (found.quorum or 100) / 100), 1),
    }
    return Group(found.name, found.mode, needed[found.mode], found.stage)


def no_people_failure(name: str, groups: list[FoundGroup], others: Sequence[ApprovalRequest]) -> str:
    """Return the message of the incident when there are not enough people."""
    empty = [group.name for group in groups if len(group.people) < needed_of(group).needed]
    asking = ", ".join(f"`{other.node_name}`" for other in others if other.status == "pending")
    same = f"who are not needed for {asking}" if asking else "who are not the same in several groups"
    where = f"in {', '.join(empty)}" if empty else same
    skipped = [f"{s['user_id']} ({s['why']})" for group in groups for s in group.skipped]
    left_out = f"; left out: {', '.join(skipped)}" if skipped else ""
    if any(s["why"] == _FILLS_ANOTHER for group in groups for s in group.skipped):
        left_out += "; `separation: {twice: allowed}` lets one person fill several seats of a round"
    return f"`{name}` finds not enough people to ask {where}{left_out}"


def new_request(  # noqa: PLR0913
    visit: "Visit",
    found: FoundPeople,
    groups: list[FoundGroup],
    originators: frozenset[str],
    tier: int,
    *,
    may_repeat: bool,
) -> ApprovalRequest:
    """Return a request with the seats of the first stage open."""
    now, node, needed = visit.now, visit.node.node, tuple(needed_of(group) for group in groups)
    due = node.config.get("due") or next((g.due_seconds for g in groups if g.due_seconds), None)
    request = ApprovalRequest(
        id=new_id(now),
        **common_fields(visit),
        token_id=visit.step_token_id,
        generation=int(root_id(visit.token.id)),
        slot=visit.slot,
        groups=needed,
        originators=originators,
        **_pinned_version(visit),
        chain_id=found.chain_id,
        may_repeat=may_repeat,
        mode=_mode(needed),
        due_at=now + timedelta(seconds=due) if due else None,
        skipped=tuple(skipped for group in groups for skipped in group.skipped),
        tier=tier,
        enough=_what_is_enough(node.config["tiers"][tier].get("enough"), needed),
        default=_default(visit),
        directory=found.directory,
        seats=_seats(groups, now),
    )
    return request.set_seats({seat.id: "open" for seat in next_seats(request)})


def _pinned_version(visit: "Visit") -> dict[str, Any]:
    """Return the version and the content of the entity that the request is about."""
    entity = visit.world.entity
    if entity is None:
        return {}
    return {"snapshot_version_id": entity.version_id, "content_hash": entity.content_hash}


def _what_is_enough(text: str | None, groups: tuple[Group, ...]) -> Any:
    """Return which groups must agree, as the database counts: the name of a group, or all or any of several."""
    expression = parse(text, canonical=True)[0] if text else None
    if expression is None:
        return {"all": [group.name for group in groups if group.name != ESCALATION]}
    return _said(expression.root)


def _said(node: Syntax) -> Any:
    if isinstance(node, Variable):
        return ".".join(node.path)
    assert isinstance(node, And | Or)  # the compiler lets nothing else pass
    return {"all" if isinstance(node, And) else "any": [_said(part) for part in node.parts]}


def _default(visit: "Visit") -> dict[str, Any] | None:
    """Return the default outcome, and the time from which it holds."""
    status, at = visit.node.node.config.get("default"), deadline(visit)
    return {"status": status, "at": at} if status and at else None


def _mode(groups: tuple[Group, ...]) -> str:
    asked = [group for group in groups if group.name != ESCALATION]
    return asked[0].mode if len(asked) == 1 else "groups"


def _seats(groups: list[FoundGroup], now: datetime) -> tuple[Seat, ...]:
    return tuple(
        Seat(new_id(now), person.user_id, group.name, position, person.via, "later", person.email)
        for group in groups
        for position, person in enumerate(group.people, start=1)
    )
