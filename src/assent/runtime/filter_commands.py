"""Saved filters: a person's own and those of the org, checked when they are saved and when they are used."""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.kernel.listing import resolve
from assent.kernel.saved_filters import (
    INBOX,
    SHARE_FILTERS,
    FilterKey,
    FilterPosition,
    SavedFilter,
    delete_filter,
    find_filter,
    list_filters,
    save_filter,
)
from assent.model.actor import By
from assent.model.cursor import ITEMS_DEFAULT
from assent.model.entity_filter import filter_from
from assent.model.mutation import Refused, Rejection
from assent.people.inbox import inbox_filter_from
from assent.runtime.commands import check_data
from assent.runtime.core import OrgScope
from assent.runtime.rights import hidden_types, may_read, require_capability
from assent.store.database import Connection
from assent.telemetry import current_trace


@dataclass(frozen=True, slots=True)
class FilterCommands:
    """The saved filters of the actor and of the org; `filter_of` is an entity type, or `inbox`."""

    scope: OrgScope

    async def list(
        self,
        filter_of: str | None = None,
        *,
        after: FilterPosition | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> builtins.list[SavedFilter]:
        """Return the actor's filters and those of the org, of types that the actor may read, in order."""
        scope, actor = self.scope, self.scope.required_actor
        hidden = hidden_types(scope.core.kernel.registry.contracts, actor)
        async with scope.reading() as connection:
            return await list_filters(
                connection, scope.org_id, actor.id, filter_of, hidden_types=hidden, after=after, limit=limit
            )

    async def get(self, filter_of: str, name: str) -> SavedFilter:
        """Return the filter of a name, the actor's own before the org's; raise `Refused` if there is none."""
        self._may_read(filter_of)
        async with self.scope.reading() as connection:
            return await find_filter(connection, self._key(filter_of, name))

    async def save(
        self, filter_of: str, name: str, filter: Mapping[str, Any], *, shared: bool = False
    ) -> SavedFilter:
        """Save a filter, in place of the one of its name; raise `Invalid` or `Refused` with every problem.

        One that all of the org use takes `filters:share`.
        """
        scope, key = self.scope, self._key(filter_of, name, shared=shared)
        self._may_read(filter_of)
        self._may_share(shared)
        check_data(filter)

        async def work(connection: Connection) -> SavedFilter:
            if filter_of == INBOX:
                said = inbox_filter_from(filter).to_json()
            else:
                wanted = filter_from(filter)
                await resolve(connection, scope.core.kernel.registry.contracts[filter_of], wanted)
                said = wanted.to_json()
            return await save_filter(connection, key, said, scope.database.clock.now())

        return await scope.database.run(work, org_id=scope.org_id, by=self._by())

    async def delete(self, filter_of: str, name: str, *, shared: bool = False) -> SavedFilter:
        """Delete the actor's own filter of a name, or with `filters:share` the org's."""
        key = self._key(filter_of, name, shared=shared)
        self._may_read(filter_of)
        self._may_share(shared)

        async def work(connection: Connection) -> SavedFilter:
            return await delete_filter(connection, key)

        return await self.scope.database.run(work, org_id=self.scope.org_id, by=self._by())

    def _key(self, filter_of: str, name: str, *, shared: bool = False) -> FilterKey:
        return FilterKey(self.scope.org_id, filter_of, name, self.scope.required_actor.id, shared)

    def _may_read(self, filter_of: str) -> None:
        contracts = self.scope.core.kernel.registry.contracts
        if filter_of == INBOX:
            return
        if filter_of not in contracts:
            message = f"there is no entity type `{filter_of}`"
            raise Refused(Rejection("UNKNOWN_ENTITY_TYPE", message, ("filter_of",)))
        may_read(contracts, filter_of, self.scope.required_actor)

    def _may_share(self, shared: bool) -> None:
        if shared:
            require_capability(self.scope.required_actor, SHARE_FILTERS)

    def _by(self) -> By:
        return By(self.scope.required_actor, self.scope.core.origin, current_trace())
