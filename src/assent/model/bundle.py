"""A bundle: what an outside party sends back at a time, always as a list of items, under a key of its own.

It is checked wherever one comes in: over HTTP, from Python, and when a worker takes it out of the queue, for a person
may have written into the table. `assent.bundle_problem` says the same to callers in SQL.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from assent.model.cargo import parse_cargo
from assent.model.names import is_blank
from assent.model.parse import Declaration, FewProblems, parse_declaration
from assent.model.problems import Problem
from assent.model.terms import refuse

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


Cargo = Annotated[str, AfterValidator(_pointer)]
DeliveryKey = Annotated[
    str, Field(min_length=1, max_length=KEY_LENGTH_MAX), AfterValidator(_kept), AfterValidator(_named)
]
ErrorText = Annotated[str, Field(max_length=ERROR_LENGTH_MAX), AfterValidator(_kept)]
Kind = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_kept), AfterValidator(_named)]


class BundleItem(Declaration):
    cargo: Cargo | None = Field(None, examples=["external://vault/passport-17"])
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
        """As it is kept: what was sent, and nothing that was not."""
        return self.model_dump(mode="json", exclude_unset=True)


def read_bundle(data: object) -> Bundle | list[Problem]:
    """Return the bundle in the data, or all its problems."""
    bundle, problems = parse_declaration(Bundle, data)
    return problems if bundle is None else bundle
