"""Runtime: everything that can be asked of workflows, for one application on one database."""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from assent.definitions import Definitions
from assent.kernel import Kernel
from assent.model.names import require_name
from assent.model.origin import Origin
from assent.people.directory import Directory, MembersDirectory
from assent.runtime.advance import Advancing
from assent.runtime.effect_letters import EffectLetters
from assent.runtime.form_commands import FormCommands
from assent.runtime.load import Loader
from assent.runtime.needs import NeedsFulfilment
from assent.runtime.recovery import Recovery
from assent.runtime.repair import Repairs
from assent.runtime.results import Results
from assent.runtime.rotation import OrgRotation
from assent.runtime.task_commands import TaskCommands
from assent.store.caller_transaction import caller_transaction
from assent.store.database import Connection, Database
from assent.store.group_commit import GroupCommit
from assent.store.joined_database import CallerDatabase

if TYPE_CHECKING:
    from assent.effects.outlets import Outlets
    from assent.tasks.task_type import TaskType

Operation = Callable[..., Any]
"""A function for `system` steps: (connection, arguments) → result, plain or async."""


class Runtime(FormCommands, Recovery, Repairs, EffectLetters, Results, TaskCommands):
    """Commands for people, batches for workers, repairs for operators; all end in the same `advance`."""

    def __init__(  # noqa: PLR0913
        self,
        database: Database,
        kernel: Kernel,
        operations: Mapping[str, Operation],
        directory: Directory | None = None,
        outlets: "Outlets | None" = None,
        *,
        tasks: "Mapping[str, TaskType] | None" = None,
    ) -> None:
        self.kernel = kernel
        self.definitions = Definitions(database.clock)
        self.database = database
        self.origin = Origin()
        self.outlets = outlets
        """The ways out of the application, for the effects worker; nothing is sent from here (WF-10)."""
        self.directory = directory or MembersDirectory()
        self.tasks = dict(tasks or {})
        """The kinds of tasks that the application declares, by name."""
        loader = Loader(kernel, self.definitions, self.directory)
        self.advancing = Advancing(
            NeedsFulfilment(kernel, self.directory, dict(operations), self.tasks), loader
        )
        self.group_commit = GroupCommit(self.run_together, self.run_waiting)
        self._turns, self._arrival_turns = OrgRotation(), OrgRotation()

    @asynccontextmanager
    async def inside(self, caller: Any, org_id: str) -> AsyncIterator[Self]:
        """The runtime, for an org, in a transaction of asyncpg, or of a SQLAlchemy session or connection on asyncpg.

        async with runtime.inside(session, "acme") as here:
            await here.kernel.mutate(command)
            await here.emit("order:paid:42")

        What is done in the block commits, or rolls back, with the caller's own rows; what is refused undoes itself
        alone. The caller's role must be allowed to become the engine's role; whoever migrated is.
        """
        require_name(org_id, "org_id")
        async with caller_transaction(self.database, caller, org_id) as connection:
            yield self.joined(connection, org_id)

    def joined(self, connection: Connection, org_id: str) -> Self:
        """The runtime, in a transaction that is under way for an org, instead of ones of its own."""
        return self.joined_to(CallerDatabase(self.database, connection, org_id))

    def joined_to(self, database: CallerDatabase) -> Self:
        """The runtime, with a transaction that is under way for its database."""
        joined = copy.copy(self)
        joined.database = database
        joined.kernel = Kernel(joined.database, self.kernel.registry)
        return joined
