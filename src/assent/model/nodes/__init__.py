"""Declarations of nodes: one class for each kind, shared by patches and flows.

A class holds the facts of its kind: whether it waits or is automatic, its outcomes, its shape in a diagram, the
languages of its texts, and what its publisher must be allowed to use. `KINDS` leads from a kind to its class.
"""

from assent.model.nodes.base import KINDS, ActingNode, NodeDeclaration, NodeRef, NodeUse, Timed
from assent.model.nodes.calls import Action, Emit, Notification, OperationSpec, System, Task, Webhook
from assent.model.nodes.people import Approval, Form
from assent.model.nodes.routing import Condition, EndNode, Join, PolicyGate, Rule, Script, Split, StateNode
from assent.model.nodes.waits import Requirements, WaitEvent, WaitTimer

__all__ = [
    "KINDS",
    "ActingNode",
    "Action",
    "Approval",
    "Condition",
    "Emit",
    "EndNode",
    "Form",
    "Join",
    "NodeDeclaration",
    "NodeRef",
    "NodeUse",
    "Notification",
    "OperationSpec",
    "PolicyGate",
    "Requirements",
    "Rule",
    "Script",
    "Split",
    "StateNode",
    "System",
    "Task",
    "Timed",
    "WaitEvent",
    "WaitTimer",
    "Webhook",
]
