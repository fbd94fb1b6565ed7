"""Approval requests, the seats of the people who are asked, and their decisions.

A request is about one version of an entity, and holds for its content: what people wrote, without the fields that only
the workflow writes.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, Self
from uuid import UUID

from assent.model.money import figure_text

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
    """One way to find people, with its expressions evaluated."""

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
    """A person who was found."""

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
    """`members` where they were found there, so that the database itself can check again; else None."""


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
    """The seat whose place it took, if it was reassigned."""
    note: str | None = None

    @property
    def role(self) -> str | None:
        """The role by which this person was found."""
        return self.via.removeprefix(_BY_ROLE) if self.via.startswith(_BY_ROLE) else None

    def with_status(self, status: SeatStatus) -> "Seat":
        # Every decision changes all seats of a request, and `replace` takes three times as long.
        about = self.id, self.user_id, self.group, self.position, self.via
        return Seat(*about, status, self.email, self.replaces, self.note)

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
    """A person stands in for another, for a time and for some matters."""

    id: UUID
    from_user: str
    to_user: str
    entity_types: tuple[str, ...] = ()
    """What it is about; everything when empty."""
    workflows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Presence:
    """The people who are active now, and their roles, as far as an input concerns them."""

    present: frozenset[tuple[str, str | None]] = frozenset()
    """People with a role, or with none where only that they are active was asked."""

    def has(self, user_id: str, role: str | None = None) -> bool:
        return (user_id, role) in self.present


@dataclass(frozen=True)
class SeatedRequest:
    """A question to people, each in a seat: an approval request, or a form. A value: changes are new values.

    Without slots, so that `evolve` copies the fields in one call: with about forty of them, `replace` takes eight times
    as long.
    """

    org_id: str
    id: UUID
    instance_id: UUID
    step_id: UUID
    node_id: str
    requested_by: str
    created_at: datetime
    node_name: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = 0
    partition_id: str | None = None
    title: str | None = None
    figure: Any = None
    currency: str | None = None
    """Of the figure, where it is money with a currency."""
    due_at: datetime | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    skipped: tuple[Mapping[str, str], ...] = ()
    """The people who were found and not asked: `{"user_id": …, "why": "inactive"}`."""
    seats: tuple[Seat, ...] = ()

    def evolve(self, **changes: Any) -> Self:
        evolved = object.__new__(type(self))
        evolved.__dict__.update(self.__dict__)
        evolved.__dict__.update(changes)
        return evolved

    def claim(self, user_id: str, now: datetime) -> Self:
        return self.evolve(claimed_by=user_id, claimed_at=now)

    def unclaim(self) -> Self:
        return self.evolve(claimed_by=None, claimed_at=None) if self.claimed_by is not None else self

    def set_seats(self, statuses: Mapping[UUID, SeatStatus]) -> Self:
        """Return it with other statuses of some seats."""
        return self.evolve(seats=self._seats_with(statuses)) if statuses else self

    def put_seats(self, seats: Iterable[Seat]) -> Self:
        """Return it with seats that are new, or take the place of those with their id."""
        return self.evolve(
            seats=tuple(({seat.id: seat for seat in self.seats} | {s.id: s for s in seats}).values())
        )

    def close_seats(self, user_ids: Container[str]) -> Self:
        """Return it with the seats of these people closed, unless they have decided."""
        return self.set_seats({seat.id: "closed" for seat in self.waiting_seats if seat.user_id in user_ids})

    @property
    def figure_text(self) -> str | None:
        """The figure as people read it."""
        return figure_text(self.figure, self.currency)

    @property
    def waiting_seats(self) -> list[Seat]:
        """The seats whose people are asked, or will be."""
        return [seat for seat in self.seats if seat.status in ("open", "later")]

    def seats_of(self, group: str) -> list[Seat]:
        return [seat for seat in self.seats if seat.group == group]

    def _seats_with(self, statuses: Mapping[UUID, SeatStatus]) -> tuple[Seat, ...]:
        return tuple(
            seat.with_status(statuses[seat.id]) if seat.id in statuses else seat for seat in self.seats
        )


@dataclass(frozen=True)
class ApprovalRequest(SeatedRequest):
    """A question to approvers about one version of one entity, or about a flow."""

    token_id: str = ""
    generation: int = 0
    slot: str = ""
    """Where it was asked: requests of one slot and one generation are consumed together (D21)."""
    groups: tuple[Group, ...] = ()
    originators: frozenset[str] = frozenset()
    snapshot_version_id: UUID | None = None
    content_hash: str | None = None
    chain_id: UUID | None = None
    may_repeat: bool = False
    """Whether one person may fill several seats; contracts may relax that."""
    mode: str = "any"
    status: RequestStatus = "pending"
    reason: str | None = None
    applied_at: datetime | None = None
    applied_step_id: UUID | None = None
    """The step that consumed it: of a gate, or its own."""
    decided_at: datetime | None = None
    tier: int = 0
    enough: Any = None
    """Which groups must agree: the name of one, or `{"all": […]}` or `{"any": […]}` of several."""
    default: Mapping[str, Any] | None = None
    """The outcome if no approver answers in time: `{"status": …, "at": …}`."""
    directory: str | None = None
    """`members` if the people were found there."""
    decisions: tuple[Decision, ...] = ()
    questions: int = 0
    """How many questions its approvers have asked; the database counts them."""

    @property
    def content(self) -> str:
        """What it is about, as one word: the hash of the content, or the version where there is no entity."""
        return self.content_hash or f"version {self.entity_version}"

    def end(self, status: RequestStatus, now: datetime, reason: str | None = None) -> Self:
        """Return it decided, cancelled or void, with no seat open."""
        seats = self._seats_with({seat.id: "closed" for seat in self.waiting_seats})
        return self.evolve(status=status, decided_at=now, reason=reason, seats=seats)

    def exclude(self, originators: Iterable[str]) -> Self:
        """Return it without the seats of people whose work has become part of it; they never decide it."""
        added = frozenset(originators) - self.originators
        if not added:
            return self
        excluded = self.evolve(originators=self.originators | added).close_seats(added)
        return excluded.unclaim() if self.claimed_by in added else excluded

    def decisions_of(self, group: str) -> list[Decision]:
        if not self.decisions:
            return []
        seats = {seat.id for seat in self.seats_of(group)}
        return [decision for decision in self.decisions if decision.seat_id in seats]

    def decide(self, decision: Decision) -> Self:
        """Return it with a decision, and the seat of the decision filled."""
        seats = self._seats_with({decision.seat_id: "decided"})
        return self.evolve(decisions=(*self.decisions, decision), seats=seats)


@dataclass(frozen=True, slots=True)
class RequestChanges:
    """The difference between an approval request and its rows."""

    request: ApprovalRequest
    is_new: bool
    is_updated: bool
    """Whether its status, its claim, its originators or its consumption differ from the row."""
    seats: tuple[Seat, ...]
    """Seats that are new, or have another status than their rows."""
    decisions: tuple[Decision, ...]

    @classmethod
    def between(cls, stored: ApprovalRequest | None, request: ApprovalRequest) -> "RequestChanges":
        is_updated = any(
            getattr(request, name) != (getattr(stored, name) if stored is not None else untouched)
            for name, untouched in UPDATED_FIELDS.items()
        )
        if stored is None:
            return cls(request, True, is_updated, request.seats, request.decisions)
        is_updated = is_updated or request.originators != stored.originators
        decisions = request.decisions[len(stored.decisions) :]
        return cls(request, False, is_updated, changed_seats(stored, request), decisions)


UPDATED_FIELDS: Final[Mapping[str, Any]] = {
    "status": "pending",
    "reason": None,
    "applied_at": None,
    "applied_step_id": None,
    "decided_at": None,
    "claimed_by": None,
    "claimed_at": None,
}
"""The fields that change, with their values in a new row."""


def changed_seats(stored: SeatedRequest, asked: SeatedRequest) -> tuple[Seat, ...]:
    """Return the seats that are new, or differ from the stored ones."""
    if asked.seats is stored.seats:
        return ()
    known = {seat.id: seat for seat in stored.seats}
    return tuple(seat for seat in asked.seats if known.get(seat.id) != seat)
