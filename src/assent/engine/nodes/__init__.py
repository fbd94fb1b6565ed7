"""One file per kind of node, all with the same few hooks; this is the one list of them."""

from collections.abc import Mapping
from typing import Final

from assent.engine.nodes.action import Action
from assent.engine.nodes.approval import Approval
from assent.engine.nodes.base import Failure, Handler
from assent.engine.nodes.condition import Condition
from assent.engine.nodes.end import End
from assent.engine.nodes.form import Form
from assent.engine.nodes.lifecycle_gate import LifecycleGate
from assent.engine.nodes.notification import Notification
from assent.engine.nodes.parallel_join import ParallelJoin
from assent.engine.nodes.parallel_split import ParallelSplit
from assent.engine.nodes.policy_gate import PolicyGate
from assent.engine.nodes.rule import Rule
from assent.engine.nodes.script import Script
from assent.engine.nodes.slot import Slot
from assent.engine.nodes.start import Start
from assent.engine.nodes.state import State
from assent.engine.nodes.system import System
from assent.engine.nodes.task import Task
from assent.engine.nodes.wait_event import WaitEvent
from assent.engine.nodes.wait_timer import WaitTimer
from assent.engine.nodes.webhook_out import WebhookOut
from assent.language import Scope
from assent.model.graph import Node, NodeKind

HANDLERS: Final[Mapping[NodeKind, type[Handler]]] = {
    NodeKind.START: Start,
    NodeKind.END: End,
    NodeKind.STATE: State,
    NodeKind.LIFECYCLE_GATE: LifecycleGate,
    NodeKind.POLICY_GATE: PolicyGate,
    NodeKind.ACTION: Action,
    NodeKind.APPROVAL: Approval,
    NodeKind.FORM: Form,
    NodeKind.SYSTEM: System,
    NodeKind.CONDITION: Condition,
    NodeKind.PARALLEL_SPLIT: ParallelSplit,
    NodeKind.PARALLEL_JOIN: ParallelJoin,
    NodeKind.WAIT_TIMER: WaitTimer,
    NodeKind.WAIT_EVENT: WaitEvent,
    NodeKind.WEBHOOK_OUT: WebhookOut,
    NodeKind.NOTIFICATION: Notification,
    NodeKind.TASK: Task,
    NodeKind.SCRIPT: Script,
    NodeKind.RULE: Rule,
    NodeKind.SLOT: Slot,
}


def handler_for(node: Node, scope: Scope) -> Handler:
    return HANDLERS.get(node.kind, Missing)(node, scope)


class Missing(Handler):
    """A kind that this version can compile but not yet run: the step fails, and says so."""

    def enter(self, visit: object) -> Failure:
        return Failure("NODE_KIND_NOT_AVAILABLE", f"`{self.node.kind}` nodes cannot be run yet")
