"""Files of versions: handed in and read, refused on their way, abandoned, erased; a crash leaves nothing behind."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from assent.documents.blobs import Blobs, blob_key
from assent.documents.documents import NewVersion
from assent.documents.files import NewFile, begin_blob
from assent.model.actor import Actor
from assent.people.orgs import save_settings
from assent.runtime.document_commands import hand_in
from assent.runtime.file_commands import receive_file
from assent.store.caller_transaction import CallerDatabase
from assent.worker.blobs import BlobSweep
from assent.worker.duty import WorkerContext
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.documents.test_commands import refused
from tests.world import ORG, rows

PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + b"x" * 70_000


async def new_document(compliance: Compliance) -> UUID:
    return (await compliance.by(PORTAL).documents.create("passport", "c-1")).id


async def upload(compliance: Compliance, content: Any = PDF, **about: Any) -> Any:
    document_id = await new_document(compliance)
    return await compliance.by(PORTAL).documents.add_version(document_id, content=content, **about)


def kept_files(blobs: Blobs) -> list[Path]:
    assert blobs.folder is not None
    return [one for one in blobs.folder.rglob("*") if one.is_file()]


async def require_nothing_left(compliance: Compliance, blobs: Blobs) -> None:
    assert kept_files(blobs) == []
    assert await rows(compliance.database, "blobs") == []
    assert await rows(compliance.database, "document_versions") == []


def sweep(compliance: Compliance) -> BlobSweep:
    return BlobSweep(WorkerContext(compliance.database, runtime=compliance.runtime))


async def parts(*given: bytes) -> AsyncIterator[bytes]:
    for part in given:
        yield part


@pytest.mark.parametrize("kind", ["bytes", "path", "stream", "parts", "list"])
async def test_a_file_is_kept_with_its_hash_and_read_as_it_was(
    compliance: Compliance, blobs: Blobs, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "given.pdf"
    path.write_bytes(PDF)
    content = {
        "bytes": PDF,
        "path": path,
        "stream": BytesIO(PDF),
        "parts": parts(PDF[:9], PDF[9:]),
        "list": [PDF],
    }
    version = await upload(compliance, content[kind], file_name="../Päss.pdf", content_type="image/png")
    assert (version.file_name, version.content_type, version.found_type) == (
        "Päss.pdf",
        "image/png",
        "application/pdf",
    )
    assert (version.size_bytes, version.sha256) == (len(PDF), hashlib.sha256(PDF).hexdigest())
    opened = await compliance.by(VERA).documents.open(version.document_id, version.id)
    assert await opened.read() == PDF
    assert (opened.name, opened.content_type) == ("Päss.pdf", "application/pdf")
    target = tmp_path / "saved.pdf"
    await compliance.by(VERA).documents.download(version.document_id, version.id, target)
    assert target.read_bytes() == PDF
    with pytest.raises(FileExistsError):
        await compliance.by(VERA).documents.download(version.document_id, version.id, target)
    (row,) = await rows(compliance.database, "blobs")
    assert row["status"] == "kept"
    assert kept_files(blobs) == [blobs.folder / blob_key(ORG, version.blob_id)]


async def test_a_file_without_a_byte_is_refused(compliance: Compliance, blobs: Blobs) -> None:
    for nothing in (b"", parts(), parts(b"", b"")):
        await refused("EMPTY_FILE", upload(compliance, nothing))
    await require_nothing_left(compliance, blobs)


@pytest.mark.parametrize("limit", ["server", "org"])
async def test_a_file_over_the_limit_is_refused_while_it_comes(
    compliance: Compliance, blobs: Blobs, limit: str
) -> None:
    bytes_max = blobs.settings.blob_bytes_max
    if limit == "org":
        bytes_max = 100_000
        async with compliance.database.transaction(None) as connection:
            await save_settings(connection, ORG, {"blob_bytes_max": bytes_max}, Actor("ann"))
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 50_000
            yield b"x" * 50_000

    await refused("FILE_TOO_LARGE", upload(compliance, endless()))
    assert taken <= bytes_max + 50_000
    await require_nothing_left(compliance, blobs)
    assert (await upload(compliance, b"x" * bytes_max)).size_bytes == bytes_max


async def test_a_sender_that_breaks_off_leaves_nothing(compliance: Compliance, blobs: Blobs) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 500_000
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await upload(compliance, broken())
    await require_nothing_left(compliance, blobs)


async def test_an_upload_that_is_cancelled_leaves_nothing(compliance: Compliance, blobs: Blobs) -> None:
    waits, document_id = asyncio.Event(), await new_document(compliance)

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * 500_000
        waits.set()
        await asyncio.Event().wait()

    work = asyncio.create_task(compliance.by(PORTAL).documents.add_version(document_id, content=slow()))
    await waits.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await require_nothing_left(compliance, blobs)


async def test_no_transaction_is_open_while_bytes_flow(compliance: Compliance) -> None:
    found: list[Any] = []

    async def looking() -> AsyncIterator[bytes]:
        yield b"x"
        async with compliance.database.transaction(None, read_only=True) as connection:
            found.extend(
                await connection.fetch(
                    "SELECT state, query FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'"
                )
            )
        yield b"y"

    await upload(compliance, looking())
    assert found == []


async def test_what_may_not_be_handed_in_is_refused_before_a_byte_is_read(compliance: Compliance) -> None:
    document_id = await new_document(compliance)

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("a byte was read")
        yield b""

    eve, elsewhere = Actor("eve"), compliance.runtime.org("globex", PORTAL)
    await refused("POLICY_DENIED", compliance.by(eve).documents.add_version(document_id, content=never()))
    await refused("NOT_FOUND", elsewhere.documents.add_version(document_id, content=never()))
    add = compliance.by(PORTAL).documents.add_version
    await refused("BAD_VALUE", add(document_id, content=never(), blob_ref="external://vault/1"))
    await refused("OUT_OF_RANGE", add(document_id, content=never(), quality_score=101))
    assert await rows(compliance.database, "blobs") == []


async def test_a_version_that_is_refused_after_its_bytes_came_leaves_nothing(
    compliance: Compliance, blobs: Blobs
) -> None:
    document_id = await new_document(compliance)
    by_another = compliance.runtime.org(ORG, PORTAL, "north").scope  # sees no document of all partitions
    async with receive_file(compliance.by(PORTAL).scope, PDF, NewFile("a.pdf"), 1_000_000) as file:
        assert len(kept_files(blobs)) == 1
        new = NewVersion(by_another.new_id(), "x/y", file=file)
        await refused("NOT_FOUND", hand_in(by_another, document_id, new))
    await require_nothing_left(compliance, blobs)


async def test_two_uploads_of_one_document_at_once_are_two_versions(compliance: Compliance) -> None:
    document_id = await new_document(compliance)
    add = compliance.by(PORTAL).documents.add_version
    found = await asyncio.gather(*(add(document_id, content=PDF + bytes([number])) for number in range(4)))
    assert sorted(one.version_no for one in found) == [1, 2, 3, 4]
    assert len({one.blob_id for one in found}) == 4
    for number, one in enumerate(found):
        opened = await compliance.by(VERA).documents.open(document_id, one.id)
        assert (await opened.read())[-1] == number


async def test_files_are_for_readers_of_the_document_alone(compliance: Compliance) -> None:
    version = await upload(compliance)
    ids = version.document_id, version.id
    await refused("POLICY_DENIED", compliance.by(PORTAL).documents.open(*ids))
    everybody = Actor("lead", capabilities={"*"})
    for org in (compliance.runtime.org("globex", everybody), compliance.runtime.org(ORG, everybody, "north")):
        await refused("NOT_FOUND", org.documents.open(*ids))
        await refused("NOT_FOUND", org.documents.link(*ids, base_url="http://here"))
    fields_only = await compliance.upload("visa")
    await refused("NOT_FOUND", compliance.by(VERA).documents.open(fields_only.document_id, fields_only.id))
    await refused("NOT_FOUND", compliance.by(VERA).documents.open(fields_only.document_id, version.id))


async def test_equal_bytes_in_two_orgs_are_two_files(compliance: Compliance, blobs: Blobs) -> None:
    await upload(compliance)
    globex = compliance.runtime.org("globex", PORTAL).documents
    document = await globex.create("passport", "c-1")
    await globex.add_version(document.id, content=PDF)
    assert sorted(one.relative_to(blobs.folder).parts[0] for one in kept_files(blobs)) == ["acme", "globex"]


@pytest.mark.parametrize("package", ["obstore", "puremagic"])
async def test_upload_without_the_extra_is_refused_before_a_row_is_written(
    compliance: Compliance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, package: str
) -> None:
    document_id = await new_document(compliance)
    monkeypatch.setitem(sys.modules, package, None)
    documents = compliance.by(PORTAL).documents
    refusal = await refused("BLOBS_UNAVAILABLE", documents.add_version(document_id, content=PDF))
    assert "assent[files]" in refusal.message
    assert await rows(compliance.database, "blobs") == []
    assert caplog.messages == []


async def test_an_upload_inside_of_a_callers_transaction_is_refused(compliance: Compliance) -> None:
    document_id = await new_document(compliance)
    async with compliance.database.transaction(ORG) as connection:
        joined = compliance.by(PORTAL).on(CallerDatabase(compliance.database, connection, ORG))
        with pytest.raises(ValueError, match="hand the file in outside of it"):
            await joined.documents.add_version(document_id, content=PDF)


async def test_erased_files_are_gone_and_what_they_were_stays_on_record(
    compliance: Compliance, blobs: Blobs
) -> None:
    version = await upload(compliance, file_name="Cy Miller.pdf")
    erased = await compliance.by(LEAD).documents.erase(version.document_id, version.id, "the client asked")
    assert (erased.blob_status, erased.file_name, erased.sha256) == ("deleting", None, version.sha256)
    await refused("NOT_FOUND", compliance.by(VERA).documents.open(version.document_id, version.id))
    done = await sweep(compliance).run_once()
    assert dict(done.parts) == {"deleted": 1, "failed": 0}
    assert kept_files(blobs) == []
    found = await compliance.by(VERA).documents.get(version.document_id)
    assert (found.versions[0].blob_status, found.versions[0].size_bytes) == ("deleted", len(PDF))
    assert "document.erase" in {row["action"] for row in await rows(compliance.database, "audit_log")}
    assert (await sweep(compliance).run_once()).count == 0


async def test_bytes_that_a_store_does_not_delete_are_tried_again_until_they_are_gone(
    compliance: Compliance, blobs: Blobs
) -> None:
    version = await upload(compliance)
    await compliance.by(LEAD).documents.erase(version.document_id, version.id, "the client asked")
    (file,) = kept_files(blobs)
    aside = file.rename(file.with_name("aside"))
    file.mkdir()  # a folder of this name: the store cannot delete it
    (file / "in the way").touch()
    assert dict((await sweep(compliance).run_once()).parts) == {"deleted": 0, "failed": 1}
    (row,) = await rows(compliance.database, "blobs")
    assert (row["status"], row["deletions"]) == ("deleting", 1)
    assert row["delete_error"]
    assert (await sweep(compliance).run_once()).count == 0  # not before its time
    (file / "in the way").unlink()
    file.rmdir()
    aside.rename(file)
    compliance.clock.advance(timedelta(minutes=5))
    assert dict((await sweep(compliance).run_once()).parts) == {"deleted": 1, "failed": 0}
    assert kept_files(blobs) == []
    (row,) = await rows(compliance.database, "blobs")
    assert (row["status"], row["delete_error"]) == ("deleted", None)


async def lost_upload(compliance: Compliance, blobs: Blobs) -> UUID:
    """Leave what a process leaves that is killed between its last byte and its version."""
    scope = compliance.by(PORTAL).scope
    blob_id = scope.new_id()
    async with compliance.database.transaction(ORG) as connection:
        await begin_blob(connection, ORG, blob_id, "portal")
    await blobs.store(blob_key(ORG, blob_id), parts(PDF))
    return blob_id


async def test_what_a_killed_upload_left_is_swept_when_it_is_old_enough(
    compliance: Compliance, blobs: Blobs
) -> None:
    kept = await upload(compliance)
    await lost_upload(compliance, blobs)
    assert (await sweep(compliance).run_once()).count == 0
    assert len(kept_files(blobs)) == 2
    compliance.clock.advance(timedelta(days=1, seconds=1))
    assert dict((await sweep(compliance).run_once()).parts) == {"deleted": 1, "failed": 0}
    assert kept_files(blobs) == [blobs.folder / blob_key(ORG, kept.blob_id)]
    assert [row["id"] for row in await rows(compliance.database, "blobs")] == [kept.blob_id]


async def test_the_sweep_leaves_a_file_that_is_being_given_to_its_version(
    compliance: Compliance, blobs: Blobs
) -> None:
    blob_id = await lost_upload(compliance, blobs)
    compliance.clock.advance(timedelta(days=2))
    async with compliance.database.transaction(ORG) as connection:
        await connection.execute(
            "UPDATE assent.blobs SET status = 'kept', found_type = 'x/y', size_bytes = 1, sha256 = repeat('0', 64)"
            " WHERE org_id = $1 AND id = $2",
            ORG,
            blob_id,
        )
        assert (await sweep(compliance).run_once()).count == 0  # it does not wait for the lock either
    assert (await sweep(compliance).run_once()).count == 0
    assert len(kept_files(blobs)) == 1


async def test_an_upload_that_was_swept_gives_no_file_to_a_version(
    compliance: Compliance, blobs: Blobs
) -> None:
    document_id, scope = await new_document(compliance), compliance.by(PORTAL).scope
    async with receive_file(scope, PDF, NewFile("a.pdf"), 1_000_000) as file:
        compliance.clock.advance(timedelta(days=2))
        assert (await sweep(compliance).run_once()).count == 1
        await refused(
            "UPLOAD_ABANDONED", hand_in(scope, document_id, NewVersion(scope.new_id(), "x/y", file=file))
        )
    await require_nothing_left(compliance, blobs)


async def test_the_database_refuses_a_version_without_its_bytes_and_deletes_none_that_a_version_has(
    compliance: Compliance, blobs: Blobs
) -> None:
    version, lost = await upload(compliance), await lost_upload(compliance, blobs)
    insert = """
      INSERT INTO assent.document_versions (org_id, id, document_id, version_no, content_type, blob_id, created_by)
      SELECT org_id, assent.new_id(), document_id, 2, 'x/y', $1, 'eve' FROM assent.document_versions"""
    give_up = "UPDATE assent.blobs SET status = 'deleting', delete_at = now(), file_name = NULL WHERE id = $1"
    for statement, blob_id in (
        (give_up, version.blob_id),
        ("DELETE FROM assent.blobs WHERE id = $1", version.blob_id),
        ("UPDATE assent.blobs SET sha256 = repeat('0', 64) WHERE id = $1", version.blob_id),
        ("UPDATE assent.document_versions SET blob_id = $1", lost),
        (insert, lost),
        (insert, version.blob_id),
    ):
        with pytest.raises(asyncpg.PostgresError):
            async with compliance.database.transaction(None) as connection:
                await connection.execute(statement, blob_id)
