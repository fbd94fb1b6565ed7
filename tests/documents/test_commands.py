"""Commands to documents: who may, who may not review, what stays on record, and what another org sees: nothing."""

from uuid import uuid4

import asyncpg
import pytest

from assent.documents.requirements import ActorsChange, write_requirements
from assent.model.actor import Actor
from assent.model.document import RejectionCode, RequirementChange
from assent.model.mutation import Refused
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.world import ORG, rows

EVERYTHING = frozenset({"*"})


async def refused(code, command):
    with pytest.raises(Refused) as caught:
        await command
    assert caught.value.rejection.code == code
    return caught.value.rejection


async def test_every_command_takes_its_capability(compliance: Compliance) -> None:
    version = await compliance.upload("passport")
    requirement = await compliance.by(LEAD).requirements.create("c-1", "visa")
    eve = compliance.by(Actor("eve", capabilities={"documents:other", "requirements"}))
    ids = version.document_id, version.id
    for command in (
        eve.documents.create("passport", "c-1"),
        eve.documents.add_version(version.document_id, structured_data={}),
        eve.documents.verify(*ids),
        eve.documents.reject(*ids, "UNREADABLE"),
        eve.documents.erase(*ids, "no reason"),
        eve.documents.get(version.document_id),
        eve.documents.list(),
        eve.requirements.create("c-1", "passport"),
        eve.requirements.get(requirement.id),
        eve.requirements.list(),
        eve.requirements.waive(requirement.id, "no reason"),
        eve.requirements.reset(requirement.id, "no reason"),
        eve.requirements.save_code(RejectionCode("FOLDED", "quality", "a", "b", "c")),
    ):
        await refused("POLICY_DENIED", command)


async def test_nobody_reviews_what_they_handed_in_or_what_their_key_did(compliance: Compliance) -> None:
    vera = Actor("vera", capabilities=EVERYTHING)
    robot = Actor("robot", "service_account", capabilities=EVERYTHING, maker_id="vera")
    for sender, reviewer in ((vera, vera), (robot, vera), (robot, robot), (vera, robot)):
        documents = compliance.by(sender).documents
        document = await documents.create("passport", "c-1")
        version = await documents.add_version(document.id, structured_data={"n": 1})
        commands = compliance.by(reviewer).documents
        await refused("SEPARATION_OF_DUTIES", commands.verify(document.id, version.id))
        await refused("SEPARATION_OF_DUTIES", commands.reject(document.id, version.id, "UNREADABLE"))


async def test_a_version_is_reviewed_once(compliance: Compliance) -> None:
    version = await compliance.upload("passport")
    documents = compliance.by(VERA).documents
    await refused("UNKNOWN_REJECTION_CODE", documents.reject(version.document_id, version.id, "UGLY"))
    rejected = await documents.reject(version.document_id, version.id, "CUTOFF", "the left edge")
    assert (rejected.status, rejected.verified_by, rejected.rejection_code) == ("rejected", "vera", "CUTOFF")
    await refused("ALREADY_REVIEWED", documents.verify(version.document_id, version.id))


async def test_another_org_and_another_partition_find_nothing(compliance: Compliance) -> None:
    version = await compliance.upload("passport")
    requirement = await compliance.by(LEAD).requirements.create("c-1", "visa")
    everybody = Actor("lead", capabilities=EVERYTHING)
    elsewhere = compliance.runtime.org("globex", everybody)
    north = compliance.runtime.org(ORG, everybody, "north")
    ids = version.document_id, version.id
    for org in (elsewhere, north):
        for command in (
            org.documents.get(version.document_id),
            org.documents.add_version(version.document_id, structured_data={}),
            org.documents.verify(*ids),
            org.documents.reject(*ids, "UNREADABLE"),
            org.documents.erase(*ids, "no reason"),
            org.documents.create("passport", "c-1", parent_id=version.document_id),
            org.documents.create("visa", "c-1", requirement_id=requirement.id),
            org.requirements.get(requirement.id),
            org.requirements.waive(requirement.id, "no reason"),
            org.requirements.reset(requirement.id, "no reason"),
            org.requirements.create("c-1", "passport", instance_id=uuid4()),
        ):
            await refused("NOT_FOUND", command)
        assert (await org.documents.list()).items == []
        assert (await org.requirements.list()).items == []


async def test_a_document_for_a_requirement_is_received_with_its_first_version(
    compliance: Compliance,
) -> None:
    await compliance.begin()
    requirement = (await compliance.requirements())["passport"]
    portal = compliance.by(PORTAL).documents
    await refused("BAD_VALUE", portal.create("visa", "c-1", requirement_id=requirement.id))
    document = await portal.create("passport", "c-1", requirement_id=requirement.id)
    assert (await compliance.requirements())["passport"].status == "requested"
    first = await portal.add_version(document.id, structured_data={"n": 1})
    second = await portal.add_version(document.id, structured_data={"n": 2})
    assert (first.version_no, second.version_no) == (1, 2)
    found = (await compliance.requirements())["passport"]
    assert (found.status, found.version_id) == ("received", second.id)
    await compliance.reject(first, "CUTOFF")
    assert (await compliance.requirements())[
        "passport"
    ].status == "received"  # only the latest version counts


async def test_documents_are_found_by_their_fields(compliance: Compliance) -> None:
    passport = await compliance.upload("passport")
    await compliance.upload("visa", "c-2")
    documents = compliance.by(VERA).documents
    for wanted in ({"fields": {"type": "passport"}}, {"subject": "c-1"}, {"document_type": "passport"}):
        assert [one.id for one in (await documents.list(**wanted)).items] == [passport.document_id]
    assert len((await documents.list(status="pending")).items) == 2
    assert (await documents.list(status="verified")).items == []
    page = await documents.list(limit=1)
    rest = await documents.list(limit=1, cursor=page.next)
    assert {page.items[0].subject, rest.items[0].subject} == {"c-1", "c-2"}
    assert rest.next is None


async def test_erased_content_is_gone_and_the_record_stays(compliance: Compliance) -> None:
    version = await compliance.upload("passport")
    erased = await compliance.by(LEAD).documents.erase(version.document_id, version.id, "the client asked")
    assert (erased.structured_data, erased.erased_by, erased.version_no) == (None, "lead", 1)
    again = compliance.by(LEAD).documents.erase(version.document_id, version.id, "the client asked")
    await refused("VERSION_ERASED", again)
    await refused("VERSION_ERASED", compliance.by(VERA).documents.verify(version.document_id, version.id))
    found = await compliance.by(VERA).documents.get(version.document_id)
    assert [one.type for one in found.events] == ["erased", "version_uploaded", "created"]
    assert (await compliance.by(VERA).documents.list(fields={"type": "passport"})).items == []


async def test_every_command_leaves_an_audit_entry(compliance: Compliance) -> None:
    version = await compliance.upload("passport")
    await compliance.by(VERA).documents.verify(version.document_id, version.id)
    await compliance.by(LEAD).documents.erase(version.document_id, version.id, "the client asked")
    requirement = await compliance.by(LEAD).requirements.create("c-1", "visa")
    await compliance.by(LEAD).requirements.waive(requirement.id, "known")
    await compliance.by(LEAD).requirements.reset(requirement.id, "mistaken")
    entries = sorted(await rows(compliance.database, "audit_log"), key=lambda row: row["id"])
    found = [
        (row["actor_id"], row["action"])
        for row in entries
        if row["subject_kind"] in ("document", "requirement")
    ]
    assert found == [
        ("portal", "document.create"),
        ("portal", "document.add_version"),
        ("vera", "document.verify"),
        ("lead", "document.erase"),
        ("lead", "requirement.create"),
        ("lead", "requirement.waive"),
        ("lead", "requirement.reset"),
    ]


async def test_a_requirement_is_created_once_and_moves_as_its_status_allows(compliance: Compliance) -> None:
    requirements = compliance.by(LEAD).requirements
    created = await requirements.create("c-1", "visa")
    await refused("ALREADY_EXISTS", requirements.create("c-1", "visa"))
    await refused("REQUIREMENT_STATUS", requirements.reset(created.id, "mistaken"))
    waived = await requirements.waive(created.id, "known")
    assert (waived.status, waived.waived_by) == ("waived", "lead")
    await refused("REQUIREMENT_STATUS", requirements.waive(created.id, "known"))
    assert (await requirements.reset(created.id, "mistaken")).waived_by is None
    await refused("BLANK", requirements.waive(created.id, " "))


@pytest.mark.parametrize("code", ["unreadable", "A", "1X", "A-B", "É" * 3, "X" * 64])
async def test_a_rejection_code_is_spelled_in_capitals(compliance: Compliance, code: str) -> None:
    own = RejectionCode(code, "quality", "a", "b", "c")
    await refused("BAD_VALUE", compliance.by(LEAD).requirements.save_code(own))


async def test_an_org_says_a_code_in_its_own_words(compliance: Compliance) -> None:
    own = RejectionCode("GLARE", "quality", "It shines.", "Glare.", "Turn the lamp off.", retryable=False)
    await compliance.by(LEAD).requirements.save_code(own)
    found = {one.code: one for one in await compliance.by(VERA).requirements.list_codes()}
    assert (len(found), found["GLARE"]) == (18, own)
    others = {one.code: one for one in await compliance.runtime.org("globex").requirements.list_codes()}
    assert others["GLARE"].retryable


async def test_what_another_transaction_has_changed_is_not_overwritten(compliance: Compliance) -> None:
    requirements = compliance.by(LEAD).requirements
    read = await requirements.create("c-1", "visa")
    await requirements.waive(read.id, "known")
    stale = ActorsChange(RequirementChange(read, read.waive("eve", compliance.clock.now())))
    with pytest.raises(asyncpg.SerializationError):
        async with compliance.database.transaction(ORG) as connection:
            await write_requirements(connection, [stale], compliance.clock.now())
    assert (await requirements.get(read.id)).requirement.waived_by == "lead"
