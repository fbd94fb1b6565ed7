"""Assent: a PostgreSQL-native workflow engine for business documents.

What applications use is here by its short name; everything else stays where it lives. Nothing is imported before it is
named, so that `import assent` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assent.app import App
    from assent.documents.blobs import Blobs
    from assent.jobs.job import Failed
    from assent.kernel import Kernel
    from assent.model.actor import SYSTEM, Actor
    from assent.model.cursor import ItemPage
    from assent.model.entity_filter import EntityFilter
    from assent.model.job import RateLimit
    from assent.model.mutation import Command, Entity, Mutation, Refused, Rejection
    from assent.model.problems import Invalid, Problem
    from assent.people.inbox import InboxQuery
    from assent.runtime import InstanceView, OrgRuntime, Runtime
    from assent.runtime.instance_commands import Change
    from assent.runtime.submitted_task import SubmittedTask
    from assent.runtime.sync_runtime import SyncOrgRuntime, SyncRuntime
    from assent.runtime.task_commands import NewTask, TaskHandle
    from assent.store.database import Connection, Database
    from assent.store.migrate import migrate
    from assent.tasks.context import TaskContext
    from assent.tasks.errors import ClaimLost, GiveUp, Retry, TaskFailed, is_transient
    from assent.tasks.outcomes import Background, Blocked, Complete, Subtask, TaskError

__version__ = "0.1.0"

_PLACES: Final = {
    "App": "assent.app",
    "Blobs": "assent.documents.blobs",
    "Kernel": "assent.kernel",
    "Actor": "assent.model.actor",
    "SYSTEM": "assent.model.actor",
    "EntityFilter": "assent.model.entity_filter",
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
    "SyncOrgRuntime": "assent.runtime.sync_runtime",
    "SyncRuntime": "assent.runtime.sync_runtime",
    "RateLimit": "assent.model.job",
    "SubmittedTask": "assent.runtime.submitted_task",
    "NewTask": "assent.runtime.task_commands",
    "TaskHandle": "assent.runtime.task_commands",
    "Connection": "assent.store.database",
    "Database": "assent.store.database",
    "migrate": "assent.store.migrate",
    "TaskContext": "assent.tasks.context",
    "ClaimLost": "assent.tasks.errors",
    "GiveUp": "assent.tasks.errors",
    "Retry": "assent.tasks.errors",
    "TaskFailed": "assent.tasks.errors",
    "is_transient": "assent.tasks.errors",
    "Failed": "assent.jobs.job",
    "Background": "assent.tasks.outcomes",
    "Blocked": "assent.tasks.outcomes",
    "Complete": "assent.tasks.outcomes",
    "Subtask": "assent.tasks.outcomes",
    "TaskError": "assent.tasks.outcomes",
}

__all__ = [
    "SYSTEM",
    "Actor",
    "App",
    "Background",
    "Blobs",
    "Blocked",
    "Change",
    "ClaimLost",
    "Command",
    "Complete",
    "Connection",
    "Database",
    "Entity",
    "EntityFilter",
    "Failed",
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
    "RateLimit",
    "Refused",
    "Rejection",
    "Retry",
    "Runtime",
    "SubmittedTask",
    "Subtask",
    "SyncOrgRuntime",
    "SyncRuntime",
    "TaskContext",
    "TaskError",
    "TaskFailed",
    "TaskHandle",
    "__version__",
    "is_transient",
    "migrate",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"assent has no {name!r}; it has {', '.join(sorted(_PLACES))}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
