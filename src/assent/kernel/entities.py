"""Entities as rows: what is locked, read, looked up and listed, and the rows that a change writes.

`LockedRows` keeps what a transaction has locked and read already, so that it is not asked for again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from assent.kernel.changes import EntityChange
from assent.kernel.rules import RuleBook
from assent.model.actor import Actor
from assent.model.contract import EditWindow
from assent.model.cursor import ItemPage, id_in, integer_in, position_of
from assent.model.ids import EntityKey
from assent.model.index_values import IndexDeclaration
from assent.model.mutation import Command, Entity, Refused, Rejection, without_attachments
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row, RowValues, from_row, to_row

NO_INDEXES: Final = IndexDeclaration()
_WRITTEN: Final = (
    "org_id",
    "version_id",
    "contract_version",
    "partition_id",
    "version",
    "state",
    "data_hash",
    "content_hash",
    "edit_window",
    "instance_id",
    "amended_from_id",
)
"""The fields of an entity that `write_entities` takes under their own names."""


def entity_from(row: Row) -> Entity:
    data, attachments = without_attachments(row["data"])
    kind, window = row["entity_type"], EditWindow(row["edit_window"])
    return from_row(Entity, row, type=kind, edit_window=window, data=data, attachments=attachments)


Kind = tuple[str, str]
"""An org and an entity type."""


def change_rows(
    changes: Iterable[EntityChange], indexes: Mapping[Kind, IndexDeclaration], now: datetime
) -> tuple[list[RowValues], int]:
    """Return rows for `write_entities`, and how many layers they have: the most changes that one entity gets."""
    layers: dict[Any, int] = {}
    rows = []
    for change in changes:
        layer = layers[change.after.id] = layers.get(change.after.id, 0) + 1
        rows.append(
            {
                "layer": layer,
                **_entity_columns(change, now),
                **_audit_columns(change),
                "unique_values": change.unique_values,
                **_index_columns(change, indexes.get((change.after.org_id, change.after.type), NO_INDEXES)),
            }
        )
    return rows, max(layers.values(), default=0)


def _entity_columns(change: EntityChange, now: datetime) -> RowValues:
    before, after = change.before, change.after
    return to_row(
        after,
        _WRITTEN,
        data=after.whole_data,
        entity_id=after.id,
        entity_type=after.type,
        from_version=before.version if before else None,
        from_state=before.state if before else None,
        written_by_instance=change.draft.command.by_instance,
        at=now,
    )


def _index_columns(change: EntityChange, declared: IndexDeclaration) -> RowValues:
    before = change.before.data if change.before is not None else None
    return {
        "index_stamp": declared.stamp,
        "indexed": declared.changed_values(before, change.after.data) if declared.stamp else None,
    }


def _audit_columns(change: EntityChange) -> RowValues:
    command = change.draft.command
    actor = command.acted_by or command.actor
    return {
        "audit_id": change.audit_id,
        "actor_id": actor.id,
        "actor_kind": actor.kind,
        "actor_roles": sorted(actor.roles),
        "on_behalf_of": command.on_behalf_of or None,
        "contributors": command.people if change.is_contribution else (),
        "action": change.draft.action_name,
        "changed": change.changed_fields,
        "place": command.place,
        "reason": command.reason,
        "channel": command.channel,
        "trace_id": command.trace_id,
    }


@dataclass(slots=True)
class LockedRows:
    """Entities under lock as they stand now, the rules of some types, and the contract versions that new ones get."""

    entities: dict[EntityKey, Entity] = field(default_factory=dict)
    rules: dict[Kind, RuleBook] = field(default_factory=dict)
    newest: dict[Kind, int | None] = field(default_factory=dict)
    """None where no contract is published."""
    indexes: dict[Kind, IndexDeclaration] = field(default_factory=dict)

    def entity_of(self, command: Command) -> Entity | None:
        return self.entities.get((command.org_id, command.entity_id)) if command.entity_id else None

    def forget(self) -> None:
        """Forget everything: code of the application had the connection and may have written with it."""
        self.entities.clear()
        self.rules.clear()
        self.newest.clear()
        self.indexes.clear()


_SQL: Final = load_queries("assent.kernel", "kernel.sql")


async def lock_entity(connection: Connection, org_id: str, entity_id: UUID) -> Entity | None:
    """Return the entity, locked with its instance until the transaction ends (D11)."""
    row = await connection.fetchrow(_SQL.lock_entities, [org_id], [entity_id])
    return entity_from(row) if row else None


def require_version(entity: Entity, version: int | None) -> None:
    """Raise `Refused` unless an entity is at this version; None for any."""
    if version not in (None, entity.version):
        message = f"expected version {version}, found version {entity.version}"
        hint = "read it again and decide on its current version"
        raise Refused(Rejection("VERSION_CONFLICT", message, ("expected_version",), hint=hint))


async def read_entity(connection: Connection, org_id: str, entity_id: UUID) -> Entity | None:
    row = await connection.fetchrow(_SQL.read_entity, org_id, entity_id)
    return entity_from(row) if row else None


async def read_versions(connection: Connection, org_id: str, entity_id: UUID) -> list[Mapping[str, Any]]:
    return [dict(row) for row in await connection.fetch(_SQL.read_versions, org_id, entity_id)]


async def read_audit(connection: Connection, org_id: str, entity_id: UUID) -> list[Mapping[str, Any]]:
    return [dict(row) for row in await connection.fetch(_SQL.read_audit, org_id, entity_id)]


async def read_actor(connection: Connection, org_id: str, user_id: str) -> Actor | None:
    """Return a member as an actor; None when unknown or inactive."""
    row = await connection.fetchrow(_SQL.read_actor, org_id, user_id)
    if row is None:
        return None
    return Actor(row["user_id"], row["kind"], frozenset(row["roles"]), frozenset(row["capabilities"]))


async def find_entities(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    first: UUID,
    last: UUID,
    limit: int,
    *,
    entity_type: str | None = None,
) -> list[UUID]:
    """Return the entities, all or of one type, whose ids lie between two, both included."""
    rows = await connection.fetch(_SQL.find_entities_between, org_id, first, last, limit, entity_type)
    return [row["id"] for row in rows]


ROWS_BYTES_MAX: Final = 4_194_304
"""Of content that is read for one page: twice what a page shows, for JSON is written shorter than the database says."""


@dataclass(frozen=True, slots=True)
class EntityVersion:
    """One version of an entity, with its whole content."""

    id: UUID
    version: int
    state: str
    data: Mapping[str, Any]
    created_at: datetime
    created_by: str
    attachments: Mapping[str, str] = field(default_factory=dict)
    """Its files, id → SHA-256."""

    @classmethod
    def of(cls, row: Row) -> Self:
        data, attachments = without_attachments(row["data"])
        return from_row(cls, row, data=data, attachments=attachments)


@dataclass(frozen=True, slots=True)
class FieldDifference:
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """The differences between two versions of an entity."""

    from_version: int
    to_version: int
    state: FieldDifference | None
    """None if it is the same."""
    fields: Mapping[str, FieldDifference]

    @classmethod
    def between(cls, old: Row, new: Row) -> Self:
        """Return the differences between the rows of two versions."""
        before, after = old["data"], new["data"]
        names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        states = FieldDifference(old["state"], new["state"])
        return cls(
            old["version"],
            new["version"],
            states if states.before != states.after else None,
            {name: FieldDifference(before.get(name), after.get(name)) for name in names},
        )


@dataclass(frozen=True, slots=True)
class EntityAuditEntry:
    """One change of an entity: its actor, its origin and the fields that changed."""

    id: UUID
    at: datetime
    actor_id: str
    actor_kind: str
    actor_roles: Sequence[str]
    on_behalf_of: Sequence[str] | None
    action: str
    from_version: int | None
    to_version: int
    from_state: str | None
    to_state: str
    changes: Mapping[str, Any]
    """Field → [before, after]."""
    place: str | None
    reason: str | None
    channel: str
    instance_id: UUID | None
    trace_id: str | None


async def list_versions(
    connection: Connection, org_id: str, entity_id: UUID, cursor: str | None, limit: int
) -> ItemPage[EntityVersion]:
    """Return a page of the versions of an entity, newest first."""
    after = position_of(cursor, integer_in)
    rows = await connection.fetch(_SQL.list_versions, org_id, entity_id, after, limit + 1, ROWS_BYTES_MAX)
    found = [EntityVersion.of(row) for row in rows]
    return ItemPage.of(found, limit, lambda each: each.version, is_cut=is_cut(rows))


async def list_audit(
    connection: Connection, org_id: str, entity_id: UUID, cursor: str | None, limit: int
) -> ItemPage[EntityAuditEntry]:
    """Return a page of the audit entries of an entity, newest first."""
    after = position_of(cursor, id_in)
    rows = await connection.fetch(_SQL.list_audit, org_id, entity_id, after, limit + 1)
    found = [from_row(EntityAuditEntry, row) for row in rows]
    return ItemPage.of(found, limit, lambda entry: str(entry.id))


def is_cut(rows: Sequence[Row]) -> bool:
    """Return whether rows may be missing because the others have so many bytes."""
    return bool(rows) and rows[-1]["bytes_to"] >= ROWS_BYTES_MAX


async def read_two_versions(
    connection: Connection, org_id: str, entity_id: UUID, first: int, second: int
) -> Mapping[int, Row]:
    """Return those of the two that there are, by their numbers."""
    rows = await connection.fetch(_SQL.read_two_versions, org_id, entity_id, first, second)
    return {row["version"]: dict(row) for row in rows}
