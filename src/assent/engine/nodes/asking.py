"""Whom a step asks, and how they are told."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from assent.engine.programs import program
from assent.language import Scope
from assent.model.approval import GroupQuery, PeopleSearch, Pick, Seat, Seated
from assent.model.effect import Effect, EffectType
from assent.model.graph import NodeKind

if TYPE_CHECKING:
    from assent.engine.visit import Visit

Occasion = Literal["asked", "reminded", "escalated"]


class ApproverGroups:
    """The groups of an approval, with their expressions made ready."""

    def __init__(self, groups: Sequence[Mapping[str, Any]], scope: Scope) -> None:
        self._groups = groups
        self._people = [PeopleFinder(group["approvers"], scope) for group in groups]

    def groups(self, visit: "Visit") -> tuple[GroupQuery, ...]:
        return tuple(
            GroupQuery(group["name"], people.seek(visit), group.get("mode", "any"), group.get("quorum"))
            for group, people in zip(self._groups, self._people, strict=True)
        )


class PeopleFinder:
    """One way to find somebody, as its author wrote it."""

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


def _permitted(visit: "Visit", verb: str) -> PeopleSearch:
    """Whoever the contract lets do it: the capability, and the roles that it names."""
    contract = visit.plan.contract
    roles = contract.permissions.get(verb, ()) if contract is not None else ()
    return PeopleSearch("permission", (f"{visit.instance.entity_type}:{verb}", *roles))


def _names(value: Any) -> Iterable[str]:
    found = value if isinstance(value, list | tuple) else [value]
    return [str(name) for name in found if name]


def messages_to(  # noqa: PLR0913
    visit: "Visit",
    config: Mapping[str, Any],
    request: Seated,
    seats: Sequence[Seat],
    occasion: Occasion = "asked",
    *,
    round_of_reminders: int = 0,
) -> tuple[Effect, ...]:
    """What those who are asked are told, by the channel that the node names; without one, nothing.

    A person with several seats is told once.
    """
    channel = config.get("notify")
    if channel is None:
        return ()
    by_person = {seat.user_id: seat for seat in reversed(seats)}
    asked = [seat for seat in seats if by_person[seat.user_id] is seat]
    messages = [_message(visit, channel, request, seat, occasion) for seat in asked]
    return tuple(
        replace(message, identity=_identity(message, request, seat, round_of_reminders))
        for message, seat in zip(messages, asked, strict=True)
    )


def _message(visit: "Visit", channel: str, request: Seated, seat: Seat, occasion: Occasion) -> Effect:
    node = visit.node.node
    about = request.title or request.entity_type or visit.plan.workflow.key
    begin = {
        "asked": "You are asked",
        "reminded": "You are still asked",
        "escalated": "Nobody answered, so you are asked",
    }
    what = f"{node.label or node.name}: {about}"
    wanted = (
        f"fill in {what}"
        if node.kind is NodeKind.FORM
        else f"decide {what}, version {request.entity_version}"
    )
    due = f" It is due {request.due_at:%Y-%m-%d %H:%M} UTC." if request.due_at else ""
    payload = {
        "channel": channel,
        "to": (seat.email or "") if channel == "email" else seat.user_id,
        "user": seat.user_id,
        "subject": what,
        "text": f"{begin[occasion]} to {wanted}.{due}",
        "occasion": occasion,
        "at": visit.now.isoformat(),
        "request": str(request.id),
        "instance": str(request.instance_id),
    }
    return Effect(cast(EffectType, channel), payload)


def _identity(message: Effect, request: Seated, seat: Seat, round_of_reminders: int) -> dict[str, Any]:
    """Return what makes it another message than those before: its payload says when, and for which request."""
    return {
        **{name: message.payload[name] for name in ("channel", "to", "user", "occasion")},
        **{"group": seat.group, "position": seat.position, "reassigned": _reassignments(request, seat)},
        "round": round_of_reminders,
    }


def _reassignments(request: Seated, seat: Seat) -> int:
    """Return how often a seat was handed on: whoever gets it back is told again."""
    replaced = {one.id: one.replaces for one in (*request.seats, seat)}
    count, former = 0, seat.replaces
    while former is not None:
        count, former = count + 1, replaced.get(former)
    return count
