"""Bodies of members, roles, API keys, secrets and delegations."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.people.members import (
    MemberKind,
)


class MemberBody(ResponseModel):
    """A member of the org."""

    user_id: str = Field(examples=["dora"])
    kind: MemberKind
    name: str = Field(examples=["Dora Diaz"])
    email: str | None
    roles: list[str] = Field(examples=[["clerk"]])
    manager_id: str | None
    active: bool = Field(description="An inactive member cannot sign in and is not asked.")
    created_at: datetime
    updated_at: datetime


class RoleBody(ResponseModel):
    """A role and its capabilities."""

    role: str = Field(examples=["operator"])
    capabilities: list[str] = Field(examples=[["workflows:*", "events:emit"]])
    members: int = Field(description="The number of active members who hold it.")


class KeyBody(ResponseModel):
    """An API key, without its text."""

    id: UUID
    user_id: str = Field(examples=["robot"])
    name: str = Field(examples=["nightly import"])
    prefix: str = Field(description="The first characters of the key.", examples=["ak_Zx81aQ_p"])
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    partition_id: str | None = Field(description="The one partition of the org that it sees; null for all.")
    parent_id: UUID | None = Field(description="The key that made it. It is revoked with that key.")
    created_by: str | None = Field(description="The member who made it; null for an operator.")


class MadeKey(KeyBody):
    key: str = Field(description="The key itself. It is never shown again.")


class SecretBody(ResponseModel):
    """A secret, without its value."""

    name: str = Field(examples=["erp"])
    hosts: list[str] = Field(examples=[["erp.example"]])
    created_by: str
    created_at: datetime
    changed_at: datetime


class DelegationBody(ResponseModel):
    """A delegation."""

    id: UUID
    from_user: str = Field(examples=["bob"])
    to_user: str = Field(examples=["carol"])
    starts_at: datetime
    ends_at: datetime | None
    entity_types: list[str]
    workflows: list[str]
    reason: str | None
    created_by: str
    created_at: datetime
    revoked_at: datetime | None
