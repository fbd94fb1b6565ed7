"""What authors write about one node: a declaration for each kind, shared by patches and flows.

Each class knows its kind, which of its texts are in which language, and how it looks in a compiled workflow.
"""

from assent.model.nodes.base import ActingNode, NodeDeclaration, NodeRef, Timed
from assent.model.nodes.calls import Action, Notification, OperationSpec, System, Task, Webhook
from assent.model.nodes.choices import Condition, Join, PolicyGate, Rule, Script, Split
from assent.model.nodes.people import Approval, Form
from assent.model.nodes.waits import Requirements, WaitEvent, WaitTimer

__all__ = [
    "ActingNode",
    "Action",
    "Approval",
    "Condition",
    "Form",
    "Join",
    "NodeDeclaration",
    "NodeRef",
    "Notification",
    "OperationSpec",
    "PolicyGate",
    "Requirements",
    "Rule",
    "Script",
    "Split",
    "System",
    "Task",
    "Timed",
    "WaitEvent",
    "WaitTimer",
    "Webhook",
]
