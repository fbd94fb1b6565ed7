"""Steps of people: approvals and forms."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import model_validator

from assent.model.contract import FieldSpec, Name
from assent.model.graph import NodeKind, Outcome
from assent.model.nodes.base import Languages, NodeUse, Timed, in_seconds, use_nothing
from assent.model.people import ApproverSpec, EscalationSpec, PeopleSpec, Tiers
from assent.model.problems import Path
from assent.model.terms import Duration, Expression, Language, refuse, seconds_of

Channel = Literal["email", "sms", "in_app", "chat"]

WAIVE_APPROVAL: Final = "workflow:publish:waive_approval"
"""The capability to publish what weakens approvals."""


class Answering(Timed):
    """A node that waits for people: when they are late, and how they are notified."""

    waits = True
    by_people = True
    shape = ("[/", "/]")
    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("operation", "input", "output"),
        "a call is a step of its own: put a `system` step behind this one, which can be retried by itself",
    )

    due: Duration | None = None
    """When they are late; it ends nothing, `timeout` does."""
    notify: Channel | None = None
    """The channel of all messages; only with it are people notified when they are asked or take another's place."""
    remind: Duration | None = None
    """How often they are reminded until they answer; by e-mail unless `notify` says otherwise."""
    form: Mapping[Name, FieldSpec] = {}
    outcomes: tuple[Name, ...] = ()

    @property
    def own_outcomes(self) -> frozenset[str]:
        return frozenset(self.outcomes)

    def config(self) -> dict[str, Any]:
        return in_seconds(in_seconds(super().config(), "due"), "remind")


_WHO: Final = frozenset({*ApproverSpec.model_fields, "tiers"})
"""What authors write about who is asked; compiled, all of it is `tiers`."""


def _uses_of_approval(config: Mapping[str, Any]) -> Iterable[NodeUse]:
    if config.get("default") == "approved":
        yield NodeUse(WAIVE_APPROVAL, "counts as approved when no approver answers")


class Approval(Answering, ApproverSpec):
    kind = NodeKind.APPROVAL
    uses = _uses_of_approval
    languages: ClassVar[Languages] = {
        "tiers.*.groups.*.approvers.rule": Language.PEOPLE,
        "tiers.*.groups.*.approvers.manager": Language.PEOPLE,
        "amount": Language.NUMBER,
        "escalate.to.rule": Language.PEOPLE,
        "escalate.to.manager": Language.PEOPLE,
    }
    success = Outcome.APPROVED
    outcomes_given = frozenset({Outcome.APPROVED, Outcome.REJECTED, Outcome.ERROR})
    outcomes_required = frozenset({Outcome.APPROVED, Outcome.REJECTED})

    type: Literal["approval"]
    tiers: Tiers | None = None
    """Others are asked for more: each tier says who decides up to which amount."""
    amount: Expression | None = None
    """What the tiers go by; by default the figure that the contract shows in inboxes."""
    escalate: EscalationSpec | None = None
    default: Literal["approved", "rejected"] | None = None
    """The outcome when `timeout` is over, instead of a way for it."""
    outcomes: tuple[Name, ...] = ()
    """Other answers than yes and no, such as `more_information`."""

    @property
    def may_time_out(self) -> bool:
        return self.default is None

    def _ways(self) -> tuple[str, ...]:
        return (*super()._ways(), "tiers")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.amount is not None and self.tiers is None:
            raise refuse("MISPLACED_KEY", "`amount` chooses one of the `tiers`, and there are none")
        if self.default is not None and self.timeout is None:
            raise refuse("MISSING_KEY", "`default` says what happens then, `timeout` must say when")
        if self.default is not None and self.on_timeout is not None:
            raise refuse("MISPLACED_KEY", "`default` decides when time is over; `on_timeout` is never taken")
        if self.escalate and self.timeout and seconds_of(self.escalate.after) >= seconds_of(self.timeout):
            raise refuse("BAD_VALUE", "`escalate` comes too late: `timeout` ends the step before")
        return self

    def config(self) -> dict[str, Any]:
        found = {key: value for key, value in super().config().items() if key not in _WHO}
        if self.escalate is not None:
            found["escalate"] = self.escalate.compiled()
        return found | {"tiers": [tier.tier() for tier in self._all_tiers]}

    def as_written(self, path: Path) -> Path:
        match path:
            case ("tiers", int(index), *rest):
                prefix: Path = () if self.tiers is None else ("tiers", index)
                return (*prefix, *self._all_tiers[index].written(tuple(rest)))
        return path

    @property
    def _all_tiers(self) -> tuple[ApproverSpec, ...]:
        return (self,) if self.tiers is None else self.tiers


class Form(Answering):
    kind = NodeKind.FORM
    languages: ClassVar[Languages] = {
        "assignee.rule": Language.PEOPLE,
        "assignee.manager": Language.PEOPLE,
    }
    uses = use_nothing
    outcomes_required = frozenset()
    outcomes_open = True

    type: Literal["form"]
    assignee: PeopleSpec | None = None
    """The person who fills it in; by default the person who started the workflow."""
    outcomes: tuple[Name, ...] = ()
    """The events that end it; without them, those that its edges answer."""

    @property
    def given_outcomes(self) -> frozenset[str]:
        return frozenset() if self.outcomes else self.outcomes_given

    @model_validator(mode="after")
    def _no_chain(self) -> Self:
        if self.assignee is not None and self.assignee.chain is not None:
            raise refuse("BAD_VALUE", "a chain is of approvals; a form has one assignee")
        return self

    def config(self) -> dict[str, Any]:
        found = super().config()
        return found if self.assignee is None else found | {"assignee": self.assignee.compiled()}
