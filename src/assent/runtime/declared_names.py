"""What code declares by name: operations, tasks, actions and services, as workers say it to each other.

During a rolling deployment workers of two versions run. The older one leaves what it does not know, and what newer code
declares, to the newer one; it would otherwise fail steps, and instances, that are nothing worse than new.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries

if TYPE_CHECKING:
    from assent.runtime.core import Core

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

NEWER_CODE_NEEDED: Final = "NEWER_CODE_NEEDED"


def names_of(core: "Core") -> list[str]:
    """Return what an application declares, such as `operation:bank.pay`."""
    names = [f"operation:{name}" for name in core.advancing.operations]
    names += [f"task:{name}" for name in core.task_types]
    names += [f"schedule:{name}" for name in core.schedules]
    names += core.triggers.names
    names += [f"verb:{name}" for name in core.verbs.functions]
    names += [f"action:{name}" for name in core.kernel.registry.actions]
    if core.outlets is not None:
        names += [f"service:{name}" for name in core.outlets.services]
    return sorted(names)


async def record_names(connection: Connection, names: Sequence[str], length: timedelta) -> int:
    """Say that code declares these names, for a length of time; return how many rows were written."""
    return len(await connection.fetch(_SQL.record_declared_names, names, length)) if names else 0


async def forget_names(connection: Connection) -> None:
    """Delete the names that no code has declared for a day."""
    await connection.execute(_SQL.forget_declared_names)


async def find_declared(connection: Connection, names: Sequence[str]) -> set[str]:
    """Return which of these names the code of some worker declares; as the owner."""
    rows = await connection.fetch(_SQL.find_declared_names, names)
    return {row["name"] for row in rows}


async def require_unknown(connection: Connection, name: str) -> None:
    """Raise `Refused` where this process does not know a name that the code of a worker declares."""
    if await connection.fetchval(_SQL.is_declared, name):
        kind, _, called = name.partition(":")
        message = f"the {kind} `{called}` is of newer code than this process runs; nothing was changed"
        raise Refused(
            Rejection(NEWER_CODE_NEEDED, message, hint="try again; a process of the newer code takes it")
        )
