"""Runtime: everything that can be asked of workflows, for one application on one database."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from assent.approvals.directory import Directory, MembersDirectory
from assent.kernel import Kernel
from assent.runtime.advance import Advancing
from assent.runtime.definitions import Definitions
from assent.runtime.effect_letters import EffectLetters
from assent.runtime.form_commands import FormCommands
from assent.runtime.load import Loader
from assent.runtime.recovery import Recovery
from assent.runtime.repair import Repairs
from assent.runtime.wishes import Fulfilling
from assent.store.database import Database

if TYPE_CHECKING:
    from assent.effects.outlets import Outlets

Operation = Callable[..., Any]
"""A function for `system` steps: (connection, arguments) → result, plain or async."""


class Runtime(FormCommands, Recovery, Repairs, EffectLetters):
    """Commands for people, batches for workers, repairs for operators; all end in the same `advance`."""

    def __init__(
        self,
        database: Database,
        kernel: Kernel,
        operations: Mapping[str, Operation],
        directory: Directory | None = None,
        outlets: "Outlets | None" = None,
    ) -> None:
        self.kernel = kernel
        self.definitions = Definitions(database.clock)
        loader = Loader(kernel, self.definitions)
        self.database = database
        self.outlets = outlets
        """The ways out of the application, for the effects worker; nothing is sent from here (WF-10)."""
        self.directory = directory or MembersDirectory()
        self.advancing = Advancing(Fulfilling(kernel, self.directory, dict(operations)), loader)
