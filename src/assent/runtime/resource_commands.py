"""Reading the resources that tasks use: how many tasks may run with each, how many do, and how many wait."""

from dataclasses import dataclass

from assent.jobs.throttles import ResourceView, list_resources
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, position_of, require_limit, text_in
from assent.model.mutation import Refused, Rejection
from assent.runtime.core import OrgScope
from assent.runtime.rights import require_capability
from assent.runtime.task_commands import READ_TASKS


@dataclass(frozen=True, slots=True)
class ResourceCommands:
    """The resources that tasks use. They belong to no org; what waits is counted for the org alone."""

    scope: OrgScope

    async def list(self, *, cursor: str | None = None, limit: int = ITEMS_DEFAULT) -> ItemPage[ResourceView]:
        """Return a page of the resources that workers have declared, by name.

        Raise `Refused` unless the actor holds `tasks:read`.
        """
        scope, after = self.scope, position_of(cursor, text_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, READ_TASKS)
        found = await scope.read(
            lambda connection: list_resources(connection, scope.org_id, scope.partition_id)
        )
        rest = [one for one in found if after is None or one.name > after]
        return ItemPage.of(rest[: limit + 1], limit, lambda one: one.name)

    async def get(self, name: str) -> ResourceView:
        """Return a resource by its name; raise `Refused` if no worker has declared it, or without `tasks:read`."""
        scope = self.scope
        require_capability(scope.actor_or_system, READ_TASKS)
        found = await scope.read(
            lambda connection: list_resources(connection, scope.org_id, scope.partition_id, name)
        )
        if not found:
            raise Refused(Rejection("NOT_FOUND", f"no resource `{name}`", ("name",)))
        return found[0]
