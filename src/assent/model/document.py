"""Documents that are required of outside parties: their states, what satisfies a condition, and what stands in the way.

A requirement moves as `REQUIREMENT_MOVES` says. Each move returns a new value; the database refuses every other move.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Self
from uuid import UUID

from assent.model.moves import REQUIREMENT_MOVES
from assent.model.names import is_blank
from assent.model.parse import shown
from assent.model.requirements import ITEM

RequirementStatus = Literal[
    "missing", "requested", "received", "in_qa", "verified", "rejected", "expired", "waived"
]
RequiredState = Literal["received", "verified"]
VersionStatus = Literal["pending", "in_qa", "verified", "rejected"]
BlobStatus = Literal["uploading", "kept", "deleting", "deleted"]
DocumentSource = Literal["upload", "ocr", "api", "gleif", "workflow"]

ON_REQUIREMENT: Final = "on_requirement"
"""A requirement of the instance has changed."""

MAX_ATTEMPTS: Final = 3
"""The rounds of asking, if a requirement does not say how many."""

_ORDER: Final[Mapping[str, int]] = {"missing": 0, "requested": 1, "received": 2, "in_qa": 3, "verified": 4}


def satisfies(status: str, min_state: str) -> bool:
    """Return whether a status is far enough. Rejected and expired never are; waived and verified always are."""
    if status in ("rejected", "expired"):
        return False
    return status in ("waived", "verified") or _ORDER[status] >= _ORDER[min_state]


def required_state_of(min_state: str) -> RequiredState:
    """Return the tier of a condition: a document that is collected, or one that passed its review."""
    return "received" if min_state in ("requested", "received") else "verified"


class IllegalMove(Exception):
    """A move that `REQUIREMENT_MOVES` does not have."""


@dataclass(frozen=True, slots=True)
class RejectionCode:
    """Why a version is rejected, and what the client can do about it."""

    code: str
    category: str
    client_message: str
    ops_message: str
    next_action: str
    retryable: bool = True
    translations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Language → `client_message` and `next_action`."""

    def message(self, language: str | None = None) -> str:
        """Return what the client reads: what was wrong, and what to do; in a language, if it is translated."""
        words = self.translations.get(language or "", {})
        said = words.get("client_message", self.client_message)
        return f"{said} {words.get('next_action', self.next_action)}"


@dataclass(frozen=True, slots=True)
class DocumentRequirement:
    """A document that is needed of a subject, as its row is or will be."""

    org_id: str
    id: UUID
    subject: str
    doc_type: str
    created_at: datetime
    instance_id: UUID | None = None
    partition_id: str | None = None
    required_state: RequiredState = "verified"
    status: RequirementStatus = "missing"
    attempt_count: int = 0
    max_attempts: int = MAX_ATTEMPTS
    request_id: UUID | None = None
    document_id: UUID | None = None
    version_id: UUID | None = None
    rejection_code: str | None = None
    rejection_reason: str | None = None
    waived_by: str | None = None
    due_date: date | None = None
    valid_to: date | None = None
    requested_at: datetime | None = None
    satisfied_at: datetime | None = None
    reminded_at: datetime | None = None
    revision: int = 1
    rejection: RejectionCode | None = None
    """The code of the last rejection, with its messages."""
    request_is_open: bool = False
    """Whether results of its request can still come."""
    request_step_id: UUID | None = None
    """The step that made the request."""
    senders: Sequence[str] = ()
    """Who handed its version in, and who made the key with which that came."""

    @property
    def place(self) -> tuple[str, str]:
        return self.subject, self.doc_type

    @property
    def contributors(self) -> tuple[str, ...]:
        """Return whose work it is that it has come so far: those who handed the document in, and who waived it."""
        return tuple(one for one in (self.waived_by, *self.senders) if one is not None)

    @property
    def has_attempts(self) -> bool:
        return self.attempt_count < self.max_attempts

    @property
    def can_be_asked_again(self) -> bool:
        """Return whether a rejected document is worth another round: its code allows it, and rounds are left."""
        return (self.rejection is None or self.rejection.retryable) and self.has_attempts

    def to_row(self) -> dict[str, Any]:
        """Return the columns of its row."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NO_COLUMNS}

    def _move(self, status: RequirementStatus, **changes: Any) -> Self:
        if status != self.status and status not in REQUIREMENT_MOVES[self.status]:
            raise IllegalMove(
                f"{self.doc_type} of {self.subject} may not move from {self.status} to {status}"
            )
        return replace(self, status=status, revision=self.revision + 1, **changes)

    def may_move(self, status: RequirementStatus) -> bool:
        return status in REQUIREMENT_MOVES[self.status]

    def ask(self, request_id: UUID, step_id: UUID | None, now: datetime) -> Self:
        """Begin a round of asking, of a step or of a person."""
        return self._move(
            "requested",
            request_id=request_id,
            request_is_open=True,
            request_step_id=step_id,
            requested_at=now,
            satisfied_at=None,
            attempt_count=self.attempt_count + 1,
        )

    def carry(self, request_id: UUID, step_id: UUID) -> Self:
        """Wait for another request, which takes the place of the one that asked: no new round."""
        return self._move(self.status, request_id=request_id, request_is_open=True, request_step_id=step_id)

    def remind(self, now: datetime) -> Self:
        """Note that the party was reminded of the due date."""
        return self._move(self.status, reminded_at=now)

    def requiring(self, state: RequiredState) -> Self:
        """Require a state, if it is more than the one that was required."""
        if self.required_state == "verified" or state == "received":
            return self
        satisfied_at = None if self.status in ("received", "in_qa") else self.satisfied_at
        return self._move(self.status, required_state=state, satisfied_at=satisfied_at)

    def receive(self, document_id: UUID, version_id: UUID, now: datetime) -> Self:
        """Take a version in; one in the place of another that is not reviewed yet leaves the status as it is."""
        came = {"document_id": document_id, "version_id": version_id}
        if self.status in ("received", "in_qa"):
            return self._move(self.status, **came)
        satisfied_at = now if self.required_state == "received" else None
        return self._move("received", satisfied_at=satisfied_at, **came)

    def begin_review(self) -> Self:
        return self._move("in_qa")

    def verify(self, now: datetime, valid_to: date | None = None) -> Self:
        return self._move("verified", satisfied_at=self.satisfied_at or now, valid_to=valid_to)

    def reject(self, code: RejectionCode, reason: str | None) -> Self:
        return self._move(
            "rejected", satisfied_at=None, rejection_code=code.code, rejection_reason=reason, rejection=code
        )

    def expire(self) -> Self:
        """Let a verified document lapse: the rounds of asking begin again."""
        return self._move("expired", satisfied_at=None, attempt_count=0, valid_to=None)

    def waive(self, by: str, now: datetime) -> Self:
        return self._move("waived", satisfied_at=now, waived_by=by)

    def reset(self) -> Self:
        """Begin again, as if nothing had been asked or handed in; what was is in the events."""
        return self._move(
            "missing",
            **dict.fromkeys(
                (
                    *(
                        "request_id",
                        "document_id",
                        "version_id",
                        "rejection_code",
                        "rejection_reason",
                        "rejection",
                    ),
                    *(
                        "waived_by",
                        "valid_to",
                        "requested_at",
                        "satisfied_at",
                        "reminded_at",
                        "request_step_id",
                    ),
                )
            ),
            request_is_open=False,
            attempt_count=0,
        )

    def arrive(self, document_id: UUID, version_id: UUID, now: datetime) -> list[Self]:
        """Return the values through which a version takes it: received, and in review where that is required."""
        if self.status not in ("received", "in_qa") and not self.may_move("received"):
            return []
        received = self.receive(document_id, version_id, now)
        if received.status == "received" and received.required_state == "verified":
            return [received, received.begin_review()]
        return [received]


_NO_COLUMNS: Final = frozenset({"rejection", "request_is_open", "request_step_id", "senders"})


class RequirementChange(NamedTuple):
    """One move of a requirement; `before` is None where it begins."""

    before: DocumentRequirement | None
    after: DocumentRequirement


Requirements = Mapping[tuple[str, str], DocumentRequirement]
"""Subject and type → the requirement of an instance."""


@dataclass(frozen=True, slots=True)
class WantedDocument:
    """A condition of a node about one document."""

    doc_type: str
    subject: str
    min_state: str
    max_age_days: int | None = None

    @property
    def place(self) -> tuple[str, str]:
        return self.subject, self.doc_type

    def is_met_by(self, row: DocumentRequirement | None, now: datetime) -> bool:
        """Return whether a requirement is far enough, still valid, and not too old. No row is not enough."""
        if row is None or not satisfies(row.status, self.min_state):
            return False
        if row.valid_to is not None and row.status == "verified" and row.valid_to < now.date():
            return False
        return not self.is_too_old(row, now)

    def is_too_old(self, row: DocumentRequirement, now: datetime) -> bool:
        if self.max_age_days is None or row.satisfied_at is None or row.status == "waived":
            return False
        return row.satisfied_at < now - timedelta(days=self.max_age_days)


@dataclass(frozen=True, slots=True)
class DocumentGroup:
    """Conditions of which all, or any, must be met."""

    any: bool
    parts: tuple["WantedDocument | DocumentGroup", ...]


Wanted = WantedDocument | DocumentGroup


class SubjectMissing(Exception):
    """A variable of a condition names no subject, or no people."""


SUBJECT_LENGTH_MAX: Final = 200
PEOPLE_MAX: Final = 100
"""How many people one `for_each` has at most."""


def wanted_of(config: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> DocumentGroup:
    """Return the conditions of a node for the subjects that its variables name now; raise `SubjectMissing`."""
    return DocumentGroup(False, tuple(_wanted(part, variables) for part in config))


def _wanted(part: Mapping[str, Any], variables: Mapping[str, Any]) -> Wanted:
    if "for_each" in part:
        people = people_of(part["for_each"], variables)
        return DocumentGroup(False, tuple(wanted_of(part["all"], {**variables, ITEM: one}) for one in people))
    for name in ("all", "any"):
        if name in part:
            return DocumentGroup(name == "any", tuple(_wanted(one, variables) for one in part[name]))
    subject = subject_of(part["subject"], variables)
    return WantedDocument(part["doc_type"], subject, part["min_state"], part.get("max_age_days"))


def subject_of(name: str, variables: Mapping[str, Any]) -> str:
    """Return the subject that `$name` stands for."""
    value = _looked_up(name, variables)
    if isinstance(value, Mapping | list | tuple | bool):
        raise SubjectMissing(f"expected an id in `{name}`, found {shown(value)}")
    subject = "" if value is None else str(value)
    if is_blank(subject) or len(subject) > SUBJECT_LENGTH_MAX:
        raise SubjectMissing(f"expected a subject in `{name}`, found {subject[:50]!r}")
    return subject


def people_of(name: str, variables: Mapping[str, Any]) -> Sequence[Any]:
    """Return the people of a `for_each`. A list without any is a mistake, and not a condition that is met."""
    people = _looked_up(name, variables)
    if not isinstance(people, list | tuple) or not people:
        raise SubjectMissing(f"expected a list of people in `{name}`, found {shown(people)}")
    if len(people) > PEOPLE_MAX:
        raise SubjectMissing(f"expected {PEOPLE_MAX} people in `{name}` at most, found {len(people)}")
    return people


def _looked_up(name: str, variables: Mapping[str, Any]) -> Any:
    value: Any = variables
    for key in name.removeprefix("$").split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def lists_of(config: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lists of people that the conditions of a node name."""
    found: list[str] = []
    for part in config:
        found += (
            [part["for_each"]] if "for_each" in part else lists_of(part.get("all") or part.get("any") or ())
        )
    return found


def places_of(wanted: Wanted) -> list[tuple[str, str]]:
    """Return the subjects and types that conditions are about."""
    if isinstance(wanted, WantedDocument):
        return [wanted.place]
    return list(dict.fromkeys(place for part in wanted.parts for place in places_of(part)))


def is_met(wanted: Wanted, rows: Requirements, now: datetime) -> bool:
    if isinstance(wanted, WantedDocument):
        return wanted.is_met_by(rows.get(wanted.place), now)
    combine = any if wanted.any else all
    return combine(is_met(part, rows, now) for part in wanted.parts)


def unmet(wanted: Wanted, rows: Requirements, now: datetime) -> Iterator[WantedDocument]:
    """Yield what stands in the way; of a group of which any would do, all of it."""
    if is_met(wanted, rows, now):
        return
    if isinstance(wanted, WantedDocument):
        yield wanted
        return
    for part in wanted.parts:
        yield from unmet(part, rows, now)


def is_hopeless(wanted: Wanted, rows: Requirements, now: datetime, lost: frozenset[tuple[str, str]]) -> bool:
    """Return whether it cannot be met without a person; `lost` are the documents that no round can bring."""
    if is_met(wanted, rows, now):
        return False
    if isinstance(wanted, WantedDocument):
        return wanted.place in lost
    combine = all if wanted.any else any
    return combine(is_hopeless(part, rows, now, lost) for part in wanted.parts)
