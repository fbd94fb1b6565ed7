"""New approval requests: the people who are left out, how many must agree, and who is asked first."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from assent.engine.consent import next_seats
from assent.engine.instance import root_id
from assent.engine.nodes.asking import common_fields
from assent.engine.nodes.awaiting import deadline
from assent.language import parse
from assent.language.syntax import And, Or, Variable
from assent.language.syntax import Node as Syntax
from assent.model.approval import ESCALATION, ApprovalRequest, FoundGroup, FoundPeople, Group, Seat
from assent.model.ids import new_id

if TYPE_CHECKING:
    from assent.engine.visit import Visit


def without_originators(found: FoundPeople, originators: Set[str], filled: Set[str]) -> list[FoundGroup]:
    """Return the groups without originators, and without people who fill a seat of the round."""
    reasons = dict.fromkeys(filled, "fills another seat") | dict.fromkeys(originators, "originator")
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
