"""Content of documents goes when its org keeps it no longer and nothing needs it; the rows and their reviews stay."""

from collections.abc import Mapping
from typing import Any

import pytest

from assent.documents.documents import VersionItem
from assent.model.actor import Actor
from assent.worker.duty import WorkerContext
from assent.worker.upkeep import Retention
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.documents.test_files import PDF, kept_files, sweep, upload
from tests.statements import StatementCounter
from tests.world import ORG, rows

READER = Actor("reader", capabilities={"audit:read", "documents:read"})


async def keep(compliance: Compliance, days: Any) -> None:
    settings = {} if days is None else {"document_retention_days": days}
    async with compliance.database.transaction(None) as connection:
        await connection.execute("UPDATE assent.orgs SET settings = $2 WHERE org_id = $1", ORG, settings)


async def run(compliance: Compliance) -> int:
    place = WorkerContext(compliance.database, runtime=compliance.runtime)
    return (await Retention(place).run_once()).parts["versions"]


async def read(compliance: Compliance, version: VersionItem) -> VersionItem:
    found = await compliance.by(VERA).documents.get(version.document_id)
    return next(one for one in found.versions if one.id == version.id)


async def test_content_goes_after_its_days_and_row_and_review_stay(
    compliance: Compliance, blobs: Any
) -> None:
    await keep(compliance, 30)
    version = await upload(compliance, structured_data={"number": "C01X"}, file_name="Cy Miller.pdf")
    await compliance.by(VERA).documents.verify(version.document_id, version.id)
    compliance.clock.advance("30d")
    assert await run(compliance) == 0
    compliance.clock.advance("1s")
    assert await run(compliance) == 1
    found = await read(compliance, version)
    assert (found.structured_data, found.file_name, found.erased_by) == (None, None, "system")
    assert (found.status, found.verified_by, found.sha256) == ("verified", "vera", version.sha256)
    assert (await sweep(compliance).run_once()).parts["deleted"] == 1
    assert kept_files(blobs) == []
    (entry,) = [
        row for row in await rows(compliance.database, "audit_log") if row["action"] == "document.erase"
    ]
    assert (entry["actor_id"], entry["channel"], entry["subject_id"]) == (
        "system",
        "worker",
        str(version.document_id),
    )
    assert entry["details"] == {"version": str(version.id), "reason": "kept for 30 days"}
    (event,) = [row for row in await rows(compliance.database, "document_events") if row["type"] == "erased"]
    assert (event["version_id"], event["actor_id"], event["notes"]) == (
        version.id,
        "system",
        "kept for 30 days",
    )
    assert await run(compliance) == 0


@pytest.mark.parametrize("days", [None, 0, -5, "30", True, [30], 1e30, 0.5])
async def test_content_stays_without_a_policy_that_makes_sense(compliance: Compliance, days: Any) -> None:
    await keep(compliance, days)
    await compliance.upload("passport")
    compliance.clock.advance("3650d")
    assert await run(compliance) == 0


async def test_content_stays_for_as_long_as_its_case_runs_and_its_days_after(compliance: Compliance) -> None:
    """Also what was rejected meanwhile: it is why the client was asked again."""
    await keep(compliance, 30)
    await compliance.begin()
    await compliance.hand_in("proof_of_address", "passport")
    await compliance.work()
    address, passport = sorted(
        await rows(compliance.database, "document_versions"), key=lambda row: row["structured_data"]["type"]
    )[::-1]
    first = await compliance.by(VERA).documents.get(passport["document_id"])
    await compliance.reject(first.versions[0], "UNREADABLE")
    compliance.clock.advance("100d")
    assert await run(compliance) == 0
    await compliance.by(LEAD).instances.cancel((await compliance.instance())["id"], "gone")
    assert await run(compliance) == 0
    compliance.clock.advance("30d")
    assert await run(compliance) == 0
    compliance.clock.advance("2s")
    assert await run(compliance) == 2
    erased = {row["id"] for row in await rows(compliance.database, "document_versions") if row["erased_at"]}
    assert erased == {address["id"], passport["id"]}


async def test_days_count_again_from_the_review(compliance: Compliance) -> None:
    await keep(compliance, 30)
    version = await compliance.upload("passport")
    compliance.clock.advance("29d")
    await compliance.by(VERA).documents.verify(version.document_id, version.id)
    compliance.clock.advance("29d")
    assert await run(compliance) == 0
    compliance.clock.advance("2d")
    assert await run(compliance) == 1


async def test_content_that_a_reviewer_still_has_to_see_stays(compliance: Compliance) -> None:
    """Of a requirement without a workflow: nothing but the review ends it."""
    await keep(compliance, 30)
    required = await compliance.by(LEAD).requirements.create("c-1", "passport")
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1", requirement_id=required.id)
    version = await documents.add_version(document.id, structured_data={"number": "C01X"})
    await compliance.by(LEAD).documents.get(document.id)
    compliance.clock.advance("100d")
    assert await run(compliance) == 0
    await compliance.by(VERA).documents.verify(document.id, version.id)
    compliance.clock.advance("31d")
    assert await run(compliance) == 1
    assert (await compliance.statuses())["passport"] == "verified"


async def test_content_of_what_was_asked_for_stays_while_the_request_is_open(compliance: Compliance) -> None:
    await keep(compliance, 30)
    asked = await compliance.by(LEAD).requirements.solicit("c-1", ["passport", "register"])
    version = await compliance.upload("passport")
    await compliance.push(version, request_id=asked.request_id)
    await compliance.work()
    await compliance.by(VERA).documents.verify(version.document_id, version.id)
    compliance.clock.advance("100d")
    assert await run(compliance) == 0


async def test_policy_of_one_org_leaves_the_documents_of_others(compliance: Compliance) -> None:
    async with compliance.database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.orgs (org_id, name, settings) VALUES ('globex', 'Globex', $1)",
            {"document_retention_days": 1},
        )
    version = await compliance.upload("passport")
    compliance.clock.advance("3650d")
    assert await run(compliance) == 0
    assert (await read(compliance, version)).structured_data == {"type": "passport"}


async def test_a_version_under_review_is_left_to_its_reviewer(compliance: Compliance) -> None:
    """Its row is locked by another transaction: the next run looks again."""
    await keep(compliance, 30)
    version = await compliance.upload("passport")
    compliance.clock.advance("31d")
    async with compliance.database.transaction(None) as connection:
        await connection.execute(
            "SELECT FROM assent.document_versions WHERE id = $1 FOR NO KEY UPDATE", version.id
        )
        assert await run(compliance) == 0
    assert await run(compliance) == 1


async def test_statements_do_not_depend_on_how_many_versions_go(
    compliance: Compliance, statement_counter: StatementCounter
) -> None:
    await keep(compliance, 30)

    async def statements(count: int) -> int:
        for number in range(count):
            await upload(compliance, PDF + bytes([number]))
        compliance.clock.advance("31d")
        statement_counter.clear()
        assert await run(compliance) == count
        return len(statement_counter)

    await statements(1)  # a connection's first time
    alone = await statements(1)
    assert await statements(20) == alone


async def test_the_setting_is_a_number_of_days(compliance: Compliance) -> None:
    """As the other settings of the product, it is checked when it is saved."""
    org = compliance.by(Actor("root", capabilities={"*"}))
    saved: Mapping[str, Any] = (await org.settings.change({"document_retention_days": 400})).settings
    assert saved["document_retention_days"] == 400
