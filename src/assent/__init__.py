"""Assent: a PostgreSQL-native workflow engine for business documents.

What applications use is here by its short name; everything else stays where it lives. Nothing is imported before it is
named, so that `import assent` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assent.app import App
    from assent.kernel import Kernel
    from assent.model.actor import SYSTEM, Actor
    from assent.model.cursor import ItemPage
    from assent.model.mutation import Command, Entity, Mutation, Refused, Rejection
    from assent.model.problems import Invalid, Problem
    from assent.people.inbox import InboxQuery
    from assent.runtime import InstanceView, OrgRuntime, Runtime
    from assent.runtime.instance_commands import Change
    from assent.runtime.task_commands import NewTask, TaskHandle
    from assent.store.database import Database
    from assent.store.migrate import migrate
    from assent.tasks.context import TaskContext
    from assent.tasks.errors import ClaimLost, GiveUp, Retry

__version__ = "0.1.0"

_PLACES: Final = {
    "App": "assent.app",
    "Kernel": "assent.kernel",
    "Actor": "assent.model.actor",
    "SYSTEM": "assent.model.actor",
    "Command": "assent.model.mutation",
    "Entity": "assent.model.mutation",
    "Mutation": "assent.model.mutation",
    "Refused": "assent.model.mutation",
    "Rejection": "assent.model.mutation",
    "ItemPage": "assent.model.cursor",
    "InboxQuery": "assent.people.inbox",
    "Invalid": "assent.model.problems",
    "Problem": "assent.model.problems",
    "InstanceView": "assent.runtime",
    "OrgRuntime": "assent.runtime",
    "Runtime": "assent.runtime",
    "Change": "assent.runtime.instance_commands",
    "NewTask": "assent.runtime.task_commands",
    "TaskHandle": "assent.runtime.task_commands",
    "Database": "assent.store.database",
    "migrate": "assent.store.migrate",
    "TaskContext": "assent.tasks.context",
    "ClaimLost": "assent.tasks.errors",
    "GiveUp": "assent.tasks.errors",
    "Retry": "assent.tasks.errors",
}

__all__ = [
    "SYSTEM",
    "Actor",
    "App",
    "Change",
    "ClaimLost",
    "Command",
    "Database",
    "Entity",
    "GiveUp",
    "InboxQuery",
    "InstanceView",
    "Invalid",
    "ItemPage",
    "Kernel",
    "Mutation",
    "NewTask",
    "OrgRuntime",
    "Problem",
    "Refused",
    "Rejection",
    "Retry",
    "Runtime",
    "TaskContext",
    "TaskHandle",
    "__version__",
    "migrate",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"assent has no {name!r}; it has {', '.join(sorted(_PLACES))}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
