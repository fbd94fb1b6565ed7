"""Commands to documents from outside parties, to their review, and to what is required of these parties."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from assent.documents.documents import (
    DocumentEvent,
    DocumentFilter,
    DocumentItem,
    NewDocument,
    NewVersion,
    Review,
    VersionItem,
    erase_version,
    find_document,
    insert_document,
    insert_version,
    list_events,
    list_versions,
    lock_version,
    page_of_documents,
    write_review,
)
from assent.documents.files import OCTETS, KeptFile, NewFile, find_file
from assent.documents.requirements import (
    ActorsChange,
    RequirementCounts,
    RequirementFilter,
    count_requirements,
    find_rejection_code,
    find_requirement,
    is_required,
    keep_rejection_code,
    list_rejection_codes,
    lock_requirements,
    lock_requirements_of_subject,
    page_of_requirements,
    write_requirements,
)
from assent.effects.outbox import NewEffect, enqueue
from assent.engine.nodes.requirements import LANGUAGE_SETTING, describe_asked, messages_of
from assent.language.built_in_verbs import Solicitation
from assent.model.actor import Actor
from assent.model.cursor import ITEMS_DEFAULT, ItemPage, id_in, position_of, require_limit
from assent.model.document import (
    MAX_ATTEMPTS,
    DocumentRequirement,
    DocumentSource,
    RejectionCode,
    RequiredState,
    RequirementChange,
    RequirementStatus,
    VersionStatus,
)
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.outside_request import EXPECTED_MAX, OutsideRequest
from assent.people.orgs import read_org
from assent.requests.outside_requests import open_requests
from assent.runtime.commands import check_data
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.event_commands import WRITE_DOCUMENTS
from assent.runtime.extraction import submit_extraction
from assent.runtime.file_commands import (
    Content,
    FileLink,
    OpenedFile,
    bytes_max_of,
    link_to,
    receive_file,
)
from assent.runtime.readers import SeenInstance, may_read_instance, reader_of
from assent.runtime.rights import READ_DOCUMENTS, require_capability
from assent.runtime.views import find_instance
from assent.store.database import Connection
from assent.store.rows import Row
from assent.telemetry import current_trace

REVIEW_DOCUMENTS: Final = "documents:review"
"""The capability to verify and reject versions that others handed in."""
ERASE_DOCUMENTS: Final = "documents:erase"
"""The capability to delete the content of versions."""
MANAGE_REQUIREMENTS: Final = "requirements:manage"
"""The capability to create and reset requirements, and to keep rejection codes."""
WAIVE_REQUIREMENTS: Final = "requirements:waive"
"""The capability to do without a document."""

JSON_TYPE: Final = "application/json"
NAME_LENGTH_MAX: Final = 200
TYPE_LENGTH_MAX: Final = 100
REASON_LENGTH_MAX: Final = 2_000
BLOB_REF_LENGTH_MAX: Final = 1_000
WORDS_LENGTH_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class DocumentDetails:
    """A document with its versions and what happened to it, the latest first."""

    document: DocumentItem
    versions: Sequence[VersionItem]
    events: Sequence[DocumentEvent]


@dataclass(frozen=True, slots=True)
class RequirementDetails:
    """A requirement with what happened to it, the latest first."""

    requirement: DocumentRequirement
    events: Sequence[DocumentEvent]


@dataclass(frozen=True, slots=True)
class Solicited:
    """A request that was made of an outside party, and what it asks for."""

    request_id: UUID
    requirements: Sequence[DocumentRequirement]


@dataclass(frozen=True, slots=True)
class DocumentCommands:
    """The documents of an org."""

    scope: OrgScope

    async def create(  # noqa: PLR0913
        self,
        document_type: str,
        subject: str,
        *,
        source: DocumentSource = "upload",
        source_ref: str | None = None,
        parent_id: UUID | None = None,
        requirement_id: UUID | None = None,
    ) -> DocumentItem:
        """Create a document, and return it; its content comes with its versions. Takes `documents:write`.

        A document for a requirement moves it to `received` with its first version.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, WRITE_DOCUMENTS)
        require_name(document_type, "document_type", length_max=TYPE_LENGTH_MAX)
        require_name(subject, "subject", length_max=NAME_LENGTH_MAX)
        if source_ref is not None:
            require_name(source_ref, "source_ref", length_max=WORDS_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> DocumentItem:
            connection, partition_id = transaction.connection, scope.partition_id
            if parent_id is not None:
                await _visible_document(scope, connection, parent_id, "parent_id")
            if requirement_id is not None:
                required = await _visible_requirement(scope, connection, requirement_id)
                if required.place != (subject, document_type):
                    message = "the requirement is for a document of another type or subject"
                    raise Refused(Rejection("BAD_VALUE", message, ("requirement_id",)))
                partition_id = required.partition_id
            new = NewDocument(
                scope.new_id(),
                document_type,
                subject,
                source,
                source_ref,
                parent_id,
                requirement_id,
                partition_id,
            )
            await insert_document(connection, scope.org_id, new, actor, scope.database.clock.now())
            await transaction.note(
                "document", "document.create", str(new.id), details={"type": document_type}
            )
            return await _visible_document(scope, connection, new.id)

        return await scope.write(work)

    async def add_version(  # noqa: PLR0913
        self,
        document_id: UUID,
        content_type: str | None = None,
        *,
        structured_data: Mapping[str, Any] | None = None,
        blob_ref: str | None = None,
        content: Content | None = None,
        file_name: str | None = None,
        valid_from: date | None = None,
        valid_to: date | None = None,
        quality_score: Decimal | None = None,
        extraction_confidence: Decimal | None = None,
    ) -> VersionItem:
        """Add the next version of a document, with its fields, its file, or with where its file is.

        Takes `documents:write`. `content` is a file: bytes, a path, something to read from, or parts as they come; it
        goes to the store of files and is never in memory as a whole.
        """
        new = NewVersion(
            self.scope.new_id(),
            content_type or (JSON_TYPE if content is None else OCTETS),
            structured_data,
            blob_ref,
            valid_from,
            valid_to,
            quality_score,
            extraction_confidence,
        )
        if content is None:
            return await hand_in(self.scope, document_id, new)
        _require_sound(new, has_file=True)
        bytes_max = await check_upload(self.scope, document_id)
        described = NewFile(file_name, new.content_type)
        async with receive_file(self.scope, content, described, bytes_max) as file:
            return await hand_in(self.scope, document_id, replace(new, file=file))

    async def open(self, document_id: UUID, version_id: UUID) -> OpenedFile:
        """Return the file of a version, to be read in parts; takes `documents:read`."""
        return OpenedFile(self.scope.core.blobs, await self._file(document_id, version_id))

    async def download(self, document_id: UUID, version_id: UUID, path: Path) -> OpenedFile:
        """Write the file of a version to a path that is not there yet; takes `documents:read`."""
        opened = await self.open(document_id, version_id)
        await opened.save(path)
        return opened

    async def link(self, document_id: UUID, version_id: UUID, *, base_url: str | None = None) -> FileLink:
        """Return a link to the file of a version that holds for some minutes; takes `documents:read`.

        It leads to the bucket where the store signs links, else to our server at `ASSENT_PUBLIC_URL`, or at `base_url`.
        """
        kept = await self._file(document_id, version_id)
        return await link_to(self.scope.core.blobs, kept, self.scope.database.clock.now(), base_url)

    async def _file(self, document_id: UUID, version_id: UUID) -> KeptFile:
        scope = self.scope

        async def query(connection: Connection) -> KeptFile:
            await _visible_document(scope, connection, document_id)
            require_capability(scope.actor_or_system, READ_DOCUMENTS)
            found = await find_file(connection, scope.org_id, document_id, version_id)
            if found is None:
                message = f"version {version_id} has no file here"
                raise Refused(Rejection("NOT_FOUND", message, ("version_id",)))
            return found

        return await scope.read(query)

    async def verify(
        self,
        document_id: UUID,
        version_id: UUID,
        *,
        valid_from: date | None = None,
        valid_to: date | None = None,
        reason: str | None = None,
    ) -> VersionItem:
        """Verify a version that another person handed in; what waits for it goes on. Takes `documents:review`."""
        _require_order(valid_from, valid_to)
        return await self._review(document_id, version_id, None, reason, valid_from, valid_to)

    async def reject(
        self, document_id: UUID, version_id: UUID, code: str, reason: str | None = None
    ) -> VersionItem:
        """Reject a version with a code; the client is asked again, if the code allows it. Takes `documents:review`."""
        return await self._review(document_id, version_id, code, reason)

    async def _review(  # noqa: PLR0913, PLR0917
        self,
        document_id: UUID,
        version_id: UUID,
        code: str | None,
        reason: str | None,
        valid_from: date | None = None,
        valid_to: date | None = None,
    ) -> VersionItem:
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, REVIEW_DOCUMENTS)
        if reason is not None:
            require_name(reason, "reason", length_max=REASON_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> VersionItem:
            connection, now = transaction.connection, scope.database.clock.now()
            version = await self._locked(connection, document_id, version_id)
            _require_reviewable(version, actor)
            last_day = valid_to or version.valid_to
            if code is None and last_day is not None and last_day < now.date():
                message = f"the document was valid until {last_day}"
                hint = "reject it with EXPIRED"
                raise Refused(Rejection("BAD_VALUE", message, ("valid_to",), hint=hint))
            rejection = await _code(connection, scope.org_id, code) if code is not None else None
            review = Review(rejection, reason, valid_from, valid_to)
            await write_review(connection, scope.org_id, version, review, actor, now)
            details = {"version": str(version_id)} | ({"code": code} if code is not None else {})
            action = "document.verify" if code is None else "document.reject"
            await transaction.note("document", action, str(document_id), details=details)
            return await self._locked(connection, document_id, version_id)

        return await scope.write(work)

    async def erase(self, document_id: UUID, version_id: UUID, reason: str) -> VersionItem:
        """Delete the content of a version for good; the row with its review stays. Takes `documents:erase`."""
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, ERASE_DOCUMENTS)
        require_name(reason, "reason", length_max=REASON_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> VersionItem:
            connection, now = transaction.connection, scope.database.clock.now()
            version = await self._locked(connection, document_id, version_id)
            if not await erase_version(connection, scope.org_id, version, reason, actor, now):
                message = f"the content of version {version_id} was erased at {version.erased_at}"
                raise Refused(Rejection("VERSION_ERASED", message, ("version_id",)))
            details = {"version": str(version_id), "reason": reason}
            await transaction.note("document", "document.erase", str(document_id), details=details)
            return await self._locked(connection, document_id, version_id)

        return await scope.write(work)

    async def get(self, document_id: UUID) -> DocumentDetails:
        """Return a document with its versions and what happened to it; takes `documents:read`."""
        scope = self.scope

        async def query(connection: Connection) -> DocumentDetails:
            document = await _visible_document(scope, connection, document_id)
            require_capability(scope.actor_or_system, READ_DOCUMENTS)
            return DocumentDetails(
                document,
                await list_versions(connection, scope.org_id, document_id),
                await list_events(connection, scope.org_id, document_id=document_id),
            )

        return await scope.read(query)

    async def list(  # noqa: PLR0913
        self,
        *,
        document_type: str | None = None,
        subject: str | None = None,
        requirement_id: UUID | None = None,
        status: VersionStatus | None = None,
        fields: Mapping[str, Any] | None = None,
        q: str | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[DocumentItem]:
        """Return a page of documents, newest first; takes `documents:read`.

        `status` is that of the latest version; `fields` are those that a version holds, given or extracted, and `q` are
        words that are in its extracted text.
        """
        scope = self.scope
        after = position_of(cursor, id_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, READ_DOCUMENTS)
        if q is not None:
            require_name(q, "q", length_max=NAME_LENGTH_MAX)
        wanted = DocumentFilter(
            document_type=document_type,
            subject=subject,
            requirement_id=requirement_id,
            status=status,
            partition_id=scope.partition_id,
            data=None if fields is None else check_data(fields),
            words=q,
        )

        async def query(connection: Connection) -> ItemPage[DocumentItem]:
            found = await page_of_documents(connection, scope.org_id, wanted, after, limit + 1)
            return ItemPage.of(found, limit, lambda one: str(one.id))

        return await scope.read(query)

    async def _locked(self, connection: Connection, document_id: UUID, version_id: UUID) -> VersionItem:
        found = await lock_version(connection, self.scope.org_id, document_id, version_id)
        if found is None or not self.scope.sees(found.partition_id):
            raise Refused(Rejection("NOT_FOUND", f"no version {version_id}", ("version_id",)))
        return found.version


async def check_upload(scope: OrgScope, document_id: UUID) -> int:
    """Return how many bytes a file may have; raise `Refused` if the actor may not hand in a version of a document."""
    require_capability(scope.actor_or_system, WRITE_DOCUMENTS)

    async def query(connection: Connection) -> int:
        await _visible_document(scope, connection, document_id)
        return await bytes_max_of(connection, scope.org_id, scope.core.blobs)

    return await scope.read(query)


async def hand_in(scope: OrgScope, document_id: UUID, new: NewVersion) -> VersionItem:
    """Add a version to a document, with the file that was received for it; takes `documents:write`."""
    actor = scope.actor_or_system
    require_capability(actor, WRITE_DOCUMENTS)
    _require_sound(new, has_file=new.file is not None)

    async def work(transaction: CommandTransaction) -> VersionItem:
        connection = transaction.connection
        document = await _visible_document(scope, connection, document_id)
        return await insert_handed_in(transaction, document, new, actor)

    return await scope.write(work)


async def insert_handed_in(
    transaction: CommandTransaction, document: DocumentItem, new: NewVersion, actor: Actor
) -> VersionItem:
    """Write a version with its audit entry, and have its file read if the application has an extractor for it."""
    scope, connection = transaction.scope, transaction.connection
    now = scope.database.clock.now()
    await insert_version(connection, scope.org_id, document, new, actor, now)
    details = {"version": str(new.id)} | ({"sha256": new.file.sha256} if new.file is not None else {})
    await transaction.note("document", "document.add_version", str(document.id), details=details)
    found = await lock_version(connection, scope.org_id, document.id, new.id)
    assert found is not None
    about = (document.document_type, document.partition_id, scope.org_id)
    await submit_extraction(connection, scope.core, found.version, *about)
    return found.version


def _require_sound(new: NewVersion, *, has_file: bool) -> None:
    """Raise `Refused` for a version that says nothing, too much, or what cannot be."""
    require_name(new.content_type, "content_type", length_max=NAME_LENGTH_MAX)
    if new.structured_data is None and new.blob_ref is None and not has_file:
        message = "a version has `structured_data`, a file or `blob_ref`"
        raise Refused(Rejection("MISSING_KEY", message, ("structured_data",)))
    if new.structured_data is not None:
        check_data({"structured_data": dict(new.structured_data)})
    if new.blob_ref is not None:
        require_name(new.blob_ref, "blob_ref", length_max=BLOB_REF_LENGTH_MAX)
        if has_file:
            raise Refused(Rejection("BAD_VALUE", "a version has one file, found two", ("blob_ref",)))
    _require_order(new.valid_from, new.valid_to)
    for name in ("quality_score", "extraction_confidence"):
        score = getattr(new, name)
        if score is not None and not 0 <= score <= 100:
            raise Refused(Rejection("OUT_OF_RANGE", f"a percentage was expected, found {score}", (name,)))


@dataclass(frozen=True, slots=True)
class RequirementCommands:
    """The documents that an org requires."""

    scope: OrgScope

    async def create(  # noqa: PLR0913
        self,
        subject: str,
        doc_type: str,
        *,
        instance_id: UUID | None = None,
        required_state: RequiredState = "verified",
        max_attempts: int = MAX_ATTEMPTS,
        due_date: date | None = None,
    ) -> DocumentRequirement:
        """Require a document of a subject, for an instance or for the subject alone; takes `requirements:manage`."""
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_REQUIREMENTS)
        require_name(subject, "subject", length_max=NAME_LENGTH_MAX)
        require_name(doc_type, "doc_type", length_max=TYPE_LENGTH_MAX)
        if not 1 <= max_attempts <= 100:
            raise Refused(
                Rejection("OUT_OF_RANGE", f"1 to 100 expected, found {max_attempts}", ("max_attempts",))
            )

        async def work(transaction: CommandTransaction) -> DocumentRequirement:
            connection, now = transaction.connection, scope.database.clock.now()
            partition_id = scope.partition_id
            if instance_id is not None:
                partition_id = (await self._instance(connection, instance_id))["partition_id"]
            new = DocumentRequirement(
                scope.org_id,
                scope.new_id(),
                subject,
                doc_type,
                now,
                instance_id=instance_id,
                partition_id=partition_id,
                required_state=required_state,
                max_attempts=max_attempts,
                due_date=due_date,
            )
            if await is_required(connection, new):
                message = f"{doc_type} of {subject} is required already"
                raise Refused(Rejection("ALREADY_EXISTS", message, ("doc_type",)))
            await write_requirements(connection, [ActorsChange(RequirementChange(None, new), actor.id)], now)
            details = {"doc_type": doc_type}
            await transaction.note("requirement", "requirement.create", str(new.id), details=details)
            return new

        return await scope.write(work)

    async def get(self, requirement_id: UUID) -> RequirementDetails:
        """Return a requirement with what happened to it; takes `documents:read`, and the right to read its instance."""
        scope = self.scope

        async def query(connection: Connection) -> RequirementDetails:
            found = await _visible_requirement(scope, connection, requirement_id)
            require_capability(scope.actor_or_system, READ_DOCUMENTS)
            if found.instance_id is not None:
                row = await find_instance(connection, scope.org_id, found.instance_id)
                if row is not None:
                    await may_read_instance(
                        scope.core, connection, SeenInstance.of(row), scope.actor_or_system
                    )
            events = await list_events(connection, scope.org_id, requirement_id=requirement_id)
            return RequirementDetails(found, events)

        return await scope.read(query)

    async def list(  # noqa: PLR0913
        self,
        *,
        instance_id: UUID | None = None,
        subject: str | None = None,
        doc_type: str | None = None,
        status: RequirementStatus | None = None,
        code: str | None = None,
        due_before: date | None = None,
        cursor: str | None = None,
        limit: int = ITEMS_DEFAULT,
    ) -> ItemPage[DocumentRequirement]:
        """Return a page of requirements, newest first; takes `documents:read`.

        Those of instances that the actor may not read are left out. `code` is that of the last rejection; `due_before`
        leaves those that are open and due before that day.
        """
        scope = self.scope
        after = position_of(cursor, id_in)
        require_limit(limit)
        require_capability(scope.actor_or_system, READ_DOCUMENTS)
        wanted = RequirementFilter(
            instance_id=instance_id,
            subject=subject,
            doc_type=doc_type,
            status=status,
            partition_id=scope.partition_id,
            code=code,
            due_before=due_before,
        )

        async def query(connection: Connection) -> ItemPage[DocumentRequirement]:
            reader = await reader_of(scope.core, connection, scope.org_id, scope.actor_or_system)
            seen = replace(wanted, reader=reader)
            found = await page_of_requirements(connection, scope.org_id, seen, after, limit + 1)
            return ItemPage.of(found, limit, lambda one: str(one.id))

        return await scope.read(query)

    async def count(  # noqa: PLR0913
        self,
        *,
        instance_id: UUID | None = None,
        subject: str | None = None,
        doc_type: str | None = None,
        status: RequirementStatus | None = None,
        code: str | None = None,
        due_before: date | None = None,
    ) -> RequirementCounts:
        """Return how many requirements of a list have each status, exact up to 10,000; takes `documents:read`."""
        scope = self.scope
        require_capability(scope.actor_or_system, READ_DOCUMENTS)
        wanted = RequirementFilter(
            instance_id=instance_id,
            subject=subject,
            doc_type=doc_type,
            status=status,
            partition_id=scope.partition_id,
            code=code,
            due_before=due_before,
        )

        async def query(connection: Connection) -> RequirementCounts:
            reader = await reader_of(scope.core, connection, scope.org_id, scope.actor_or_system)
            return await count_requirements(connection, scope.org_id, replace(wanted, reader=reader))

        return await scope.read(query)

    async def solicit(
        self,
        subject: str,
        doc_types: Sequence[str],
        *,
        instance_id: UUID | None = None,
        notify: str | None = None,
        webhook: str | None = None,
    ) -> "Solicited":
        """Ask an outside party for documents of a subject, in one request; takes `requirements:manage`.

        What is not required yet is required from now on, by an instance or for the subject alone. Each document begins
        a round of asking. Raise `Refused` for one that was handed in, or that has no round left.
        """
        scope, actor = self.scope, self.scope.actor_or_system
        require_capability(actor, MANAGE_REQUIREMENTS)
        require_name(subject, "subject", length_max=NAME_LENGTH_MAX)
        kinds = list(dict.fromkeys(doc_types))
        if not 1 <= len(kinds) <= EXPECTED_MAX:
            message = f"1 to {EXPECTED_MAX} types expected, found {len(kinds)}"
            raise Refused(Rejection("OUT_OF_RANGE", message, ("doc_types",)))
        for kind in kinds:
            require_name(kind, "doc_types", length_max=TYPE_LENGTH_MAX)
        for name, address in (("notify", notify), ("webhook", webhook)):
            if address is not None:
                require_name(address, name, length_max=BLOB_REF_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> Solicited:
            connection, now = transaction.connection, scope.database.clock.now()
            instance = None if instance_id is None else await self._instance(connection, instance_id)
            partition_id = scope.partition_id if instance is None else instance["partition_id"]
            wanted = RequirementFilter(instance_id=instance_id, subject=subject, partition_id=partition_id)
            locked = await lock_requirements_of_subject(connection, wanted, scope.org_id, kinds)
            there = {row.doc_type: row for row in locked}
            request_id = scope.new_id()
            changes: list[RequirementChange] = []
            for kind in kinds:
                row = there.get(kind)
                if row is None:
                    row = DocumentRequirement(
                        scope.org_id,
                        scope.new_id(),
                        subject,
                        kind,
                        now,
                        instance_id=instance_id,
                        partition_id=partition_id,
                    )
                    changes.append(RequirementChange(None, row))
                _require_askable(row)
                changes.append(RequirementChange(row, row.ask(request_id, None, now)))
            await write_requirements(connection, [ActorsChange(one, actor.id) for one in changes], now)
            language = (await read_org(connection, scope.org_id)).settings.get(LANGUAGE_SETTING)
            rows = [one.after for one in changes if one.after.status == "requested"]
            words = language if isinstance(language, str) else None
            verb = "document.solicit-set" if len(kinds) > 1 else "document.solicit"
            request = OutsideRequest(
                org_id=scope.org_id,
                id=request_id,
                instance_id=instance_id,
                step_id=None,
                node_id=None,
                token_id=None,
                name=verb,
                created_at=now,
                arguments={
                    "verb": verb,
                    "subject": subject,
                    "documents": [describe_asked(row, words) for row in rows],
                },
                expected=len(kinds),
                partition_id=partition_id,
                entity_type=instance["entity_type"] if instance is not None else None,
                entity_id=instance["entity_id"] if instance is not None else None,
            )
            await open_requests(connection, [(request, current_trace())], [])
            asks = Solicitation(verb, subject, tuple(kinds), notify, webhook)
            effects = [
                NewEffect(scope.org_id, instance_id, None, None, f"solicit:{request_id}", effect)
                for effect in messages_of(request, asks, is_reminder=False)
            ]
            await enqueue(connection, effects, now)
            details = {"doc_types": kinds, "request": str(request_id)}
            targets = [str(row.id) for row in rows]
            await transaction.note(
                "requirement", "requirement.solicit", *targets, details=details, instance_id=instance_id
            )
            return Solicited(request_id, rows)

        return await scope.write(work)

    async def _instance(self, connection: Connection, instance_id: UUID) -> Row:
        """Return an instance that the actor may read, or whose step acts."""
        scope = self.scope
        if scope.acting_instance is not None and scope.acting_instance["id"] == instance_id:
            return scope.acting_instance
        row = await find_instance(connection, scope.org_id, instance_id)
        if row is None or not scope.sees(row["partition_id"]):
            raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
        await may_read_instance(scope.core, connection, SeenInstance.of(row), scope.actor_or_system)
        return row

    async def waive(self, requirement_id: UUID, reason: str) -> DocumentRequirement:
        """Do without a document, whatever its state; takes `requirements:waive`. What waits for it goes on."""
        require_capability(self.scope.actor_or_system, WAIVE_REQUIREMENTS)
        return await self._move(requirement_id, "waive", reason)

    async def reset(self, requirement_id: UUID, reason: str) -> DocumentRequirement:
        """Begin again, with all rounds of asking; takes `requirements:manage`. What was handed in stays on record."""
        require_capability(self.scope.actor_or_system, MANAGE_REQUIREMENTS)
        return await self._move(requirement_id, "reset", reason)

    async def _move(self, requirement_id: UUID, name: str, reason: str) -> DocumentRequirement:
        scope, actor = self.scope, self.scope.actor_or_system
        require_name(reason, "reason", length_max=REASON_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> DocumentRequirement:
            connection, now = transaction.connection, scope.database.clock.now()
            locked = await lock_requirements(connection, scope.org_id, [requirement_id])
            row = next((one for one in locked if scope.sees(one.partition_id)), None)
            if row is None:
                raise Refused(_no_requirement(requirement_id))
            if not row.may_move("waived" if name == "waive" else "missing"):
                message = f"the requirement is {row.status}"
                raise Refused(Rejection("REQUIREMENT_STATUS", message, ("requirement_id",)))
            after = row.waive(actor.id, now) if name == "waive" else row.reset()
            change = ActorsChange(RequirementChange(row, after), actor.id, reason)
            await write_requirements(connection, [change], now)
            await transaction.note(
                "requirement",
                f"requirement.{name}",
                str(requirement_id),
                details={"reason": reason},
                instance_id=row.instance_id,
            )
            return await _visible_requirement(scope, connection, requirement_id)

        return await scope.write(work)

    async def list_codes(self) -> builtins.list[RejectionCode]:
        """Return the rejection codes of the org, by name."""
        scope = self.scope

        async def query(connection: Connection) -> builtins.list[RejectionCode]:
            return await list_rejection_codes(connection, scope.org_id)

        return await scope.read(query)

    async def save_code(self, code: RejectionCode) -> RejectionCode:
        """Keep a rejection code of the org, or one of all orgs in its own words; takes `requirements:manage`."""
        scope = self.scope
        require_capability(scope.actor_or_system, MANAGE_REQUIREMENTS)
        for name in ("category", "client_message", "ops_message", "next_action"):
            require_name(getattr(code, name), name, length_max=50 if name == "category" else WORDS_LENGTH_MAX)
        require_code(code.code)

        async def work(transaction: CommandTransaction) -> RejectionCode:
            await keep_rejection_code(transaction.connection, scope.org_id, code)
            await transaction.note("requirement", "rejection_code.save", code.code)
            return code

        return await scope.write(work)


def _require_askable(row: DocumentRequirement) -> None:
    """Raise `Refused` for a document that was handed in, or that no further round brings."""
    if not (row.status == "requested" or row.may_move("requested")):
        message = f"{row.doc_type} of {row.subject} is {row.status}: there is nothing to ask for"
        raise Refused(Rejection("REQUIREMENT_STATUS", message, ("doc_types",)))
    if not row.can_be_asked_again:
        message = f"{row.doc_type} of {row.subject} was asked for {row.attempt_count} times, or cannot be sent again"
        hint = "`requirements.waive` does without it, `requirements.reset` begins again"
        raise Refused(Rejection("REQUIREMENT_STATUS", message, ("doc_types",), hint=hint))


def require_code(code: str) -> None:
    """Raise `Refused` for a text that is not spelled as a rejection code."""
    is_spelled = 2 <= len(code) <= 63 and code.isascii() and code[0].isalpha() and code.upper() == code
    if not (is_spelled and code.replace("_", "").isalnum()):
        message = f"a code such as `UNREADABLE` was expected, found {code[:70]!r}"
        raise Refused(Rejection("BAD_VALUE", message, ("code",)))


def _require_order(valid_from: date | None, valid_to: date | None) -> None:
    if valid_from is not None and valid_to is not None and valid_from > valid_to:
        message = f"valid from {valid_from} until {valid_to} is no time at all"
        raise Refused(Rejection("BAD_VALUE", message, ("valid_to",)))


def _require_reviewable(version: VersionItem, actor: Actor) -> None:
    if version.verified_by is not None:
        message = f"{version.verified_by} has {version.status} version {version.version_no} already"
        raise Refused(Rejection("ALREADY_REVIEWED", message, ("version_id",)))
    if version.erased_at is not None:
        message = f"the content of version {version.version_no} was erased: there is nothing to review"
        raise Refused(Rejection("VERSION_ERASED", message, ("version_id",)))
    if any(actor.is_or_acts_for(one) for one in (version.created_by, version.maker_id) if one is not None):
        message = f"{actor.id} handed it in, and does not review it"
        raise Refused(Rejection("SEPARATION_OF_DUTIES", message, ("actor",)))


async def _code(connection: Connection, org_id: str, code: str) -> RejectionCode:
    found = await find_rejection_code(connection, org_id, code)
    if found is None:
        hint = "`requirements.list_codes` lists them"
        raise Refused(
            Rejection("UNKNOWN_REJECTION_CODE", f"there is no code {code[:70]!r}", ("code",), hint=hint)
        )
    return found


async def _visible_document(
    scope: OrgScope, connection: Connection, document_id: UUID, name: str = "document_id"
) -> DocumentItem:
    found = await find_document(connection, scope.org_id, document_id)
    if found is None or not scope.sees(found.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no document {document_id}", (name,)))
    return found


async def _visible_requirement(
    scope: OrgScope, connection: Connection, requirement_id: UUID
) -> DocumentRequirement:
    found = await find_requirement(connection, scope.org_id, requirement_id)
    if found is None or not scope.sees(found.partition_id):
        raise Refused(_no_requirement(requirement_id))
    return found


def _no_requirement(requirement_id: UUID) -> Rejection:
    return Rejection("NOT_FOUND", f"no requirement {requirement_id}", ("requirement_id",))
