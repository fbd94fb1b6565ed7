"""What a workflow needs to see before it goes on: evidence conditions, and what to do while they fail."""

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, Union

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from assent.model.parse import Declaration, shown
from assent.model.terms import Duration, not_empty, refuse, seconds_of

RequirementName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


_VARIABLE: Final = re.compile(r"\$[a-z][a-z0-9_]{0,62}(?:\.[a-z][a-z0-9_]{0,62}){0,3}")
ITEM: Final = "item"
"""What a person of `for_each` is called in its conditions, and in the resolution."""


def _subject(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise refuse("BAD_VALUE", f"{shown(value)} is not a variable such as `$entity_id`")
    return value


def _list(value: str) -> str:
    if names_item(_subject(value)):
        raise refuse("BAD_VALUE", f"{shown(value)} is one person; a list such as `$owners` was expected")
    return value


def names_item(text: str) -> bool:
    """Return whether a text names the person of a `for_each`."""
    return re.search(rf"\${ITEM}(?![a-z0-9_])", text) is not None


Subject = Annotated[str, AfterValidator(_subject)]
"""Whose evidence it is: a variable of the workflow, or a field of one, such as `$item.id`."""
PeopleList = Annotated[str, AfterValidator(_list)]
"""A list of people: ids, or objects with their ids."""


class RequirementState(StrEnum):
    """How far a piece of evidence must have come; each includes the ones after it."""

    REQUESTED = "requested"
    RECEIVED = "received"
    IN_QA = "in_qa"
    VERIFIED = "verified"


class RequirementSatisfied(Declaration):
    type: Literal["requirement_satisfied"]
    doc_type: RequirementName
    min_state: RequirementState = RequirementState.VERIFIED
    subject: Subject | None = None
    """`$entity_id` if it does not say; inside `for_each`, the person."""
    max_age_days: int | None = Field(default=None, ge=1)

    def compiled(self, subject: str = "$entity_id") -> dict[str, Any]:
        return {"subject": subject} | self.model_dump(mode="json", exclude_none=True)


class DocumentExists(Declaration):
    """The older spelling of `requirement_satisfied`, and compiled to it."""

    type: Literal["document_exists"]
    document_type: RequirementName
    status: RequirementState = RequirementState.VERIFIED
    subject: Subject | None = None
    max_age_days: int | None = Field(default=None, ge=1)

    def compiled(self, subject: str = "$entity_id") -> dict[str, Any]:
        return RequirementSatisfied(
            type="requirement_satisfied",
            doc_type=self.document_type,
            min_state=self.status,
            subject=self.subject,
            max_age_days=self.max_age_days,
        ).compiled(subject)


class AllOf(Declaration):
    all: Annotated[tuple["Requirement", ...], AfterValidator(not_empty)]

    def compiled(self, subject: str = "$entity_id") -> dict[str, Any]:
        return {"all": [part.compiled(subject) for part in self.all]}


class AnyOf(Declaration):
    any: Annotated[tuple["Requirement", ...], AfterValidator(not_empty)]

    def compiled(self, subject: str = "$entity_id") -> dict[str, Any]:
        return {"any": [part.compiled(subject) for part in self.any]}


class ForEach(Declaration):
    """The same documents of each person of a list, such as the owners of a company."""

    for_each: PeopleList
    all: Annotated[tuple["Requirement", ...], AfterValidator(not_empty)]
    """What is required of each; the person is `$item`."""

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if any(_has_list(part) for part in self.all):
            raise refuse("MISPLACED_KEY", "a `for_each` inside of another is not supported")
        return self

    def compiled(self, subject: str = f"${ITEM}") -> dict[str, Any]:
        return {"for_each": self.for_each, "all": [part.compiled(f"${ITEM}") for part in self.all]}


def _has_list(part: Any) -> bool:
    return isinstance(part, ForEach) or any(map(_has_list, _parts_of(part)))


def _parts_of(part: Any) -> tuple[Any, ...]:
    if isinstance(part, AllOf | ForEach):
        return part.all
    return part.any if isinstance(part, AnyOf) else ()


def _names_item_outside(part: Any) -> bool:
    if isinstance(part, ForEach):
        return False
    subject = getattr(part, "subject", None)
    return (subject is not None and names_item(subject)) or any(map(_names_item_outside, _parts_of(part)))


def _within_lists(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse the person of a `for_each` where there is none."""
    if any(map(_names_item_outside, parts)):
        raise refuse("MISPLACED_KEY", f"`${ITEM}` is the person of a `for_each`; there is none around it")
    return parts


def require_people_asked(requirements: tuple[Any, ...], on_fail: "OnFail | None") -> None:
    """Raise unless a resolution asks the people of `for_each`, and no others."""
    if on_fail is None:
        return
    has_list, asks_each = any(map(_has_list, requirements)), names_item(on_fail.blocker.resolution)
    if has_list and not asks_each:
        message = f"the resolution asks no person of `for_each`: write `:subject-entity-id ${ITEM}`"
        raise refuse("MISSING_KEY", message)
    if asks_each and not has_list:
        raise refuse("MISPLACED_KEY", f"the resolution names `${ITEM}`, and there is no `for_each`")


def _tag(value: Any) -> str | None:
    if isinstance(value, Declaration):
        return _TAGS[type(value).__name__]
    if not isinstance(value, dict):
        return None
    for key in ("for_each", "all", "any"):
        if key in value:
            return f"[{key}]"
    return f"[{value.get('type')}]"


_TAGS: Final = {
    "RequirementSatisfied": "[requirement_satisfied]",
    "DocumentExists": "[document_exists]",
    "AllOf": "[all]",
    "AnyOf": "[any]",
    "ForEach": "[for_each]",
}

Requirement = Annotated[
    Union[  # noqa: UP007 - the members carry tags
        Annotated[RequirementSatisfied, Tag("[requirement_satisfied]")],
        Annotated[DocumentExists, Tag("[document_exists]")],
        Annotated[AllOf, Tag("[all]")],
        Annotated[AnyOf, Tag("[any]")],
        Annotated[ForEach, Tag("[for_each]")],
    ],
    Discriminator(
        _tag,
        custom_error_type="UNKNOWN_KIND",
        custom_error_message="expected `for_each`, `all`, `any`, or `type: requirement_satisfied | document_exists`",
        custom_error_context={"known": "requirement_satisfied, document_exists"},
    ),
]

Conditions = Annotated[tuple[Requirement, ...], AfterValidator(_within_lists)]
"""What a step requires: all of them."""


class Blocker(Declaration):
    """What stands in the way, and the verb that gets it out of it."""

    type: RequirementName
    resolution: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    expected_count: int | None = Field(default=None, ge=1, le=500)
    """How many results the request for all of them has to bring; one for each document, if it does not say."""
    ask_again_after: Duration | None = None
    """How long to wait before documents that did not come are asked for again; seven days, if it does not say."""
    max_attempts: int | None = Field(default=None, ge=1, le=100)
    """How many rounds of asking there are; three, if it does not say. Then it takes a person."""
    due: Duration | None = None
    """How long the party has, from the first round: the due date that it reads, and that lists are filtered by."""
    remind: Duration | None = None
    """How long before the due date those are reminded, once, who have sent nothing since they were asked."""

    @model_validator(mode="after")
    def _reminds_of_a_date(self) -> Self:
        if self.remind is not None and self.due is None:
            raise refuse("MISPLACED_KEY", "`remind` needs `due`")
        if (
            self.remind is not None
            and self.due is not None
            and seconds_of(self.remind) >= seconds_of(self.due)
        ):
            raise refuse("BAD_VALUE", "`remind` is shorter than `due`")
        return self


class OnFail(Declaration):
    blocker: Blocker
