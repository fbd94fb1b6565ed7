"""The handlers of all kinds of node. A new kind is imported and listed here."""

from collections.abc import Mapping
from typing import Final

from assent.engine.nodes.approval import Approval
from assent.engine.nodes.base import Handler
from assent.engine.nodes.calls import Action, Emit, Notification, System, Task, WebhookOut
from assent.engine.nodes.form import Form
from assent.engine.nodes.lifecycle import LifecycleGateNode, StateNode
from assent.engine.nodes.requirements import RequirementsNode
from assent.engine.nodes.routing import (
    Condition,
    EndNode,
    ParallelJoin,
    ParallelSplit,
    PolicyGate,
    Rule,
    Script,
    SlotNode,
    StartNode,
)
from assent.engine.nodes.waits import WaitEvent, WaitTimer
from assent.language import Scope
from assent.model.graph import Node, NodeKind

HANDLERS: Final[Mapping[NodeKind, type[Handler]]] = {
    handler.kind: handler
    for handler in (
        *(StartNode, EndNode, StateNode, LifecycleGateNode, SlotNode),
        *(Condition, ParallelSplit, ParallelJoin, PolicyGate, Rule, Script),
        *(Approval, Form, RequirementsNode, WaitEvent, WaitTimer),
        *(Action, System, Task, WebhookOut, Notification, Emit),
    )
}


def handler_for(node: Node, scope: Scope) -> Handler:
    return HANDLERS[node.kind](node, scope)
