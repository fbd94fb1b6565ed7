"""What is asked of approvers: requests, the seats of those who are asked, and what they answered.

A request is about one version of an entity, and holds for its content: what people wrote, without the fields that
the workflow keeps for itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

Mode = Literal["any", "all", "quorum", "percentage", "sequence"]
RequestStatus = Literal["pending", "approved", "rejected", "returned", "void", "cancelled"]
SeatStatus = Literal["later", "open", "decided", "closed"]
Answer = Literal["approved", "rejected", "abstained", "returned"]
Pick = Literal["all", "round_robin", "first_available"]

ESCALATION = "escalation"
"""The group of those who are asked when the others take too long; any of them decides alone."""

STARTER = "starter"
"""How the person who started a workflow came to be asked; no directory need know them."""

_BY_ROLE = "role:"


@dataclass(frozen=True, slots=True)
class PeopleSearch:
    """One way to find somebody, with its expressions evaluated."""

    strategy: Literal["users", "roles", "permission", "manager", "chain"]
    names: tuple[str, ...]
    """Of users or roles, of a capability and the roles that may too, of the person whose manager it is, of a chain."""
    pick: Pick = "all"
    levels: int = 1
    """How far up the manager is."""


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """Some of these people must agree."""

    name: str
    seek: PeopleSearch
    mode: Mode = "any"
    quorum: int | None = None
    """How many for `quorum`, how many of a hundred for `percentage`."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who was found."""

    user_id: str
    via: str
    """How: `user`, `role:finance_manager`, `manager:ann`, `directory`."""
    email: str | None = None


@dataclass(frozen=True, slots=True)
class FoundGroup:
    """The people of a group. The groups of a chain come one after the other, by their stage."""

    name: str
    people: tuple[Person, ...]
    mode: Mode = "any"
    quorum: int | None = None
    stage: int = 0
    due_seconds: int | None = None
    skipped: tuple[Mapping[str, str], ...] = ()
    """Who was found and not asked: `{"user_id": …, "why": "inactive"}`."""


@dataclass(frozen=True, slots=True)
class FoundPeople:
    """The answer to a question for people."""

    groups: tuple[FoundGroup, ...]
    contributors: frozenset[str] = frozenset()
    """Who wrote what is to be approved, since the last approval that was applied."""
    chain_id: UUID | None = None
    directory: str | None = None
    """`members` where they were found there, so that the database itself can ask again; unsaid of any other."""


@dataclass(frozen=True, slots=True)
class Group:
    """What is enough: this many of its seats."""

    name: str
    mode: Mode
    needed: int
    stage: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "mode": self.mode, "needed": self.needed, "stage": self.stage}


@dataclass(frozen=True, slots=True)
class Seat:
    """One person who is asked, or was, or will be."""

    id: UUID
    user_id: str
    group: str
    position: int
    via: str
    status: SeatStatus = "open"
    email: str | None = None
    replaces: UUID | None = None
    """The seat whose place it took, when somebody reassigned it."""
    note: str | None = None

    @property
    def role(self) -> str | None:
        """The role by which this person was found."""
        return self.via.removeprefix(_BY_ROLE) if self.via.startswith(_BY_ROLE) else None

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Decision:
    """What one person answered, for themselves or for another."""

    id: UUID
    seat_id: UUID
    approver_id: str
    answer: Answer
    decided_at: datetime
    on_behalf_of: str | None = None
    reason: str | None = None
    outcome: str | None = None
    """An answer of the node's own, such as `more_information`."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """Somebody stands in for another, for a time and for some things."""

    id: UUID
    from_user: str
    to_user: str
    entity_types: tuple[str, ...] = ()
    """What it is about; everything when empty."""
    workflows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is active now and who holds which role, of the people whom an input concerns."""

    present: frozenset[tuple[str, str | None]] = frozenset()
    """People with a role, or with none where only that they are active was asked."""

    def has(self, user_id: str, role: str | None = None) -> bool:
        return (user_id, role) in self.present


class Seated:
    """Something that people are asked, each in a seat: a request for approval, or a form."""

    id: UUID
    instance_id: UUID
    created_at: datetime
    entity_type: str | None
    entity_version: int
    title: str | None
    due_at: datetime | None
    claimed_by: str | None
    claimed_at: datetime | None
    skipped: tuple[Mapping[str, str], ...]
    seats: tuple[Seat, ...]
    is_new: bool
    """Whether it was asked in the transaction that is under way."""
    changed: bool
    touched_seats: dict[UUID, Seat]
    """Seats that are new or have another status than their rows."""

    def unclaim(self) -> None:
        if self.claimed_by is not None:
            self.claimed_by, self.claimed_at, self.changed = None, None, True

    def set_seats(self, statuses: Mapping[UUID, SeatStatus]) -> None:
        self.put_seats(seat.evolve(status=statuses[seat.id]) for seat in self.seats if seat.id in statuses)

    def put_seats(self, seats: Iterable[Seat]) -> None:
        """Seats that are new, or take the place of those with their id."""
        found = {seat.id: seat for seat in self.seats}
        for seat in seats:
            found[seat.id] = self.touched_seats[seat.id] = seat
        self.seats = tuple(found.values())

    def seats_of(self, group: str) -> list[Seat]:
        return [seat for seat in self.seats if seat.group == group]


@dataclass(slots=True)
class ApprovalRequest(Seated):
    """A question to approvers about one version of one entity, or about a flow."""

    org_id: str
    id: UUID
    instance_id: UUID
    step_id: UUID
    node_id: str
    token_id: str
    generation: int
    slot: str
    """Where it was asked: requests of one slot and one generation are consumed together (D21)."""
    entity_version: int
    groups: tuple[Group, ...]
    requested_by: str
    originators: frozenset[str]
    created_at: datetime
    entity_type: str | None = None
    entity_id: UUID | None = None
    snapshot_version_id: UUID | None = None
    content_hash: str | None = None
    chain_id: UUID | None = None
    partition_id: str | None = None
    title: str | None = None
    figure: Any = None
    node_name: str | None = None
    may_repeat: bool = False
    """Whether one person may fill several seats; contracts may relax that."""
    mode: str = "any"
    due_at: datetime | None = None
    status: RequestStatus = "pending"
    reason: str | None = None
    applied_at: datetime | None = None
    applied_step_id: UUID | None = None
    """The step that consumed it: of a gate, or its own."""
    decided_at: datetime | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    skipped: tuple[Mapping[str, str], ...] = ()
    tier: int = 0
    """Which of the node's tiers by amount it is."""
    enough: Any = None
    """Which groups must agree: the name of one, or `{"all": […]}` or `{"any": […]}` of several such."""
    default: Mapping[str, Any] | None = None
    """What it comes to when nobody answers in time: `{"status": …, "at": …}`."""
    directory: str | None = None
    """`members` where those who are asked were found there."""
    seats: tuple[Seat, ...] = ()
    decisions: tuple[Decision, ...] = ()
    is_new: bool = False
    changed: bool = False
    """Whether the row has to be written again."""
    new_decisions: list[Decision] = field(default_factory=list)
    touched_seats: dict[UUID, Seat] = field(default_factory=dict)

    def end(self, status: RequestStatus, now: datetime, reason: str | None = None) -> None:
        """Nobody is asked any more."""
        self.status, self.decided_at, self.reason, self.changed = status, now, reason, True
        self.set_seats({seat.id: "closed" for seat in self.seats if seat.status in ("open", "later")})

    def exclude(self, originators: Iterable[str]) -> None:
        """Close the seats of people whose work has become part of what is asked about; they never decide it."""
        added = frozenset(originators) - self.originators
        if not added:
            return
        self.originators, self.changed = self.originators | added, True
        mine = [seat for seat in self.seats if seat.user_id in added and seat.status in ("open", "later")]
        self.set_seats({seat.id: "closed" for seat in mine})
        if self.claimed_by in added:
            self.unclaim()

    def decisions_of(self, group: str) -> list[Decision]:
        seats = {seat.id for seat in self.seats_of(group)}
        return [decision for decision in self.decisions if decision.seat_id in seats]

    def add_decision(self, decision: Decision) -> None:
        self.decisions = (*self.decisions, decision)
        self.new_decisions.append(decision)
        self.set_seats({decision.seat_id: "decided"})
