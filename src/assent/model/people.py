"""Who is asked: a way to find people, groups of them, and the tiers of groups that an amount leads to.

Each declaration knows its compiled form, in which every approval has tiers and every tier has groups.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from assent.model.approval import ESCALATION, Mode, Pick
from assent.model.canonical import INTEGER_MAX
from assent.model.contract import Name, Role
from assent.model.parse import Declaration, shown
from assent.model.terms import Duration, Expression, not_empty, refuse, seconds_of

STRATEGIES: Final = ("role", "user", "manager", "rule", "permission", "chain")
LEVELS_MAX: Final = 10
GROUPS_MAX: Final = 20
TIERS_MAX: Final = 20
ONLY_GROUP: Final = "approvers"
"""The name of the one group of a tier that names none."""
COUNTING: Final = frozenset({"quorum", "percentage"})
"""The modes that need a number."""


def _manager(value: Any) -> Any:
    if value is True or (isinstance(value, str) and value):
        return value
    raise refuse(
        "WRONG_TYPE", f"`true` or an expression that names a person was expected, found {shown(value)}"
    )


class PeopleSpec(Declaration):
    """Exactly one way to find people."""

    role: Role | None = None
    """Anybody who has it."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    manager: Annotated[
        Any, AfterValidator(_manager), Field(json_schema_extra={"type": ["boolean", "string"]})
    ] = None
    """`true`: the manager of the person who started the workflow; else of the person that an expression names."""
    rule: Expression | None = None
    """An expression that gives a person or a list of them."""
    permission: Name | None = None
    """The people who may do an action or a transition according to the contract."""
    chain: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """An approval chain of the org; for approvals only."""
    pick: Pick | None = None
    """Who of a role: `all`, or one, in turn (`round_robin`) or the first who is not away (`first_available`)."""
    levels: int | None = Field(default=None, ge=1, le=LEVELS_MAX)
    """How far up the manager is; the next one by default."""

    @model_validator(mode="after")
    def _one_strategy(self) -> Self:
        named = [name for name in STRATEGIES if getattr(self, name) is not None]
        if len(named) != 1:
            found = " and ".join(named) or "nothing"
            raise refuse("BAD_VALUE", f"exactly one of {', '.join(STRATEGIES)} was expected, found {found}")
        for key, strategy in (("pick", "role"), ("levels", "manager")):
            if getattr(self, key) is not None and named != [strategy]:
                raise refuse("MISPLACED_KEY", f"`{key}` goes with `{strategy}`, found it with `{named[0]}`")
        return self

    def compiled(self) -> dict[str, Any]:
        """Return it as plain JSON, without what goes without saying."""
        said = self.model_dump(mode="json", exclude_none=True)
        plain = {"pick": "all", "levels": 1}
        return {key: value for key, value in said.items() if plain.get(key) != value}


def not_a_chain(people: PeopleSpec) -> PeopleSpec:
    if people.chain is not None:
        raise refuse("BAD_VALUE", "a chain stands alone: it brings groups of its own")
    return people


def _check_counts(mode: Mode | None, quorum: int | None) -> None:
    if (mode in COUNTING) != (quorum is not None):
        raise refuse("BAD_VALUE", "`quorum: <number>` goes with `mode: quorum` or `mode: percentage`")


class GroupSpec(Declaration):
    """Some of these people must agree."""

    approvers: Annotated[PeopleSpec, AfterValidator(not_a_chain)]
    mode: Mode = "any"
    quorum: int | None = Field(default=None, ge=1, le=100)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _check_counts(self.mode, self.quorum)
        return self

    def compiled(self, name: str) -> dict[str, Any]:
        return _group(name, self.approvers, self.mode, self.quorum)


def _group(name: str, people: PeopleSpec, mode: Mode | None, quorum: int | None) -> dict[str, Any]:
    found = {"name": name, "approvers": people.compiled(), "mode": mode or "any"}
    return found if quorum is None else found | {"quorum": quorum}


def _named(groups: Mapping[str, GroupSpec]) -> Mapping[str, GroupSpec]:
    if ESCALATION in groups:
        raise refuse("RESERVED_NAME", f"`{ESCALATION}` is the group that a request is escalated to")
    return groups


Groups = Annotated[
    Mapping[Name, GroupSpec], Field(max_length=GROUPS_MAX), AfterValidator(not_empty), AfterValidator(_named)
]


class ApproverSpec(Declaration):
    """Who decides: one group of people, or several and what is enough of them."""

    approvers: PeopleSpec | None = None
    assignee: PeopleSpec | None = None
    """Another word for `approvers`, as flows have it for every step of a person."""
    mode: Mode | None = None
    """Whether one approver is enough (`any`, the default), all are needed, `quorum` of them, `quorum` of a
    hundred (`percentage`), or all, one after the other (`sequence`)."""
    quorum: int | None = Field(default=None, ge=1, le=100)
    groups: Groups | None = None
    enough: Expression | None = None
    """Which groups must agree, such as `(finance && legal) || cfo`; all of them by default."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self._check_one_way()
        if self.enough is not None and self.groups is None:
            raise refuse("MISPLACED_KEY", "`enough` is about `groups`, and there are none")
        people = self._people
        if self.mode is not None and (people is None or people.chain is not None):
            holder = "the tiers or the groups" if people is None else "the chain"
            raise refuse("MISPLACED_KEY", f"`mode` is of one group; here {holder} have their own")
        _check_counts(self.mode, self.quorum)
        return self

    def _check_one_way(self) -> None:
        ways = self._ways()
        if sum(getattr(self, way) is not None for way in ways) != 1:
            names = ", ".join(f"`{way}`" for way in ways[:-1])
            raise refuse("BAD_VALUE", f"exactly one of {names} and `{ways[-1]}` was expected")

    def _ways(self) -> tuple[str, ...]:
        return ("approvers", "assignee", "groups")

    @property
    def _people(self) -> PeopleSpec | None:
        return self.approvers or self.assignee

    def tier(self) -> dict[str, Any]:
        """Return a compiled tier. Groups come by name, because a mapping has no order that storage keeps."""
        if (people := self._people) is not None:
            return {"groups": [_group(ONLY_GROUP, people, self.mode, self.quorum)]}
        named = sorted((self.groups or {}).items())
        found: dict[str, Any] = {"groups": [group.compiled(name) for name, group in named]}
        return found if self.enough is None else found | {"enough": self.enough}

    def written(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Return where the author wrote what is at `path` of the compiled tier."""
        match path:
            case ("groups", int(index), *rest) if self.groups is not None:
                return ("groups", sorted(self.groups)[index], *rest)
            case ("groups", 0, "approvers", *rest):
                return ("assignee" if self.approvers is None else "approvers", *rest)
            case ("groups", 0, *rest):
                return tuple(rest)
        return path


class TierSpec(ApproverSpec):
    """Who decides up to an amount; the last tier has no limit."""

    up_to: int | None = Field(default=None, ge=-INTEGER_MAX, le=INTEGER_MAX)

    def tier(self) -> dict[str, Any]:
        found = super().tier()
        return found if self.up_to is None else {"up_to": self.up_to} | found


def _ascending(tiers: tuple[TierSpec, ...]) -> tuple[TierSpec, ...]:
    if len(tiers) < 2:
        raise refuse("BAD_VALUE", f"two tiers or more were expected, found {len(tiers)}")
    limits = [tier.up_to for tier in tiers]
    if limits[-1] is not None or None in limits[:-1]:
        raise refuse("BAD_VALUE", "every tier but the last has its `up_to`, and the last has none")
    for before, after in pairwise(limits[:-1]):
        if before is not None and after is not None and before >= after:
            raise refuse("BAD_VALUE", f"each `up_to` is above the one before, found {after} behind {before}")
    return tiers


Tiers = Annotated[tuple[TierSpec, ...], Field(max_length=TIERS_MAX), AfterValidator(_ascending)]


class EscalationSpec(Declaration):
    """Who is asked too when the others take too long; any of them decides alone."""

    after: Duration
    to: Annotated[PeopleSpec, AfterValidator(not_a_chain)]

    def compiled(self) -> dict[str, Any]:
        return {"after": seconds_of(self.after), "to": self.to.compiled()}
