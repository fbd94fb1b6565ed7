"""Steps that wait: for a time, for an event, for documents."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from assent.model.contract import Name
from assent.model.graph import NodeKind, Outcome
from assent.model.nodes.base import Languages, NodeDeclaration, Timed, in_seconds, use_nothing
from assent.model.requirements import Conditions, OnFail, require_people_asked
from assent.model.terms import Cron, Duration, Expression, Language, Outputs, Text, not_empty, refuse


class WaitTimer(NodeDeclaration):
    kind = NodeKind.WAIT_TIMER
    uses = use_nothing
    waits = True
    shape = ("[[", "]]")
    languages: ClassVar[Languages] = {"until": Language.MOMENT}

    type: Literal["wait_timer"]
    for_: Duration | None = Field(default=None, alias="for")
    until: Expression | None = None
    cron: Cron | None = None

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if sum(value is not None for value in (self.for_, self.until, self.cron)) != 1:
            raise refuse("BAD_VALUE", "exactly one of `for`, `until` and `cron` was expected")
        return self

    def config(self) -> dict[str, Any]:
        return in_seconds(super().config(), "for")


class WaitEvent(Timed):
    kind = NodeKind.WAIT_EVENT
    uses = use_nothing
    waits = True
    shape = ("[[", "]]")
    languages: ClassVar[Languages] = {"key": Language.TEMPLATE, "output": Language.RESULT}

    type: Literal["wait_event"]
    key: Text
    """The key of the event, such as `delivery:pod:{entity.shipment_id}`."""
    output: Outputs = Field(default_factory=dict)
    outcomes: tuple[Name, ...] = ()
    """Other outcomes than `completed`, named by the sender of the event."""

    @property
    def own_outcomes(self) -> frozenset[str]:
        return frozenset(self.outcomes)


class Requirements(Timed):
    kind = NodeKind.REQUIREMENTS
    uses = use_nothing
    waits = True
    shape = ("[[", "]]")
    languages: ClassVar[Languages] = {"on_fail.blocker.resolution": Language.RESOLUTION}
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.ERROR})

    type: Literal["requirements"]
    requirements: Annotated[Conditions, AfterValidator(not_empty)]
    """All of them; `any` inside a requirement loosens it."""
    on_fail: OnFail | None = None

    @model_validator(mode="after")
    def _asks_who_is_required(self) -> Self:
        require_people_asked(self.requirements, self.on_fail)
        return self

    def config(self) -> dict[str, Any]:
        return super().config() | {"requirements": [part.compiled() for part in self.requirements]}
