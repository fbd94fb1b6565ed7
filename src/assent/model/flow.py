"""The flow: a step workflow for a process without a contract, as its author writes it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field, model_validator

from assent.model.contract import EditWindow, Name, Role, SeparationSpec, Version
from assent.model.nodes import (
    Action,
    EndNode,
    Form,
    NodeDeclaration,
    NodeRef,
    Requirements,
    StateNode,
    Timed,
    WaitEvent,
    WaitTimer,
)
from assent.model.parse import Declaration, shown
from assent.model.patch import EDGES_MAX, NODES_MAX, PATCH_KINDS, PRIORITY_MAX, one_of, parse_graph, type_of
from assent.model.problems import Problem
from assent.model.requirements import Conditions, OnFail, require_people_asked
from assent.model.terms import Capability, Condition, DottedName, Duration, Label, refuse


class UserAction(Form):
    """What flows call an action: a person fills in a form."""

    type: Literal["action"]  # type: ignore[assignment]


class FlowMutation(Action):
    """An action on an entity; flows call it so, because their `action` is a form."""

    type: Literal["mutation"]  # type: ignore[assignment]


class Terminal(EndNode):
    type: Literal["terminal"]


class FlowEnd(EndNode):
    type: Literal["end"]


class WaitForTime(WaitTimer):
    type: Literal["wait"]  # type: ignore[assignment]


class WaitForEvent(WaitEvent):
    type: Literal["wait"]  # type: ignore[assignment]


_WAIT_FOR_EVENT: Final = "wait with a key"

FLOW_KINDS: Final[Mapping[str, type[NodeDeclaration]]] = {
    **PATCH_KINDS,
    "action": UserAction,
    "mutation": FlowMutation,
    "terminal": Terminal,
    "end": FlowEnd,
    "wait": WaitForTime,
    _WAIT_FOR_EVENT: WaitForEvent,
}


def _kind(value: Any) -> str | None:
    waits_for_event = isinstance(value, WaitForEvent) or (isinstance(value, dict) and "key" in value)
    kind = type_of(value)
    return _WAIT_FOR_EVENT if kind == "wait" and waits_for_event else kind


if TYPE_CHECKING:
    Step = NodeDeclaration
else:
    Step = one_of(FLOW_KINDS, _kind)


class RestingState(StateNode, Timed):
    """A state that rests until a person sends one of the events that its transitions answer."""

    type: Literal["state"] = "state"


class FlowState(Declaration):
    """A state of the flow: with requirements it is left when they are met, without it rests for an event."""

    label: Label | None = None
    edit: EditWindow | None = None
    capabilities: tuple[Capability, ...] = ()
    requirements: Conditions = ()
    on_fail: OnFail | None = None
    timeout: Duration | None = None
    on_timeout: NodeRef | None = None

    @model_validator(mode="after")
    def _something_can_fail(self) -> "FlowState":
        if self.on_fail is not None and not self.requirements:
            raise refuse("MISPLACED_KEY", "`on_fail` needs `requirements` that can fail")
        require_people_asked(self.requirements, self.on_fail)
        return self

    def step(self, name: str) -> NodeDeclaration:
        """Return the step as a node declaration."""
        shared = self.model_dump(include={"label", "edit", "capabilities", "timeout", "on_timeout"})
        if self.requirements:
            more = {"requirements": self.requirements, "on_fail": self.on_fail}
            return Requirements(id=name, type="requirements", **more, **shared)
        return RestingState(id=name, **shared)


class Transition(Declaration):
    from_: NodeRef = Field(alias="from")
    event: Name | None = None
    """The outcome or event that it answers; by default `approved` of an approval and `completed` of all else."""
    to: NodeRef
    condition: Condition = None
    guard: Capability | None = None
    priority: int | None = Field(default=None, ge=0, le=PRIORITY_MAX)


class FlowPermissions(Declaration):
    """Who may do what with the instances of a flow, by role; a capability `<flow>:read` does as well."""

    read: tuple[Role, ...] = ()
    """Who sees them besides those who take part in them."""


class Flow(Declaration):
    flow: DottedName
    id: DottedName | None = None
    """The same again, for files that were written elsewhere; `flow` or `id` alone is enough."""
    name: Label | None = None
    version: Version
    entity: Name | None = None
    """The entity type that an instance is about, if there is one."""
    capabilities: tuple[Capability, ...] = ()
    permissions: FlowPermissions = FlowPermissions()
    separation: SeparationSpec = SeparationSpec()
    """Of its approvals; what it does not say is as the entity's contract has it."""
    timeout: Duration | None = None
    on_timeout: NodeRef | None = None
    start: NodeRef
    steps: tuple[Step, ...] = Field(default=(), max_length=NODES_MAX)
    states: Mapping[Name, FlowState] = Field(default={}, max_length=NODES_MAX)
    transitions: tuple[Transition, ...] = Field(default=(), max_length=EDGES_MAX)

    @model_validator(mode="before")
    @classmethod
    def _id_names_the_flow(cls, data: Any) -> Any:
        if isinstance(data, dict) and "flow" not in data and "id" in data:
            return data | {"flow": data["id"]}
        return data

    @model_validator(mode="after")
    def _one_id(self) -> "Flow":
        if self.id is not None and self.id != self.flow:
            raise refuse(
                "BAD_VALUE", f"`flow` and `id` name one thing, found {shown(self.flow)} and {shown(self.id)}"
            )
        return self


def parse_flow(data: object) -> tuple[Flow | None, list[Problem]]:
    """Return the flow in `data`, or every problem of its form."""
    return parse_graph(Flow, data)
