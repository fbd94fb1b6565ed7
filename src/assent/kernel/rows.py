"""Between the kernel's values and the rows that its statements take and give."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from assent.kernel.changes import EntityChange
from assent.model.contract import EditWindow
from assent.model.mutation import Entity
from assent.store.rows import Row, RowValues, from_row, to_row

_WRITTEN: Final = (
    "org_id",
    "version_id",
    "contract_version",
    "partition_id",
    "version",
    "state",
    "data",
    "data_hash",
    "content_hash",
    "edit_window",
    "instance_id",
    "amended_from_id",
)
"""The fields of an entity that `write_entities` takes under their own names."""


def entity_from(row: Row) -> Entity:
    return from_row(Entity, row, type=row["entity_type"], edit_window=EditWindow(row["edit_window"]))


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
    return to_row(
        after,
        _WRITTEN,
        entity_id=after.id,
        entity_type=after.type,
        from_version=before.version if before else None,
        from_state=before.state if before else None,
        written_by_instance=change.draft.command.by_instance,
        at=now,
    )


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
