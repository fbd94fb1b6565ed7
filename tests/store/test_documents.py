"""Documents in the database: what was handed in stays as it was, and nobody reviews what they handed in."""

from datetime import date
from uuid import uuid4

import asyncpg
import pytest

from tests.plain_sql import APPEND_ONLY, IDENTITY, acting_for, refused
from tests.postgres import START
from tests.rows import delete, insert, insert_document_version, insert_version_with_file, update

CHECK = asyncpg.CheckViolationError.sqlstate
UNIQUE = asyncpg.UniqueViolationError.sqlstate
SATISFIED = "requirement_is_satisfied_when_its_status_says_so"
REVIEWED = {"status": "verified", "verified_by": "olga", "verified_at": START}
ERASED = {"structured_data": None, "erased_at": START, "erased_by": "olga"}


@pytest.mark.parametrize(
    "change", [{"subject": "other"}, {"doc_type": "visa"}, {"instance_id": uuid4()}, {"max_attempts": 9}]
)
async def test_what_is_required_never_changes(owner, change):
    requirement = await insert(owner, "document_requirements")
    async with refused(owner, IDENTITY, saying="keeps what it requires"):
        await update(owner, "document_requirements", requirement, **change)


async def test_rounds_of_asking_are_counted_up_until_a_reset(owner):
    asked = {"status": "requested", "request_id": uuid4(), "attempt_count": 2}
    requirement = await insert(owner, "document_requirements", **asked)
    async with refused(owner, IDENTITY, saying="only counted up"):
        await update(owner, "document_requirements", requirement, attempt_count=1)
    assert await update(owner, "document_requirements", requirement, status="missing", attempt_count=0) == 1


@pytest.mark.parametrize("instance_id", [None, uuid4()])
async def test_a_document_is_required_once(owner, instance_id):
    same = {"instance_id": instance_id, "subject": "c-1", "doc_type": "passport"}
    await insert(owner, "document_requirements", **same)
    async with refused(owner, UNIQUE, constraint="document_is_required_once"):
        await insert(owner, "document_requirements", **same)
    await insert(owner, "document_requirements", **same | {"instance_id": uuid4()})


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"status": "requested"}, "requested_document_was_asked_for"),
        ({"status": "received"}, "document_in_review_is_there"),
        ({"status": "rejected"}, "rejected_requirement_says_why"),
        ({"status": "waived", "satisfied_at": START}, "waived_requirement_says_by_whom"),
        ({"status": "verified", "version_id": uuid4()}, SATISFIED),
        ({"status": "missing", "satisfied_at": START}, SATISFIED),
        ({"status": "received", "version_id": uuid4(), "satisfied_at": START}, SATISFIED),
        ({"status": "received", "version_id": uuid4(), "required_state": "received"}, SATISFIED),
        ({"subject": "\u200b"}, "requirement_subject_is_named"),
        ({"doc_type": ""}, "requirement_doc_type_is_named"),
    ],
)
async def test_a_requirement_says_what_its_status_means(owner, columns, constraint):
    async with refused(owner, CHECK, constraint=constraint):
        await insert(owner, "document_requirements", **columns)


@pytest.mark.parametrize(
    "change",
    [
        {"content_type": "text/html"},
        {"version_no": 2},
        {"created_by": "eve"},
        {"structured_data": {"number": "other"}},
        {"structured_data": None, "blob_ref": "external://vault/7"},
        {"ocr_extracted": {"number": "other"}},
        {"valid_to": date(2030, 1, 1)},
    ],
)
async def test_what_was_handed_in_never_changes(owner, change):
    version = await insert_document_version(owner)
    async with refused(owner, IDENTITY):
        await update(owner, "document_versions", version, **change)


async def test_a_version_is_reviewed_once(owner):
    version = await insert_document_version(owner)
    assert await update(owner, "document_versions", version, **REVIEWED, valid_to=date(2030, 1, 1)) == 1
    for change in ({"verified_by": "fay"}, {"valid_to": date(2040, 1, 1)}):
        async with refused(owner, IDENTITY, saying="was reviewed once"):
            await update(owner, "document_versions", version, **change)


@pytest.mark.parametrize("sender", [{"created_by": "olga"}, {"created_by": "portal", "maker_id": "olga"}])
async def test_nobody_reviews_what_they_handed_in(owner, sender):
    version = await insert_document_version(owner, **sender)
    async with refused(owner, CHECK, constraint="version_is_not_reviewed_by_its_sender"):
        await update(owner, "document_versions", version, **REVIEWED)


async def test_a_version_is_the_result_of_one_request(owner):
    version = await insert_document_version(owner)
    assert await update(owner, "document_versions", version, request_id=uuid4()) == 1
    async with refused(owner, IDENTITY, saying="result of another request"):
        await update(owner, "document_versions", version, request_id=uuid4())


async def test_erased_content_is_gone_and_does_not_come_back(owner):
    version = await insert_document_version(owner, ocr_extracted={"name": "Ann"})
    async with refused(owner, CHECK, constraint="erased_version_has_no_text"):
        await update(owner, "document_versions", version, **ERASED)
    assert await update(owner, "document_versions", version, **ERASED, ocr_extracted=None) == 1
    again = {"structured_data": {"a": 1}, "erased_at": None, "erased_by": None}
    async with refused(owner, IDENTITY, saying="does not change"):
        await update(owner, "document_versions", version, **again)
    async with refused(owner, IDENTITY, saying="does not change"):
        await update(owner, "document_versions", version, erased_by="eve")


async def test_a_version_is_never_deleted(owner):
    version = await insert_document_version(owner)
    for door in ("", "prune"):
        await owner.execute("SELECT set_config('assent.door', $1, true)", door)
        async with refused(owner, APPEND_ONLY, saying="document_versions is append-only: DELETE is refused"):
            await delete(owner, "document_versions", version)
        async with refused(owner, APPEND_ONLY, saying="append-only: TRUNCATE is refused"):
            await owner.execute("TRUNCATE assent.document_versions CASCADE")


async def test_codes_of_all_orgs_are_read_by_every_org_and_written_by_none(owner):
    codes = "SELECT count(*), count(*) FILTER (WHERE NOT retryable) FROM assent.rejection_codes WHERE org_id = '*'"
    async with acting_for(owner, "acme"):
        assert tuple(await owner.fetchrow(codes)) == (18, 4)
        assert await owner.execute("UPDATE assent.rejection_codes SET retryable = false") == "UPDATE 0"
        async with refused(owner, asyncpg.InsufficientPrivilegeError.sqlstate):
            await insert(owner, "rejection_codes", org_id="*")
        await insert(owner, "rejection_codes", code="UNREADABLE")
        assert tuple(await owner.fetchrow(codes)) == (18, 4)


async def test_a_version_has_bytes_and_bytes_that_a_version_has_are_kept(owner):
    coming = await insert(owner, "blobs", status="uploading")
    async with refused(owner, IDENTITY, saying="is not complete"):
        await insert_version_with_file(owner, blob_id=coming["id"])
    version = await insert_version_with_file(owner)
    blob = await owner.fetchrow("SELECT * FROM assent.blobs WHERE id = $1", version["blob_id"])
    deleting = {"status": "deleting", "delete_at": START}
    async with refused(owner, IDENTITY, saying="a version refers to blob"):
        await update(owner, "blobs", blob, **deleting)
    async with refused(owner, IDENTITY, saying="a version refers to blob"):
        await delete(owner, "blobs", blob)
    async with refused(owner, IDENTITY, saying="stays as it was uploaded"):
        await update(owner, "blobs", blob, sha256="1" * 64)
    async with refused(owner, APPEND_ONLY, saying="TRUNCATE"):
        await owner.execute("TRUNCATE assent.blobs CASCADE")
    erased = {"structured_data": None, "erased_at": START, "erased_by": "olga"}
    assert await update(owner, "document_versions", version, **erased) == 1
    assert await update(owner, "blobs", blob, **deleting) == 1


async def test_a_file_is_read_once_and_before_the_end_of_the_review(owner):
    read = {"ocr_extracted": {"text": "a"}, "extracted_at": START, "quality_score": 7}
    version = await insert_version_with_file(owner, structured_data=None)
    assert await update(owner, "document_versions", version, **read, structured_data={"number": 1}) == 1
    async with refused(owner, IDENTITY, saying="content of version"):
        await update(owner, "document_versions", version, **read | {"quality_score": 8})
    given = await insert_version_with_file(owner, structured_data={"number": 1})
    async with refused(owner, IDENTITY, saying="content of version"):
        await update(owner, "document_versions", given, **read, structured_data={"number": 2})
    reviewed = await insert_version_with_file(owner, **REVIEWED)
    for row in (reviewed, await insert_document_version(owner)):
        async with refused(owner, IDENTITY, saying="content of version"):
            await update(owner, "document_versions", row, **read)
