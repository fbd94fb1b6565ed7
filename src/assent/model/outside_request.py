"""Outside requests: work asked of an outside party by a step, which rests until results have decided it.

Results come as bundles: what the party sends back at a time, always as a list of items, under a key of its own. A
bundle is checked wherever one comes in: over HTTP, from Python, and when a worker takes it out of the queue, for a
person may have written into the table. `assent.bundle_problem` says the same to callers in SQL.

An item is cargo: a pointer, `version://assent/<id>`; what it points to is kept elsewhere. One thing has one spelling,
for it is received once. `assent.is_cargo` in the database says the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, cast, get_args
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from assent.model.names import is_blank
from assent.model.parse import Declaration, FewProblems, listed, parse_declaration, shown
from assent.model.problems import Problem
from assent.model.terms import refuse

OutsideStatus = Literal["pending", "partial", "completed", "failed", "expired", "cancelled"]

OPEN: Final = frozenset({"pending", "partial"})

EXPECTED_MAX: Final = 500

REQUEST_KEY: Final = "request"
"""Where the payload of a webhook names the request whose results are awaited."""

ON_RESULT: Final = "on_result"
"""The results of a request have decided it, or its time is over."""


@dataclass(frozen=True, slots=True)
class OutsideRequest:
    """What a step or a person asks, as it is written once."""

    org_id: str
    id: UUID
    instance_id: UUID | None
    step_id: UUID | None
    """The step that waits; none where a person asked."""
    node_id: str | None
    token_id: str | None
    name: str
    """What is asked: the workflow and the node, such as `kyc.onboarding.screening`."""
    created_at: datetime
    arguments: Mapping[str, Any]
    """What goes out, as it was when it was asked."""
    expected: int = 1
    """How many items make it complete."""
    expires_at: datetime | None = None
    partition_id: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ClosedRequest:
    """A request that ends before its step does: another asks for the rest (D34)."""

    org_id: str
    id: UUID
    reason: str
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step that asked something has ended: whatever is still open of it ends too (D24)."""

    org_id: str
    step_id: UUID
    status: OutsideStatus
    reason: str | None
    ended_at: datetime


CargoKind = Literal["version", "document", "entity", "screening", "external"]

OURS: Final = "assent"
"""Where a thing of ours is; an outside system has a name of its own."""

_KINDS: Final[tuple[str, ...]] = get_args(CargoKind)
_POINTER: Final = re.compile(r"([a-z]+)://([a-z0-9][a-z0-9._-]{0,62})/([!-~]{1,255})")
_HINT: Final = "version://assent/<id>, or external://<system>/<id> for something of another system"


@dataclass(frozen=True, slots=True)
class Cargo:
    """A pointer to something of ours by its id, or to something of an outside system."""

    kind: CargoKind
    place: str
    """`assent`, or the name of the outside system."""
    id: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.place}/{self.id}"


def parse_cargo(text: object) -> Cargo | Problem:
    """Return the cargo that a text spells, or what is wrong with it."""
    found = _POINTER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return _bad_cargo(f"expected a pointer, found {shown(text)}")
    kind, place, key = found.groups()
    if kind not in _KINDS:
        return _bad_cargo(f"expected {listed(_KINDS)}, found {shown(kind)}")
    if kind != "external" and not (place == OURS and _is_id(key)):
        return _bad_cargo(f"expected {kind}://{OURS}/ and an id in lower case, found {shown(text)}")
    return Cargo(cast(CargoKind, kind), place, key)


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _bad_cargo(message: str) -> Problem:
    return Problem("BAD_CARGO", message, ("cargo",), _HINT)


ITEMS_MAX: Final = 500
"""Of one bundle."""
KEY_LENGTH_MAX: Final = 200
ERROR_LENGTH_MAX: Final = 2_000

ResultStatus = Literal["completed", "failed", "expired"]


def _kept(text: str) -> str:
    if "\x00" in text:
        raise refuse("BAD_VALUE", "expected a text without NUL")
    return text


def _named(text: str) -> str:
    if is_blank(text):
        raise refuse("BLANK", f"expected a text with something to see in it, found {text!r}")
    return text


def _pointer(text: str) -> str:
    found = parse_cargo(text)
    if isinstance(found, Problem):
        raise refuse(found.code, found.message, hint=found.hint)
    return str(found)


CargoText = Annotated[str, AfterValidator(_pointer)]
DeliveryKey = Annotated[
    str, Field(min_length=1, max_length=KEY_LENGTH_MAX), AfterValidator(_kept), AfterValidator(_named)
]
ErrorText = Annotated[str, Field(max_length=ERROR_LENGTH_MAX), AfterValidator(_kept)]
Kind = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_kept), AfterValidator(_named)]


class BundleItem(Declaration):
    cargo: CargoText | None = Field(None, examples=["external://vault/passport-17"])
    """Where the thing is: `version://assent/<id>`, `external://<system>/<id>`, …; one that failed may have none."""
    kind: Kind | None = Field(None, examples=["passport"])
    """What the sender calls it."""
    status: ResultStatus = "completed"
    error: ErrorText | None = None

    @model_validator(mode="after")
    def _completed_has_cargo(self) -> Self:
        if self.status == "completed" and self.cargo is None:
            raise refuse("MISSING_KEY", "a completed item points to its cargo")
        return self


class Bundle(FewProblems, Declaration):
    key: DeliveryKey = Field(examples=["evt_17"])
    """The sender's own: the same key again changes nothing."""
    status: ResultStatus = "completed"
    """Of the whole: `failed` and `expired` say that nothing more will come."""
    items: tuple[BundleItem, ...] = Field((), max_length=ITEMS_MAX)
    error: ErrorText | None = None

    @model_validator(mode="after")
    def _completed_has_items(self) -> Self:
        if self.status == "completed" and not self.items:
            raise refuse("MISSING_KEY", "a completed result has items")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return it as it is kept: what was sent, and nothing that was not."""
        return self.model_dump(mode="json", exclude_unset=True)


def parse_bundle(data: object) -> tuple[Bundle | None, list[Problem]]:
    """Return the bundle in the data, or None and all its problems."""
    return parse_declaration(Bundle, data)
