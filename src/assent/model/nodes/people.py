"""Steps of people: approvals and forms."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from assent.model.contract import FieldSpec, Name
from assent.model.graph import NodeKind, Outcome
from assent.model.nodes.base import Languages, Timed, in_seconds
from assent.model.people import People
from assent.model.terms import Duration, Language, refuse


class Approval(Timed):
    kind = NodeKind.APPROVAL
    languages: ClassVar[Languages] = {
        "approvers.rule": Language.PEOPLE,
        "approvers.manager": Language.PEOPLE,
    }
    outcomes_given = frozenset({Outcome.APPROVED, Outcome.REJECTED, Outcome.ERROR})

    type: Literal["approval"]
    approvers: People | None = None
    assignee: People | None = None
    """Another word for `approvers`, as flows have it for every step of a person."""
    mode: Literal["any", "all", "quorum"] = "any"
    """Whether one approver is enough, or all are needed, or `quorum` of them."""
    quorum: int | None = Field(default=None, ge=1, le=100)
    due: Duration | None = None
    """When the approvers are late; it ends nothing, `timeout` does."""
    form: Mapping[Name, FieldSpec] = {}
    outcomes: tuple[Name, ...] = ()
    """Other answers than yes and no, such as `more_information`."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.approvers is None) == (self.assignee is None):
            raise refuse("BAD_VALUE", "exactly one of `approvers` and `assignee` was expected")
        if (self.mode == "quorum") != (self.quorum is not None):
            raise refuse("BAD_VALUE", "`mode: quorum` and `quorum: <number>` go together")
        return self

    def config(self) -> dict[str, Any]:
        found = super().config()
        found["approvers"] = found.pop("assignee", None) or found["approvers"]
        return in_seconds(found, "due")


class Form(Timed):
    kind = NodeKind.FORM
    languages: ClassVar[Languages] = {
        "assignee.rule": Language.PEOPLE,
        "assignee.manager": Language.PEOPLE,
    }

    type: Literal["form"]
    assignee: People | None = None
    """Who fills it in; whoever started the workflow when nobody is named."""
    form: Mapping[Name, FieldSpec] = {}
    outcomes: tuple[Name, ...] = ()
    """The events that end it; unsaid, those that its edges answer."""

    @model_validator(mode="after")
    def _no_chain(self) -> Self:
        if self.assignee is not None and self.assignee.chain is not None:
            raise refuse("BAD_VALUE", "a chain is of approvals; a form has one assignee")
        return self
