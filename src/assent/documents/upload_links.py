"""Links by which an outside party hands in the files of one request: made, revoked, and what they lead to now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import from_row

_SQL: Final = load_queries("assent.documents", "files.sql")


@dataclass(frozen=True, slots=True)
class UploadLink:
    """A link with the request that it is for, as both stand."""

    org_id: str
    id: UUID
    request_id: UUID
    key: str = field(repr=False)
    made_by: str | None
    expires_at: datetime
    revoked_at: datetime | None
    partition_id: str | None
    status: str
    """Of the request."""
    ended_at: datetime | None
    asked: Mapping[str, Any]
    """What the request asks for, as it was asked."""
    org_name: str
    language: str | None
    """In which the org writes to outside parties; None for its first one."""

    @property
    def actor(self) -> Actor:
        """Return the outside party. What comes by a link that a member made is that member's work too."""
        name = f"outside:{self.request_id}"
        return Actor(name, "service_account", capabilities={"documents:write"}, maker_id=self.made_by)

    @property
    def documents(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.asked.get("documents", ())
        return found

    def require_open(self) -> None:
        """Raise `Refused` where nothing can be handed in any more."""
        if self.revoked_at is not None:
            raise Refused(Rejection("LINK_REVOKED", "the link was revoked"))
        if self.ended_at is not None:
            why = {
                "completed": "everything that was asked for has come",
                "expired": "its time is over",
                "cancelled": "it was withdrawn, or asked again under another link",
            }
            message = f"nothing more can be handed in: {why.get(self.status, 'the request has ended')}"
            raise Refused(Rejection("REQUEST_ENDED", message, ("request", self.status)))

    def asked_for(self, doc_type: str) -> Mapping[str, Any]:
        """Return what is asked of a document; raise `Refused` for one that is not asked for."""
        for one in self.documents:
            if one.get("doc_type") == doc_type:
                return one
        kinds = ", ".join(str(one.get("doc_type")) for one in self.documents)
        message = f"{doc_type[:100]!r} is not asked for here; these are: {kinds}"
        raise Refused(Rejection("NOT_FOUND", message, ("doc_type",)))


async def find_upload_link(
    connection: Connection, org_id: str, link_id: UUID, *, locked: bool = False
) -> UploadLink | None:
    """Return a link; `locked` keeps it from being revoked before the end of the transaction."""
    statement = _SQL.lock_upload_link if locked else _SQL.find_upload_link
    row = await connection.fetchrow(statement, org_id, link_id)
    return from_row(UploadLink, row) if row is not None else None


async def insert_upload_link(
    connection: Connection, org_id: str, request_id: UUID, made_by: str, days: int
) -> UploadLink | None:
    """Make a link for a request that asks for documents; return None if it asks for none."""
    link_id = await connection.fetchval(_SQL.insert_upload_link, org_id, request_id, made_by, days)
    return await find_upload_link(connection, org_id, link_id) if link_id is not None else None


async def revoke_upload_links(connection: Connection, org_id: str, request_id: UUID, by: str) -> int:
    """Revoke all links of a request; return how many were still good."""
    return len(await connection.fetch(_SQL.revoke_upload_links, org_id, request_id, by))


@dataclass(frozen=True, slots=True)
class HandedIn:
    """A document that has come for a request, with its latest version."""

    doc_type: str
    document_id: UUID
    version_id: UUID
    sha256: str | None
    at: datetime


async def list_handed_in(connection: Connection, org_id: str, request_id: UUID) -> dict[str, HandedIn]:
    """Return what has come for a request and was not rejected, by the type of document."""
    rows = await connection.fetch(_SQL.list_handed_in, org_id, request_id)
    return {row["doc_type"]: from_row(HandedIn, row) for row in rows}


async def lock_hand_in(connection: Connection, org_id: str, request_id: UUID, doc_type: str) -> None:
    """Let one transaction at a time hand in a document of a type for a request."""
    await connection.execute(_SQL.lock_hand_in, f"{org_id}\n{request_id}\n{doc_type}")


async def find_asked_document(connection: Connection, org_id: str, requirement_id: UUID) -> UUID | None:
    """Return the document that came for a requirement before, to which the next version is added."""
    found: UUID | None = await connection.fetchval(_SQL.find_asked_document, org_id, requirement_id)
    return found
