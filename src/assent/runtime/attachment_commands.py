"""Files attached to entities. They are a part of the content: adding or removing one is an edit of the entity.

So the permission, the edit window and the rules of `update` hold, a new version has the SHA-256 of each file, approvals
of the version before are void, and the person who attached is an originator of the next.
"""

import builtins
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from assent.documents.files import (
    Attachment,
    NewFile,
    ReceivedFile,
    erase_blob,
    find_attachment,
    keep_blob_if_uploading,
    list_attachments,
)
from assent.kernel.changes import locked_rejection
from assent.kernel.entities import LockedRows, lock_entity, read_entity, require_version
from assent.model.contract import EditWindow
from assent.model.mutation import Command, Entity, Mutation, Refused, Rejection
from assent.model.names import require_name
from assent.model.policy import check_policy
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.document_commands import ERASE_DOCUMENTS, REASON_LENGTH_MAX
from assent.runtime.file_commands import Content, OpenedFile, bytes_max_of, receive_file
from assent.runtime.readers import find_readable_entity
from assent.runtime.rights import require_capability
from assent.store.database import Connection

ATTACHMENTS_MAX: Final = 100
"""Of one version of an entity."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that was attached, and the entity at the version that has it."""

    attachment: Attachment
    entity: Entity
    is_new: bool
    """False where the entity had the same bytes already, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class AttachmentCommands:
    """The files attached to the entities of an org."""

    scope: OrgScope

    async def list(self, entity_id: UUID, *, entity_type: str | None = None) -> builtins.list[Attachment]:
        """Return the files of an entity at its current version, in the order in which they were attached."""
        scope = self.scope

        async def query(connection: Connection) -> builtins.list[Attachment]:
            entity = await find_readable_entity(scope, connection, entity_id, entity_type)
            return await list_attachments(connection, scope.org_id, entity.attachments)

        return await scope.read(query)

    async def add(  # noqa: PLR0913
        self,
        entity_id: UUID,
        content: Content,
        *,
        file_name: str | None = None,
        entity_type: str | None = None,
        expected_version: int | None = None,
        reason: str | None = None,
    ) -> Attached:
        """Attach a file, as an update of the entity; one that it has already changes nothing.

        `content` is bytes, a path, something to read from, or parts as they come; it goes to the store of files and is
        never in memory as a whole.
        """
        bytes_max = await check_attaching(self.scope, entity_id, entity_type)
        async with receive_file(self.scope, content, NewFile(file_name), bytes_max) as file:
            return await attach(
                self.scope,
                entity_id,
                file,
                entity_type=entity_type,
                expected_version=expected_version,
                reason=reason,
            )

    async def open(
        self, entity_id: UUID, attachment_id: UUID, *, entity_type: str | None = None
    ) -> OpenedFile:
        """Return a file of an entity, to be read in parts; also one that only earlier versions have."""
        scope = self.scope

        async def query(connection: Connection) -> OpenedFile:
            entity = await find_readable_entity(scope, connection, entity_id, entity_type)
            found = await _find(connection, entity, attachment_id)
            if found.is_erased:
                raise Refused(Rejection("NOT_FOUND", "the file was erased", ("attachment_id",)))
            return OpenedFile(scope.core.blobs, found.file(scope.org_id))

        return await scope.read(query)

    async def download(
        self, entity_id: UUID, attachment_id: UUID, path: Path, *, entity_type: str | None = None
    ) -> OpenedFile:
        """Write a file of an entity to a path that is not there yet."""
        opened = await self.open(entity_id, attachment_id, entity_type=entity_type)
        await opened.save(path)
        return opened

    async def remove(
        self,
        entity_id: UUID,
        attachment_id: UUID,
        reason: str,
        *,
        entity_type: str | None = None,
        expected_version: int | None = None,
    ) -> Entity:
        """Remove a file, as an update of the entity; versions before keep it, and it can still be read."""
        scope = self.scope
        require_name(reason, "reason", length_max=REASON_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> Entity:
            entity = await _lock(transaction, entity_id, entity_type)
            await _require_update(scope, transaction.connection, entity)
            require_version(entity, expected_version)
            if str(attachment_id) not in entity.attachments:
                raise _no_attachment(entity, attachment_id)
            changes = {str(attachment_id): None}
            mutation = await _update(transaction, entity, changes, expected_version, reason)
            return mutation.entity

        return await scope.write(work)

    async def erase(
        self, entity_id: UUID, attachment_id: UUID, reason: str, *, entity_type: str | None = None
    ) -> Attachment:
        """Delete the bytes and the name of a file for good; takes `documents:erase`.

        Versions that have it keep its id and its SHA-256: it is no edit, and approvals stand.
        """
        scope = self.scope
        require_capability(scope.actor_or_system, ERASE_DOCUMENTS)
        require_name(reason, "reason", length_max=REASON_LENGTH_MAX)

        async def work(transaction: CommandTransaction) -> Attachment:
            entity = await _lock(transaction, entity_id, entity_type)
            found = await _find(transaction.connection, entity, attachment_id)
            if not await erase_blob(transaction.connection, scope.org_id, attachment_id):
                raise Refused(Rejection("FILE_ERASED", "the file was erased before", ("attachment_id",)))
            await transaction.note(
                "attachment",
                "attachment.erase",
                str(attachment_id),
                details={"reason": reason},
                entity=entity,
            )
            return await _find(transaction.connection, entity, found.id)

        return await scope.write(work)


async def check_attaching(scope: OrgScope, entity_id: UUID, entity_type: str | None = None) -> int:
    """Return how many bytes a file may have; raise `Refused` where an entity could not be updated without it."""

    async def query(connection: Connection) -> int:
        entity = _visible(
            scope, await read_entity(connection, scope.org_id, entity_id), entity_id, entity_type
        )
        await _require_update(scope, connection, entity)
        _require_few(entity)
        return await bytes_max_of(connection, scope.org_id, scope.core.blobs)

    return await scope.read(query)


async def attach(  # noqa: PLR0913
    scope: OrgScope,
    entity_id: UUID,
    file: ReceivedFile,
    *,
    entity_type: str | None = None,
    expected_version: int | None = None,
    reason: str | None = None,
) -> Attached:
    """Give an entity the file that was received for it; one with bytes that it has already is left to be deleted."""

    async def work(transaction: CommandTransaction) -> Attached:
        connection = transaction.connection
        entity = await _lock(transaction, entity_id, entity_type)
        there = await list_attachments(connection, scope.org_id, entity.attachments)
        same = next((one for one in there if one.sha256 == file.sha256 and not one.is_erased), None)
        changes = {str(file.blob_id): file.sha256} if same is None else {}
        if same is None:
            _require_few(entity)
            await keep_blob_if_uploading(connection, scope.org_id, file, entity.id)
        # Also where nothing changes: the rights, the version and the window are asked.
        mutation = await _update(transaction, entity, changes, expected_version, reason)
        attachment = same or await _find(connection, entity, file.blob_id)
        return Attached(attachment, mutation.entity, is_new=same is None)

    return await scope.write(work)


async def _require_update(scope: OrgScope, connection: Connection, entity: Entity) -> None:
    """Raise `Refused` where the actor may not update an entity, or no person may: the kernel asks the same again."""
    contracts = scope.core.kernel.contracts
    await contracts.load(connection, [(entity.type, entity.contract_version)])
    contract = contracts.pinned(entity.type, entity.contract_version, None)
    if denied := check_policy(contract, "update", scope.required_actor):
        raise Refused(denied)
    if entity.edit_window is EditWindow.LOCKED:
        raise Refused(locked_rejection(entity))


async def _update(
    transaction: CommandTransaction,
    entity: Entity,
    changes: dict[str, str | None] | dict[str, str] | dict[str, None],
    expected_version: int | None,
    reason: str | None,
) -> Mutation:
    scope, origin = transaction.scope, transaction.scope.core.origin
    command = Command(
        scope.org_id,
        f"{entity.type}.update",
        scope.required_actor,
        {},
        entity.id,
        expected_version=expected_version,
        reason=reason or origin.reason,
        place=origin.place,
        channel=origin.channel,
        partition_id=scope.partition_id,
        attachments=dict(changes),
    )
    held = LockedRows({(entity.org_id, entity.id): entity})
    (outcome,) = await scope.core.kernel.mutate_in(transaction.connection, [command], held)
    if isinstance(outcome, Rejection):
        raise Refused(outcome)
    transaction.proof.audit_id = outcome.audit_id
    return outcome


async def _lock(transaction: CommandTransaction, entity_id: UUID, entity_type: str | None) -> Entity:
    scope = transaction.scope
    found = await lock_entity(transaction.connection, scope.org_id, entity_id)
    return _visible(scope, found, entity_id, entity_type)


def _visible(scope: OrgScope, entity: Entity | None, entity_id: UUID, entity_type: str | None) -> Entity:
    """Return an entity of the caller's partition, whether or not they may read it; raise `Refused` for every other."""
    if entity is None or entity_type not in (None, entity.type) or not scope.sees(entity.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no {entity_type or 'entity'} {entity_id}", ("entity_id",)))
    return entity


def _require_few(entity: Entity) -> None:
    if len(entity.attachments) >= ATTACHMENTS_MAX:
        message = f"a {entity.type} may have {ATTACHMENTS_MAX} attachments"
        raise Refused(
            Rejection("TOO_MANY_ATTACHMENTS", message, ("content",), hint="remove one that is not needed")
        )


async def _find(connection: Connection, entity: Entity, attachment_id: UUID) -> Attachment:
    found = await find_attachment(connection, entity, attachment_id)
    if found is None:
        raise _no_attachment(entity, attachment_id)
    return found


def _no_attachment(entity: Entity, attachment_id: UUID) -> Refused:
    message = f"{entity.type} {entity.id} has no attachment {attachment_id}"
    return Refused(Rejection("NOT_FOUND", message, ("attachment_id",)))
