"""The audit log of an org, as its readers search it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from assent.audit.entries import READ_AUDIT, AuditFilter, search_audit
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, position_of, require_limit
from assent.runtime.core import OrgScope
from assent.runtime.rights import hidden_types, require_capability
from assent.store.database import Connection
from assent.store.rows import Row


@dataclass(frozen=True, slots=True)
class AuditCommands:
    """The audit log of an org: who did what, to what, when, by which way and why."""

    scope: OrgScope

    async def search(  # noqa: PLR0913
        self,
        *,
        entity_type: str | None = None,
        entity_id: UUID | None = None,
        actor: str | None = None,
        action: str | None = None,
        subject_kind: str | None = None,
        subject_id: str | None = None,
        channel: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[Row]:
        """Return a page of entries, newest first, from `since` to before `until`; takes `audit:read`.

        Entries of entities that the actor may not read are left out.
        """
        scope = self.scope
        after = position_of(cursor, id_in)
        require_limit(limit)
        reader = scope.actor_or_system
        require_capability(reader, READ_AUDIT)
        wanted = AuditFilter(
            entity_type=entity_type,
            entity_id=entity_id,
            actor_id=actor,
            action=action,
            subject_kind=subject_kind,
            subject_id=subject_id,
            channel=channel,
            since=since,
            until=until,
            partition_id=scope.partition_id,
            hidden_types=hidden_types(scope.core.kernel.registry.contracts, reader),
        )

        async def query(connection: Connection) -> ItemPage[Row]:
            found = await search_audit(connection, scope.org_id, wanted, after, limit + 1)
            return ItemPage.of(found, limit, lambda row: str(row["id"]))

        return await scope.read(query)
