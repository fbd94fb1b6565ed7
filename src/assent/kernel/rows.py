"""Between the kernel's values and the rows that its statements take and give."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from assent.kernel.changes import EntityChange
from assent.model.contract import EditWindow
from assent.model.mutation import Entity
from assent.store.rows import Row, RowValues


def entity_from(row: Row) -> Entity:
    return Entity(
        org_id=row["org_id"],
        id=row["id"],
        type=row["entity_type"],
        contract_version=row["contract_version"],
        state=row["state"],
        version=row["version"],
        data=row["data"],
        data_hash=row["data_hash"],
        edit_window=EditWindow(row["edit_window"]),
        version_id=row["version_id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        partition_id=row["partition_id"],
        instance_id=row["instance_id"],
        amended_from_id=row["amended_from_id"],
        content_hash=row["content_hash"],
    )


def change_rows(changes: Iterable[EntityChange], now: datetime) -> tuple[list[RowValues], int]:
    """Rows for `write_entities`, and how many layers they have: the most changes that one entity gets."""
    layers: dict[Any, int] = {}
    rows = []
    for change in changes:
        layer = layers[change.after.id] = layers.get(change.after.id, 0) + 1
        rows.append({"layer": layer, **_entity_columns(change, now), **_audit_columns(change)})
    return rows, max(layers.values(), default=0)


def _entity_columns(change: EntityChange, now: datetime) -> RowValues:
    before, after = change.before, change.after
    return {
        "org_id": after.org_id,
        "entity_id": after.id,
        "version_id": after.version_id,
        "entity_type": after.type,
        "contract_version": after.contract_version,
        "partition_id": after.partition_id,
        "from_version": before.version if before else None,
        "version": after.version,
        "from_state": before.state if before else None,
        "state": after.state,
        "data": after.data,
        "data_hash": after.data_hash,
        "content_hash": after.content_hash,
        "edit_window": after.edit_window,
        "instance_id": after.instance_id,
        "written_by_instance": change.draft.command.by_instance,
        "amended_from_id": after.amended_from_id,
        "at": now,
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
        "action": command.action,
        "changed": change.changed_fields,
        "place": command.place,
        "reason": command.reason,
        "channel": command.channel,
        "trace_id": command.trace_id,
    }
