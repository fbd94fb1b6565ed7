"""What an outside party does by its link: see what is asked for, and hand in a file for each document of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from assent.documents.documents import (
    NewDocument,
    NewVersion,
    VersionItem,
    find_document,
    insert_document,
    lock_version,
)
from assent.documents.files import ReceivedFile
from assent.documents.upload_links import (
    HandedIn,
    UploadLink,
    find_asked_document,
    find_upload_link,
    list_handed_in,
    lock_hand_in,
)
from assent.effects.file_links import UPLOAD, LinkClaims, read_claims, require_link
from assent.model.actor import Origin, people_of
from assent.model.mutation import Refused, Rejection
from assent.model.outside_request import OURS, Bundle, BundleItem, Cargo
from assent.requests.outside_requests import push_delivery
from assent.runtime.core import CommandTransaction, Core, OrgScope
from assent.runtime.document_commands import insert_handed_in
from assent.runtime.file_commands import bytes_max_of
from assent.store.database import Connection

CHANNEL = "upload link"
"""How the audit log names the way of what comes by a link."""


@dataclass(frozen=True, slots=True)
class AskedDocument:
    """A document that is asked for, in the words of the client."""

    doc_type: str
    attempt: int
    message: str | None
    """What was wrong with the last one, and what to do."""
    handed_in_at: datetime | None
    due_date: date | None


@dataclass(frozen=True, slots=True)
class AskedUploads:
    """What a link is for."""

    org_name: str
    language: str | None
    documents: Sequence[AskedDocument]
    expires_at: datetime
    bytes_max: int


@dataclass(frozen=True, slots=True)
class OutsideParty:
    """The holder of a link that was checked, held to its request."""

    core: Core
    link: UploadLink
    bytes_max: int
    token: str
    place: str | None = None

    @property
    def scope(self) -> OrgScope:
        core = self.core.via(Origin(CHANNEL, self.place))
        return OrgScope(core, self.link.org_id, self.link.actor, self.link.partition_id)

    async def look(self) -> AskedUploads:
        """Return what is asked for, and what of it has come."""
        link = self.link

        async def query(connection: Connection) -> dict[str, HandedIn]:
            return await list_handed_in(connection, link.org_id, link.request_id)

        came = await self.scope.read(query)
        documents = [_asked(one, came.get(one["doc_type"])) for one in link.documents]
        return AskedUploads(link.org_name, link.language, documents, link.expires_at, self.bytes_max)

    async def hand_in(self, doc_type: str, file: ReceivedFile) -> tuple[VersionItem, bool]:
        """Add a file to the document that is asked for, and complete its item; return whether it is new.

        The same bytes again are the same version. Raise `Refused` if another file has come, or the request ended.
        """
        org_id, actor = self.link.org_id, self.link.actor

        async def work(transaction: CommandTransaction) -> tuple[VersionItem, bool]:
            connection, scope = transaction.connection, transaction.scope
            now = scope.database.clock.now()
            link = await find_upload_link(connection, org_id, self.link.id, locked=True)
            require_link(
                UPLOAD, self.token, LinkClaims(org_id, self.link.id), link.key if link else None, now
            )
            assert link is not None
            link.require_open()
            asked = link.asked_for(doc_type)
            await lock_hand_in(connection, org_id, link.request_id, doc_type)
            earlier = (await list_handed_in(connection, org_id, link.request_id)).get(doc_type)
            if earlier is not None:
                return await _same(connection, link, earlier, file), False
            document_id = await find_asked_document(connection, org_id, asked["requirement_id"])
            if document_id is None:
                subject = str(link.asked["subject"])
                made = NewDocument(scope.new_id(), doc_type, subject, partition_id=link.partition_id)
                await insert_document(connection, org_id, made, actor, now)
                details = {"type": doc_type}
                await transaction.note("document", "document.create", str(made.id), details=details)
                document_id = made.id
            document = await find_document(connection, org_id, document_id)
            assert document is not None
            new = NewVersion(scope.new_id(), file.content_type, file=file, request_id=link.request_id)
            version = await insert_handed_in(transaction, document, new, actor)
            cargo = str(Cargo("version", OURS, str(version.id)))
            bundle = Bundle(key=f"upload:{version.id}", items=(BundleItem(cargo=cargo, kind=doc_type),))
            pushed = await push_delivery(
                connection, link.request_id, bundle, "upload", actor.id, people_of(actor)
            )
            if pushed != "accepted":  # the request has ended since the link was read
                replace(link, ended_at=link.ended_at or now).require_open()
            return version, True

        return await self.scope.write(work)


async def _same(
    connection: Connection, link: UploadLink, earlier: HandedIn, file: ReceivedFile
) -> VersionItem:
    if earlier.sha256 != file.sha256:
        message = f"{earlier.doc_type} has come already; it is asked for again if it is not right"
        raise Refused(Rejection("ALREADY_HANDED_IN", message, ("doc_type",)))
    found = await lock_version(connection, link.org_id, earlier.document_id, earlier.version_id)
    assert found is not None
    return found.version


def _asked(one: Any, came: HandedIn | None) -> AskedDocument:
    due = date.fromisoformat(one["due_date"]) if "due_date" in one else None
    came_at = came.at if came else None
    return AskedDocument(one["doc_type"], one.get("attempt", 1), one.get("message"), came_at, due)


async def outside_party_of(core: Core, token: str, place: str | None = None) -> OutsideParty:
    """Return who holds a link; raise `Refused` for one that is none of ours, or leads nowhere any more."""
    claims = read_claims(UPLOAD, token)
    async with core.database.transaction(claims.org_id, read_only=True) as connection:
        link = await find_upload_link(connection, claims.org_id, claims.id)
        bytes_max = await bytes_max_of(connection, claims.org_id, core.blobs)
    require_link(UPLOAD, token, claims, link.key if link else None, core.database.clock.now())
    assert link is not None
    link.require_open()
    return OutsideParty(core, link, bytes_max, token, place)
