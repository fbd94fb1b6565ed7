"""Steps that act on something: the kernel, the application, another system, a person's inbox, our workers."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from assent.model.contract import Name
from assent.model.graph import NodeKind, Outcome
from assent.model.job import PRIORITY_MAX
from assent.model.nodes.base import ActingNode, Languages, NodeDeclaration, NodeUse, Timed, use_nothing
from assent.model.outside_request import EXPECTED_MAX
from assent.model.parse import Declaration
from assent.model.terms import DottedName, Duration, Expression, Language, Outputs, Text, Values, refuse

SUBMIT_TASKS: Final = "tasks:submit"
"""The capability to submit tasks of a type for which the application names none."""
EMIT_EVENTS: Final = "events:emit"


class Action(ActingNode):
    """A mutation of an entity through the kernel."""

    kind = NodeKind.ACTION
    uses = use_nothing  # the kernel checks the rights of the person on whose behalf the step acts
    automatic = True
    languages: ClassVar[Languages] = {
        "payload": Language.TEMPLATE,
        "entity": Language.ID,
        "output": Language.RESULT,
    }
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.ERROR})

    type: Literal["action"]
    action: DottedName
    """`<entity type>.<verb>`, such as `invoice.update`."""
    payload: dict[str, JsonValue] = Field(default_factory=dict)
    entity: Expression | None = None
    """The id of another entity; without it the action is on the workflow's own."""
    writes: tuple[Name, ...] | None = None
    """The fields that an action of the application writes, where the compiler must know."""
    output: Outputs = Field(default_factory=dict)


class OperationSpec(Declaration):
    sdk: DottedName | None = None
    """A Python function that the application registered."""
    openapi: DottedName | None = None
    """`<service>.<operationId>`, called over HTTP."""
    verb: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    """A command such as `(requirement.waive :requirement-id $passport :reason "known")`."""

    @model_validator(mode="after")
    def _one_binding(self) -> Self:
        if sum(one is not None for one in (self.sdk, self.openapi, self.verb)) != 1:
            raise refuse("BAD_VALUE", "exactly one of `sdk`, `openapi` and `verb` was expected")
        return self


OnAmbiguous = Literal["retry", "give_up"]
"""What to do when something was sent and no answer came: it may have arrived."""


def _uses_of_system(config: Mapping[str, Any]) -> Iterable[NodeUse]:
    operation = config["operation"]
    if "sdk" in operation:
        name = operation["sdk"]
        yield NodeUse(f"operation:{name}:use", f"calls the operation {name}", f"operation:{name}")
    elif "openapi" in operation:
        service = operation["openapi"].partition(".")[0]
        yield NodeUse(f"service:{service}:use", f"calls the service {service}", f"service:{service}")
    # A verb takes the rights of the person on whose behalf the step acts, when it is run.


class System(Timed, ActingNode):
    kind = NodeKind.SYSTEM
    uses = _uses_of_system
    automatic = True
    languages: ClassVar[Languages] = {
        "operation.verb": Language.VERB,
        "input": Language.EXPRESSION,
        "output": Language.RESULT,
    }
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.ERROR})

    type: Literal["system"]
    operation: OperationSpec
    input: Values = Field(default_factory=dict)
    """The arguments of a function or a service; what a verb may name as `$name`."""
    output: Outputs = Field(default_factory=dict)
    await_: bool = Field(default=False, alias="await")
    """Whether the token rests until the answer is there; over HTTP it always does."""
    on_ambiguous: OnAmbiguous | None = None
    """Without it, calls that may be repeated by their nature are, such as GET and PUT; others are not."""

    def config(self) -> dict[str, Any]:
        return super().config() | {"await": self.await_ or self.operation.openapi is not None}


class Webhook(Timed, ActingNode):
    kind = NodeKind.WEBHOOK_OUT
    uses = use_nothing  # besides the secrets of its headers
    automatic = True
    languages: ClassVar[Languages] = {
        "url": Language.URL,
        "headers": Language.HEADER,
        "body": Language.TEMPLATE,
        "output": Language.RESULT,
    }
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.ERROR})

    type: Literal["webhook_out"]
    url: Text
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"] = "POST"
    headers: dict[str, Text] = Field(default_factory=dict)
    body: JsonValue = None
    await_: bool | Literal["result"] = Field(default=False, alias="await")
    """Whether the token rests until the receiver's answer is there, or with `result` until its results are."""
    expects: int | None = Field(default=None, ge=1, le=EXPECTED_MAX)
    """With `await: result`, how many items make it complete; without it, one."""
    output: Outputs = Field(default_factory=dict)
    on_ambiguous: OnAmbiguous | None = None
    """Without it, it is sent again: its receiver knows a repetition by the `Idempotency-Key`."""

    @property
    def given_outcomes(self) -> frozenset[str]:
        # Without `await` it is done when it is enqueued (D30); its errors come too late for an edge.
        if not self.await_:
            return frozenset({Outcome.COMPLETED})
        may_be_partial = self.await_ == "result" and (self.expects or 1) > 1
        return self.outcomes_given | {Outcome.PARTIAL} if may_be_partial else self.outcomes_given

    @property
    def must_answer_timeout(self) -> bool:
        """Return false for `await: result`: a request whose time is over has failed, unless an edge answers it."""
        return self.await_ != "result"

    @model_validator(mode="after")
    def _expects_results(self) -> Self:
        if self.expects is not None and self.await_ != "result":
            raise refuse("BAD_VALUE", "`expects` goes with `await: result`")
        return self


# The brackets of the tags keep them out of the paths of problems.
Recipients = Annotated[
    Annotated[Text, Tag("[text]")] | Annotated[tuple[Text, ...], Field(min_length=1), Tag("[list]")],
    Discriminator(lambda value: "[list]" if isinstance(value, list | tuple) else "[text]"),
]
"""A template, or several."""


class Notification(NodeDeclaration):
    kind = NodeKind.NOTIFICATION
    uses = use_nothing  # the engine limits how many recipients a step has
    automatic = True
    languages: ClassVar[Languages] = {
        "to": Language.TEMPLATE,
        "subject": Language.TEMPLATE,
        "text": Language.TEMPLATE,
    }

    type: Literal["notification"]
    channel: Literal["email", "sms", "in_app", "chat"]
    to: Recipients
    """A member's id, an address or a number, or several: a list, or an expression that gives one."""
    subject: Text | None = None
    text: Text
    on_ambiguous: OnAmbiguous | None = None
    """Without it, it is sent again: twice is better than never."""


def _uses_of_task(config: Mapping[str, Any]) -> Iterable[NodeUse]:
    task = config["task"]
    yield NodeUse(SUBMIT_TASKS, f"submits the task {task}", f"task:{task}")


class Task(Timed, ActingNode):
    """Background work of our own workers."""

    kind = NodeKind.TASK
    uses = _uses_of_task
    automatic = True
    languages: ClassVar[Languages] = {"input": Language.EXPRESSION, "output": Language.RESULT}
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.ERROR})

    type: Literal["task"]
    task: DottedName
    input: Values = Field(default_factory=dict)
    output: Outputs = Field(default_factory=dict)
    await_: bool = Field(default=True, alias="await")
    priority: int | None = Field(default=None, ge=0, le=PRIORITY_MAX)
    """The higher the sooner; without it, as its type says."""
    delay: Duration | None = None
    """Not before so long after the step is entered."""


def _uses_of_emit(config: Mapping[str, Any]) -> Iterable[NodeUse]:
    key = config["key"]
    yield NodeUse(EMIT_EVENTS, f"emits events under the key {key}", f"event:{key}")


class Emit(NodeDeclaration):
    """Emits an event under a key, for the steps that wait for it."""

    kind = NodeKind.EMIT
    uses = _uses_of_emit
    languages: ClassVar[Languages] = {"key": Language.TEMPLATE, "data": Language.TEMPLATE}
    automatic = True
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.ERROR})

    type: Literal["emit"]
    key: Text
    """The key of the event, such as `order:paid:{workflow.order_id}`."""
    data: JsonValue = None
    """What the receivers read as `result`: JSON whose texts are templates."""
