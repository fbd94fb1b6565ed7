"""Entities, their versions and their audit trail as JSON."""

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel, Field

from assent.http.texts import Body, Data, Text
from assent.http.workflow_shapes import InstanceBody
from assent.model.contract import EditWindow
from assent.model.mutation import Entity
from assent.store.rows import Row

_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
_DATA = {"number": "2026-17", "grand_total": 120000}


class NewEntity(Body):
    data: Data = Field(examples=[_DATA])
    id: UUID | None = Field(None, description="A fresh one when absent.")
    reason: Text | None = None


class EntityChanges(Body):
    """Fields that change; a field is taken away with null."""

    data: Data = Field(examples=[{"grand_total": 130000}])
    reason: Text | None = Field(None, examples=["The vendor corrected it"])


class ActionCall(Body):
    data: Data = Field(default={}, description="The payload of the action.", examples=[{"to": 100}])
    reason: Text | None = None


class EntityBody(BaseModel):
    """An entity at its current version."""

    id: UUID = Field(examples=[_ID])
    type: str = Field(examples=["invoice"])
    state: str = Field(examples=["draft"])
    version: int
    data: Data = Field(examples=[_DATA])
    edit_window: EditWindow = Field(description="What an edit means now.")
    contract_version: int
    partition_id: str | None = None
    instance_id: UUID | None = Field(
        None, description="The workflow instance that runs for it, or is to come."
    )
    amended_from_id: UUID | None = None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, entity: Entity) -> "EntityBody":
        found = {name: getattr(entity, name) for name in cls.model_fields}
        return cls(**{**found, "data": dict(entity.data)})


class TransitionBody(BaseModel):
    """An entity after a transition was asked for, and the instance that makes it."""

    entity: EntityBody
    instance: InstanceBody | None = None


class VersionBody(BaseModel):
    """One version of an entity."""

    id: UUID
    version: int
    state: str
    data: Data
    created_at: datetime
    created_by: str

    @classmethod
    def of(cls, row: Row) -> "VersionBody":
        return cls(**row)


class FieldChange(BaseModel):
    before: Any = None
    after: Any = None


class DiffBody(BaseModel):
    """What differs between two versions."""

    from_version: int
    to_version: int
    state: FieldChange | None = Field(None, description="Only where it differs.")
    fields: dict[str, FieldChange] = Field(examples=[{"grand_total": {"before": 120000, "after": 130000}}])

    @classmethod
    def of(cls, old: Row, new: Row) -> "DiffBody":
        before, after = old["data"], new["data"]
        names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        return cls(
            from_version=old["version"],
            to_version=new["version"],
            state=FieldChange(before=old["state"], after=new["state"])
            if old["state"] != new["state"]
            else None,
            fields={name: FieldChange(before=before.get(name), after=after.get(name)) for name in names},
        )


class AuditBody(BaseModel):
    """Who did what, when, from where, how and why."""

    id: UUID
    at: datetime
    actor_id: str
    actor_kind: str
    actor_roles: list[str]
    on_behalf_of: list[str] | None = Field(
        description="For whom the actor acted, such as the submitter after a timer; none for themselves.",
        examples=[["ann"]],
    )
    action: str = Field(examples=["invoice.update"])
    changes: dict[str, Any] = Field(description="Field → [before, after].")
    place: str | None
    reason: str | None
    channel: str = Field(examples=["http"])
    instance_id: UUID | None
    trace_id: str | None

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(**row)


class EntityAuditBody(AuditBody):
    """The same of a change of an entity."""

    from_version: int | None
    to_version: int
    from_state: str | None
    to_state: str
