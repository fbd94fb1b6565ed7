"""Runtime: everything that can be asked of workflows, for one application on one database."""

from collections.abc import Callable, Mapping
from typing import Any

from assent.approvals.directory import Directory, MembersDirectory
from assent.kernel import Kernel
from assent.runtime.advance import Advancing
from assent.runtime.approval_commands import ApprovalCommands
from assent.runtime.definitions import Definitions
from assent.runtime.load import Loader
from assent.runtime.recovery import Recovery
from assent.runtime.repair import Repairs
from assent.runtime.wishes import Fulfilling
from assent.store.database import Database

Operation = Callable[..., Any]
"""A function for `system` steps: (connection, arguments) → result, plain or async."""


class Runtime(ApprovalCommands, Recovery, Repairs):
    """Commands for people, batches for workers, repairs for operators; all end in the same `advance`."""

    def __init__(
        self,
        database: Database,
        kernel: Kernel,
        operations: Mapping[str, Operation],
        directory: Directory | None = None,
    ) -> None:
        self.kernel = kernel
        self.definitions = Definitions(database.clock)
        loader = Loader(kernel, self.definitions)
        self.database = database
        self.directory = directory or MembersDirectory()
        self.advancing = Advancing(Fulfilling(kernel, self.directory, dict(operations)), loader)
