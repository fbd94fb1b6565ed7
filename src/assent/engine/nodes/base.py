"""Handlers of nodes: their hooks, verdicts and needs.

Steps that wait share their time limit, and the way in which they await an effect (D30).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

from assent.engine.inputs import EventArrived, Input, RequestDecided, TimerDue
from assent.engine.programs import Values
from assent.language import Scope
from assent.model.approval import ApprovalRequest, GroupQuery
from assent.model.form import FormRequest
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.job import Effect, TaskSpec
from assent.model.mutation import KeyedEvent, Rejection
from assent.model.outside_request import ClosedRequest, OutsideRequest

if TYPE_CHECKING:
    from assent.engine.visit import Visit


Creation = Effect | TaskSpec | KeyedEvent | ApprovalRequest | FormRequest | OutsideRequest | ClosedRequest
"""What a step can create beside itself; it is written in the transaction of the step."""


@dataclass(frozen=True, slots=True)
class Done:
    """The step ends, with an outcome that edges answer."""

    outcome: str = "completed"
    output: Mapping[str, Any] = field(default_factory=dict)
    sets: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the workflow that it changes."""
    creates: tuple[Creation, ...] = ()


@dataclass(frozen=True, slots=True)
class Rest:
    """The token rests until an input comes."""

    resume_at: datetime | None = None
    event_key: str | None = None
    output: Mapping[str, Any] = field(default_factory=dict)
    creates: tuple[Creation, ...] = ()
    """What the step creates and may wait for."""


@dataclass(frozen=True, slots=True)
class Stay:
    """The token rests on: the input was noted, and did not end the step."""

    resume_at: datetime | None = None
    """The next time that something is due here; none leaves the step without one."""
    creates: tuple[Creation, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """The step cannot succeed, however often it is tried."""

    code: str
    message: str
    rejection: Rejection | None = None
    """Why the kernel or a right refused it, where a caller who waits can be refused with it instead."""

    @classmethod
    def refused(cls, rejection: Rejection) -> "Failure":
        """Return the failure of a step whose change was refused."""
        return cls(rejection.code, rejection.message, rejection)


@dataclass(frozen=True, slots=True)
class Mutate:
    """A mutation by the kernel; its result comes back through `answered`."""

    action: str
    payload: Mapping[str, Any]
    entity_id: UUID | None = None
    """Another instance's entity; without it, the instance's own."""
    grant: bool = False
    """Whether the instance lends the actor the right: the token passed its gate by right."""
    to_state: str | None = None
    consumes: tuple[ApprovalRequest, ...] = ()
    """The approvals that this uses up (WF-03): all of them or nothing happens."""
    reason: str | None = None
    """Why, for the audit log; without it, the step's name."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function that the application registered, run inside the transaction."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunVerb:
    """A verb, run inside the transaction with the rights of the step's person; the answer is its result."""

    call: str
    variables: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResolveTask:
    """The task type of the application for an input; the answer is a `Submittable`, or a rejection."""

    type: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CheckEventKey:
    """Permission to emit under a key; the answer is a rejection if a source of signed events owns it."""

    key: str


@dataclass(frozen=True, slots=True)
class EvaluateRule:
    """A rule of the org for the instance's entity; the answer is a `RuleVerdict`, or a rejection."""

    name: str


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a rule of the org says, and why."""

    evaluation: Mapping[str, Any]
    """The expression of its condition, the variables that were read, and the result."""
    denial: str | None = None
    """The message of a rule that denies."""
    sets: Mapping[str, Any] = field(default_factory=dict)
    event: KeyedEvent | None = None
    """The event that it emits."""


@dataclass(frozen=True, slots=True)
class FindPeople:
    """The people of these groups; the answer is `FoundPeople`, or a rejection."""

    groups: tuple[GroupQuery, ...]
    separates: bool = True
    """Whether originators are passed over when one of many is picked."""
    sitting: frozenset[str] = frozenset()
    """The people with a seat of the round: passed over when one of a role is picked."""


Verdict = Done | Rest | Stay | Failure
Need = Mutate | Call | RunVerb | ResolveTask | CheckEventKey | EvaluateRule | FindPeople
NEEDS: Final = (Mutate, Call, RunVerb, ResolveTask, CheckEventKey, EvaluateRule, FindPeople)


class Handler:
    """One kind of node, with this node's own texts compiled. Handlers keep nothing of an instance."""

    kind: ClassVar[NodeKind]

    def __init__(self, node: Node, scope: Scope) -> None:
        self.node = node

    def enter(self, visit: "Visit") -> Verdict | Need:
        """Return the verdict of a token that has arrived, or a need."""
        return Done()

    def answered(self, visit: "Visit", answer: Any) -> Verdict:
        """Return the verdict after the need of `enter` was fulfilled or refused."""
        raise NotImplementedError(f"{self.node.kind} has no needs")

    def resume(self, visit: "Visit", incoming: "Input") -> Verdict | Rejection:
        """Return the verdict of an input that came while the token rested, or why it does not fit."""
        return Rejection(
            "INVALID_TRANSITION", f"`{self.node.name}` waits for nothing of this kind", ("event",)
        )

    def must_look(self, visit: "Visit") -> bool:
        """Return whether what a resting step waits for is other now than when it rested, by its variables."""
        return False


def deadline(visit: "Visit", since: datetime | None = None) -> datetime | None:
    """Return when the time of the step is over, counted from now or from `since`; None without a time limit."""
    seconds = visit.node.node.timeout_seconds
    return (since or visit.now) + timedelta(seconds=seconds) if seconds is not None else None


def verb_variables(visit: "Visit") -> dict[str, Any]:
    """Return what `$name` stands for in a verb: a variable of the workflow, or else the instance and its entity."""
    instance = visit.instance
    own: dict[str, Any] = {"instance_id": str(instance.id)}
    if instance.entity_id is not None:
        own["entity_id"] = str(instance.entity_id)
        own["entity"] = visit.variables.get("entity")
    return {**own, **visit.variables["workflow"]}


def timed_out() -> Done:
    return Done(Outcome.TIMEOUT, {"timed_out": True})


def may_retry_ambiguous(config: Mapping[str, Any], otherwise: bool = True) -> bool:
    """Return whether to send again what may have arrived: as the node says, or as is right for such a call."""
    said = config.get("on_ambiguous")
    return otherwise if said is None else said == "retry"


def rest_until_answered(visit: "Visit", effect: Effect) -> Rest:
    return Rest(resume_at=deadline(visit), creates=(effect,))


def read_answer(visit: "Visit", incoming: Input, output: Values) -> Done | Failure | None:
    """Return the verdict of a step whose effect has ended; None for any other input."""
    if isinstance(incoming, TimerDue):
        return timed_out()
    if not isinstance(incoming, EventArrived):
        return None
    if incoming.outcome == Outcome.ERROR:
        return Failure(incoming.data["code"], incoming.data["message"])
    return done_with(visit, incoming.data, output, incoming)


def done_with(
    visit: "Visit", result: Any, output: Values, brought: EventArrived | RequestDecided | None = None
) -> Done:
    sets = output({**visit.variables, "result": result})
    contributed = brought_by(brought, sets) if brought is not None else {}
    return Done(output={"result": result, **contributed}, sets=sets)


def brought_by(incoming: EventArrived | RequestDecided, sets: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an output that makes those originators whose work sets variables of the workflow."""
    return {"contributors": list(incoming.people)} if incoming.people and sets else {}
