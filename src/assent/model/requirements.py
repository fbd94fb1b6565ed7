"""What a workflow needs to see before it goes on: evidence conditions, and what to do while they fail."""

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Union

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag

from assent.model.parse import Declaration, shown
from assent.model.terms import not_empty, refuse

RequirementName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


def _subject(value: str) -> str:
    if not re.fullmatch(r"\$[a-z][a-z0-9_]{0,62}", value):
        raise refuse("BAD_VALUE", f"{shown(value)} is not a variable such as `$entity_id`")
    return value


Subject = Annotated[str, AfterValidator(_subject)]
"""Whose evidence it is: a variable of the workflow."""


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
    subject: Subject = "$entity_id"
    max_age_days: int | None = Field(default=None, ge=1)

    def compiled(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


class DocumentExists(Declaration):
    """The older spelling of `requirement_satisfied`, and compiled to it."""

    type: Literal["document_exists"]
    document_type: RequirementName
    status: RequirementState = RequirementState.VERIFIED
    subject: Subject = "$entity_id"
    max_age_days: int | None = Field(default=None, ge=1)

    def compiled(self) -> dict[str, Any]:
        return RequirementSatisfied(
            type="requirement_satisfied",
            doc_type=self.document_type,
            min_state=self.status,
            subject=self.subject,
            max_age_days=self.max_age_days,
        ).compiled()


class AllOf(Declaration):
    all: Annotated[tuple["Requirement", ...], AfterValidator(not_empty)]

    def compiled(self) -> dict[str, Any]:
        return {"all": [part.compiled() for part in self.all]}


class AnyOf(Declaration):
    any: Annotated[tuple["Requirement", ...], AfterValidator(not_empty)]

    def compiled(self) -> dict[str, Any]:
        return {"any": [part.compiled() for part in self.any]}


def _tag(value: Any) -> str | None:
    if isinstance(value, Declaration):
        return _TAGS[type(value).__name__]
    if not isinstance(value, dict):
        return None
    for key in ("all", "any"):
        if key in value:
            return f"[{key}]"
    return f"[{value.get('type')}]"


_TAGS: Final = {
    "RequirementSatisfied": "[requirement_satisfied]",
    "DocumentExists": "[document_exists]",
    "AllOf": "[all]",
    "AnyOf": "[any]",
}

Requirement = Annotated[
    Union[  # noqa: UP007 - the members carry tags
        Annotated[RequirementSatisfied, Tag("[requirement_satisfied]")],
        Annotated[DocumentExists, Tag("[document_exists]")],
        Annotated[AllOf, Tag("[all]")],
        Annotated[AnyOf, Tag("[any]")],
    ],
    Discriminator(
        _tag,
        custom_error_type="UNKNOWN_KIND",
        custom_error_message="`all`, `any`, or `type: requirement_satisfied | document_exists` was expected",
        custom_error_context={"known": "requirement_satisfied, document_exists"},
    ),
]


class Blocker(Declaration):
    """What stands in the way, and the verb that gets it out of it."""

    type: RequirementName
    resolution: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    expected_count: int = Field(default=1, ge=1, le=1_000)
    """How many results the request that the verb makes has to bring."""


class OnFail(Declaration):
    blocker: Blocker
