"""What can stand under `steps:` in a scenario: one class for each thing that a person does, or that is expected.

A step says one thing, under a key that names it. A key that is none of ours belongs to the contract or the flow: with
a text it answers the step of that name (`approve: finance`), with an object it is a transition or an action
(`submit: {}`). Under `expect:` stands how a document must stand, in the words of its author.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from assent.kernel.rules import RuleSpec
from assent.model.parse import Declaration, listed
from assent.model.problems import Problem
from assent.model.terms import Text, refuse
from assent.testing.people import MemberOrRoles
from assent.testing.time_passing import length_of, read_length

Person = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Sent(Declaration):
    """Something that was put into the outbox: `{email: kim@acme.example, text: Overdue}`."""

    webhook: str | None = None
    email: str | None = None
    sms: str | None = None
    in_app: str | None = None
    chat: str | None = None
    integration: str | None = None
    subject: str | None = None
    text: str | None = None
    """What the subject or the text holds somewhere."""
    body: Mapping[str, Any] | None = None
    """What the body holds, at least."""

    @property
    def channel(self) -> str | None:
        return next((channel for channel in CHANNELS if getattr(self, channel) is not None), None)

    @property
    def to(self) -> str | None:
        return getattr(self, self.channel) if self.channel else None


CHANNELS: Final = ("webhook", "email", "sms", "in_app", "chat", "integration")


Table = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$")]
Tables = Mapping[Table, tuple[Mapping[str, Any], ...]]


class Expected(Declaration):
    """How a document must stand; what is not named may be anything."""

    state: str | None = None
    edit: Literal["editable", "amend_only", "locked"] | None = None
    version: int | None = None
    data: Mapping[str, Any] | None = None
    """The entity's fields: those that are named must be so."""
    status: Literal["running", "paused", "completed", "failed", "cancelled"] | None = None
    waiting: tuple[str, ...] | None = None
    """The steps that wait for a person or an event: these, and no others."""
    asked: Mapping[str, tuple[Person, ...]] | None = None
    """Step → the people who can answer it now."""
    void: tuple[str, ...] | None = None
    """Steps whose approval an edit has made void; an empty list: none."""
    sent: tuple[Sent, ...] | None = None
    """What was put into the outbox, among other things; an empty list: nothing."""
    not_sent: tuple[Sent, ...] | None = None
    """What was not."""
    incident: Code | Literal["none"] | None = None
    """Why it stopped; `none`: it did not."""
    workflow: Mapping[str, Any] | None = None
    """Variables of the workflow: those that are named must be so."""
    tables: Tables | None = None
    """Table of the application → its rows: these and no others, in any order; other columns may be anything."""


def _length(value: str) -> str:
    found = read_length(value)
    if isinstance(found, Problem):
        raise refuse(found.code, found.message, hint=found.hint)
    return value


Length = Annotated[str, AfterValidator(_length)]


class ScenarioStep(Declaration):
    """One thing that happens."""

    refused: Code | None = None
    """The code with which it must be refused."""


class ActStep(ScenarioStep):
    """Something that a person does."""

    as_: Person = Field(alias="as")
    on: str | None = None
    """Which document is meant, by its `name`; unsaid, the last one."""


class CreateStep(ActStep):
    create: str
    data: Mapping[str, Any] = {}
    name: str | None = None


class StartStep(ActStep):
    start: str
    data: Mapping[str, Any] = {}
    name: str | None = None


class ChangeStep(ActStep):
    """A transition or an action of the contract: `submit: {}`, `update: {grand_total: 5}`."""

    verb: str
    data: Mapping[str, Any] = {}


class AnswerStep(ActStep):
    """An answer to a step that asks: `approve: finance`."""

    verb: str
    node: str
    reason: Text | None = None
    on_behalf_of: Person | None = None
    group: str | None = None
    data: Mapping[str, Any] = {}

    @property
    def outcome(self) -> str:
        return _OUTCOMES.get(self.verb, self.verb)


_OUTCOMES: Final = {"approve": "approved", "reject": "rejected", "abstain": "abstained"}


class AdvanceStep(ActStep):
    advance: str
    step: str | None = None
    data: Mapping[str, Any] = {}


class ClaimStep(ActStep):
    claim: str


class ReleaseStep(ActStep):
    release: str


class DelegateTo(Declaration):
    to: Person
    from_: Length | None = Field(default=None, alias="from")
    """In how long it begins; at once without it."""
    until: Length | None = None
    """In how long it ends, from now on."""
    reason: Text | None = None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.from_ and self.until and length_of(self.until) <= length_of(self.from_):
            raise refuse("BAD_DATES", f"it must end after it begins, in {self.from_}; found {self.until}")
        return self

    @property
    def starts_in(self) -> timedelta | None:
        return length_of(self.from_) if self.from_ else None

    @property
    def length(self) -> timedelta | None:
        return length_of(self.until) if self.until else None


class DelegateStep(ActStep):
    delegate: DelegateTo


class ReassignTo(Declaration):
    step: str
    from_: Person = Field(alias="from")
    to: Person
    reason: Text | None = None


class ReassignStep(ActStep):
    reassign: ReassignTo


class ControlStep(ActStep):
    """What is done to the workflow itself."""

    workflow: Literal["cancel", "pause", "resume", "retry", "fail"]
    step: str | None = None
    reason: str = ""


class EmitStep(ScenarioStep):
    emit: Text
    data: Any = None


class FailureStep(Declaration):
    code: Code = "FAILED"
    message: str = "it failed"


class ReplyStep(ScenarioStep):
    """What an outside system answers to a step that awaits it."""

    reply: str
    on: str | None = None
    data: Any = None
    error: FailureStep | None = None


class ResultStep(ScenarioStep):
    """What an outside party sends back for what a step asked of it."""

    result: str
    on: str | None = None
    items: Sequence[Mapping[str, Any]] = ()
    status: Literal["completed", "failed", "expired"] = "completed"
    error: Text | None = None
    key: str | None = None
    """The sender's own; unsaid, a new one."""


class HandInStep(ActStep):
    """A client's document is handed in for what the workflow requires: `hand_in: passport`, `of: c-1`."""

    hand_in: str
    of: str
    """Whose document it is."""
    data: Mapping[str, Any] = {}


class ReviewStep(ActStep):
    """The latest version of a document is verified, or rejected with a code: `review: passport`, `of: c-1`."""

    review: str
    of: str
    code: Code | None = None
    """The rejection code; unsaid, the version is verified."""


class WaitStep(ScenarioStep):
    wait: Length

    @property
    def length(self) -> timedelta:
        return length_of(self.wait)


class ChangePeopleStep(ScenarioStep):
    people: Mapping[Person, MemberOrRoles]


class ChangeOrgStep(ScenarioStep):
    org: Mapping[str, Any]


class RulesStep(ScenarioStep):
    """Rules of the org around actions, as an administrator saves them."""

    rules: tuple[RuleSpec, ...] = Field(min_length=1)


class TablesStep(ScenarioStep):
    """Rows that are put into the application's own tables."""

    tables: Tables


class ExpectStep(Declaration):
    expect: Expected
    on: str | None = None


AnyStep = ScenarioStep | ExpectStep

NAMED: Final[Mapping[str, tuple[type[AnyStep], type]]] = {
    "create": (CreateStep, str),
    "start": (StartStep, str),
    "advance": (AdvanceStep, str),
    "claim": (ClaimStep, str),
    "release": (ReleaseStep, str),
    "emit": (EmitStep, str),
    "reply": (ReplyStep, str),
    "result": (ResultStep, str),
    "hand_in": (HandInStep, str),
    "review": (ReviewStep, str),
    "wait": (WaitStep, str),
    "workflow": (ControlStep, str),
    "delegate": (DelegateStep, dict),
    "reassign": (ReassignStep, dict),
    "people": (ChangePeopleStep, dict),
    "org": (ChangeOrgStep, dict),
    "rules": (RulesStep, list),
    "tables": (TablesStep, dict),
    "expect": (ExpectStep, dict),
}
"""Key → what it is, when its value is such; else it is the contract's or the flow's."""

AROUND: Final = frozenset(
    {"as", "on", "refused", "data", "name", "reason", "error", "on_behalf_of", "group", "step"}
)
"""Keys that say more about a step, and never what it is."""

AROUND_RESULT: Final = frozenset({"items", "status", "key"})
"""The same of a result; elsewhere they may be names of the contract's."""


AROUND_DOCUMENTS: Final = frozenset({"of", "code"})
"""The same of documents that are handed in and reviewed."""


def kind_of_step(raw: Mapping[str, Any]) -> tuple[type[AnyStep], dict[str, Any]] | Problem:
    """Return what a step is, and its data in that form."""
    around = AROUND | AROUND_RESULT if isinstance(raw.get("result"), str) else AROUND
    if isinstance(raw.get("hand_in") or raw.get("review"), str):
        around = AROUND | AROUND_DOCUMENTS
    verbs = [key for key in raw if key not in around]
    if len(verbs) != 1:
        found = f"found {listed(verbs)}" if verbs else "found nothing"
        hint = "such as `submit: {}`, `approve: <step>`, `wait: 2d` or `expect: {…}`"
        return Problem("NOT_ONE_THING", f"a step says one thing that happens, {found}", hint=hint)
    (verb,) = verbs
    value = raw[verb]
    kind, form = NAMED.get(verb, (ScenarioStep, type(None)))
    if isinstance(value, form) and kind is not ScenarioStep:
        return kind, dict(raw)
    rest = {key: item for key, item in raw.items() if key != verb}
    if isinstance(value, str):
        return AnswerStep, {**rest, "verb": verb, "node": value}
    if isinstance(value, dict) and "data" not in rest:
        return ChangeStep, {**rest, "verb": verb, "data": value}
    if isinstance(value, dict):
        return Problem("UNKNOWN_KEY", f"the fields stand under `{verb}` itself", ("data",))
    message = f"`{verb}` takes the name of a step, or an object of fields; found {type(value).__name__}"
    return Problem("WRONG_TYPE", message, (verb,))
