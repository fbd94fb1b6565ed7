"""Random ways to ask people: one group, several and what is enough of them, tiers; and ways to break them."""

from typing import Any

from tests.properties.breaking import Broken, Graph
from tests.properties.choosing import Chooser, chance, pick, shuffled

PEOPLE: tuple[dict[str, Any], ...] = (
    {"role": "manager"},
    {"role": "manager", "pick": "round_robin"},
    {"user": "ann"},
    {"manager": True},
    {"manager": "workflow.owner", "levels": 2},
    {"rule": "org.owners[workflow.kind]"},
)
MODES: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "all"},
    {"mode": "sequence"},
    {"mode": "quorum", "quorum": 2},
    {"mode": "percentage", "quorum": 60},
)
NAMES = ("cfo", "finance", "legal", "board")


def asking(chooser: Chooser) -> dict[str, Any]:
    """The keys of an approval that say who is asked and what happens when nobody answers."""
    return _who(chooser) | _times(chooser)


def _who(chooser: Chooser) -> dict[str, Any]:
    if chance(chooser, 20):
        limits = sorted({chooser.number(-5, 9) for _ in range(chooser.number(1, 3))})
        tiers = [{"up_to": limit, **_one_tier(chooser)} for limit in limits]
        return {"amount": "workflow.total", "tiers": [*tiers, _one_tier(chooser)]}
    return _one_tier(chooser)


def _one_tier(chooser: Chooser) -> dict[str, Any]:
    if chance(chooser, 70):
        return {pick(chooser, ("approvers", "assignee")): pick(chooser, PEOPLE), **pick(chooser, MODES)}
    names = shuffled(chooser, NAMES)[: chooser.number(1, len(NAMES))]
    groups = {name: {"approvers": pick(chooser, PEOPLE), **pick(chooser, MODES)} for name in names}
    return {"groups": groups, **({"enough": _enough(chooser, names)} if chance(chooser, 60) else {})}


def _enough(chooser: Chooser, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    cut = chooser.number(1, len(names) - 1)
    joint = pick(chooser, ("&&", "||", "AND", "OR"))
    return f"({_enough(chooser, names[:cut])} {joint} {_enough(chooser, names[cut:])})"


def _times(chooser: Chooser) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance(chooser, 20):
        found |= {"due": "24h", "remind": "12h", "notify": pick(chooser, ("email", "chat"))}
    if chance(chooser, 20):
        found["escalate"] = {"after": "2d", "to": pick(chooser, PEOPLE)}
    if chance(chooser, 20):
        found |= {"timeout": "3d", "default": pick(chooser, ("approved", "rejected"))}
    return found


def break_who_is_asked(chooser: Chooser, graph: Graph) -> Broken | None:
    """A mistake in one of the graph's approvals."""
    asked = [index for index, node in enumerate(graph.nodes) if node["type"] == "approval"]
    if not asked:
        return None
    index = pick(chooser, asked)
    node = graph.nodes[index]
    for key in ("approvers", "assignee", "groups", "enough", "tiers", "amount", "mode", "quorum"):
        node.pop(key, None)
    keys, codes, path = pick(chooser, MISTAKES)
    node |= keys
    return Broken(graph.data, codes, (*graph.nodes_path, index, *path))


_ONE = {"approvers": {"role": "manager"}}
_STRANGER = {"approvers": {"rule": "entity.stranger"}}
MISTAKES: tuple[tuple[dict[str, Any], set[str], tuple[str | int, ...]], ...] = (
    ({}, {"BAD_VALUE"}, ()),
    ({"groups": {"a": _ONE, "b": _ONE}, "enough": "a"}, {"UNUSED_GROUP"}, ("enough",)),
    ({"groups": {"a": _ONE, "b": _ONE}, "enough": "a && b && c"}, {"UNKNOWN_GROUP"}, ("enough",)),
    ({"groups": {"a": _ONE, "b": _ONE}, "enough": "a && !b"}, {"NOT_OF_GROUPS"}, ("enough",)),
    ({"groups": {"a": _ONE, "b": _STRANGER}}, {"UNKNOWN_VARIABLE"}, ("groups", "b", "approvers", "rule")),
    (
        {"tiers": [{"up_to": 1, **_ONE}, _STRANGER], "amount": "workflow.n"},
        {"UNKNOWN_VARIABLE"},
        ("tiers", 1, "approvers", "rule"),
    ),
    ({"tiers": [_ONE, {"up_to": 1, **_ONE}], "amount": "workflow.n"}, {"BAD_VALUE"}, ("tiers",)),
    ({"assignee": {"rule": "entity.stranger"}}, {"UNKNOWN_VARIABLE"}, ("assignee", "rule")),
    ({**_ONE, "mode": "quorum"}, {"BAD_VALUE"}, ()),
)
