"""Asking by people and by the clock: due dates and reminders, results that come late, requests without a step."""

from datetime import timedelta
from typing import Any

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.documents.test_kyc import BOTH, PAPERS, start_with
from tests.world import hire, rows

REMINDED = {
    "on_fail": {
        "blocker": {
            "type": "MissingDocuments",
            "resolution": "(document.solicit :subject-entity-id $entity_id :doc-type passport :notify $email)",
            "ask_again_after": "30d",
            "due": "10d",
            "remind": "3d",
        }
    }
}


async def letters(compliance: Compliance) -> list[dict[str, Any]]:
    effects = sorted(await rows(compliance.database, "effects"), key=lambda row: row["created_at"])
    return [row["payload"] for row in effects if row["type"] == "email"]


async def test_a_document_has_a_due_date_and_its_party_is_reminded_once(compliance: Compliance) -> None:
    await start_with(compliance, PAPERS | REMINDED)
    due = compliance.clock.now().date() + timedelta(days=10)
    assert (await compliance.requirements())["passport"].due_date == due
    (asked,) = (await compliance.asked())[0]["documents"]
    assert asked["due_date"] == due.isoformat()
    assert f"until {due}" in (await letters(compliance))[0]["text"]
    await compliance.wait(days=6)
    assert len(await letters(compliance)) == 1
    await compliance.wait(days=1)
    assert [one["subject"] for one in await letters(compliance)][1:] == [
        "Reminder: Documents that we need from you"
    ]
    await compliance.wait(days=5)
    assert len(await letters(compliance)) == 2
    found = (await compliance.requirements())["passport"]
    assert (found.status, found.attempt_count) == ("requested", 1)  # a reminder is no round


async def test_nobody_is_reminded_of_what_they_have_sent(compliance: Compliance) -> None:
    await start_with(compliance, PAPERS | REMINDED)
    await compliance.hand_in("passport")
    await compliance.work()
    await compliance.wait(days=8)
    assert len(await letters(compliance)) == 1


async def test_overdue_documents_are_listed(compliance: Compliance) -> None:
    await start_with(compliance, PAPERS | REMINDED)
    today = compliance.clock.now().date()
    requirements = compliance.by(LEAD).requirements
    assert (await requirements.list(due_before=today + timedelta(days=10))).items == []
    (late,) = (await requirements.list(due_before=today + timedelta(days=11))).items
    await requirements.waive(late.id, "known")
    assert (await requirements.list(due_before=today + timedelta(days=11))).items == []


async def test_a_result_that_came_late_counts_where_the_document_is_still_missing(
    compliance: Compliance,
) -> None:
    await compliance.begin()
    first = await compliance.open_request()
    await compliance.wait(days=7)
    second = await compliance.open_request()
    assert first["id"] != second["id"]
    passport, address = [await compliance.upload(one) for one in BOTH]
    assert await compliance.push(passport, address, request_id=first["id"]) == "late"
    await compliance.work()
    assert await compliance.place() == ("running", ["identity_verified"])
    found = await compliance.requirements()
    assert {one.version_id for one in found.values()} == {passport.id, address.id}
    (old,) = [row for row in await compliance.requests() if row["id"] == first["id"]]
    assert (old["status"], old["received"]) == ("cancelled", 0)  # it stays as it ended
    await compliance.verify(passport, address)
    assert await compliance.place() == ("completed", [])


async def test_a_result_that_came_late_does_not_replace_what_came_in_time(compliance: Compliance) -> None:
    await compliance.begin()
    first = await compliance.open_request()
    await compliance.wait(days=7)
    (newer,) = await compliance.hand_in("passport")
    await compliance.work()
    older = await compliance.upload("passport")
    assert await compliance.push(older, request_id=first["id"]) == "late"
    await compliance.work()
    assert (await compliance.requirements())["passport"].version_id == newer.id


async def test_two_late_results_of_one_document_move_it_once(compliance: Compliance) -> None:
    await compliance.begin()
    first = await compliance.open_request()
    await compliance.wait(days=7)
    second = await compliance.open_request()
    await compliance.wait(days=7)
    versions = [await compliance.upload("passport") for _ in range(2)]
    for version, request in zip(versions, (first, second), strict=True):
        await compliance.push(version, request_id=request["id"])
    await compliance.work()
    found = (await compliance.requirements())["passport"]
    assert (found.status, found.version_id) == ("received", versions[0].id)


async def test_a_person_asks_for_a_document_of_a_subject(compliance: Compliance) -> None:
    requirements = compliance.by(LEAD).requirements
    asked = await requirements.solicit("c-9", ["passport", "bill"], notify="cy@mail.example")
    assert [one.status for one in asked.requirements] == ["requested", "requested"]
    (request,) = await compliance.requests()
    assert (request["instance_id"], request["step_id"], request["expected"]) == (None, None, 2)
    assert [one["to"] for one in await letters(compliance)] == ["cy@mail.example"]
    (passport,) = await compliance.hand_in("passport", subject="c-9")
    await compliance.work()
    status = {one.doc_type: one.status for one in (await requirements.list(subject="c-9")).items}
    assert status == {"passport": "in_qa", "bill": "requested"}
    await compliance.reject(passport, "GLARE")
    again = await requirements.solicit("c-9", ["passport"])
    assert [one.attempt_count for one in again.requirements] == [2]
    shown = await compliance.by(LEAD).requests.get(again.request_id)
    assert shown.asked["documents"][0]["rejection_code"] == "GLARE"


async def test_what_was_handed_in_or_has_no_round_left_is_not_asked_for(compliance: Compliance) -> None:
    requirements = compliance.by(LEAD).requirements
    (one,) = (await requirements.solicit("c-9", ["passport"])).requirements
    for _ in range(2):
        await requirements.solicit("c-9", ["passport"])
    with pytest.raises(Refused, match="asked for 3 times") as caught:
        await requirements.solicit("c-9", ["passport"])
    assert caught.value.rejection.code == "REQUIREMENT_STATUS"
    await requirements.reset(one.id, "begin again")
    await requirements.solicit("c-9", ["passport"])
    await requirements.waive(one.id, "known")
    with pytest.raises(Refused, match="is waived"):
        await requirements.solicit("c-9", ["bill", "passport"])
    assert [row.doc_type for row in (await requirements.list(subject="c-9")).items] == ["passport"]


async def test_a_person_asks_for_what_an_instance_waits_for(compliance: Compliance) -> None:
    view = await compliance.begin()
    requirements = compliance.by(Actor("lead", capabilities={"*"})).requirements
    asked = await requirements.solicit("c-1", ["passport"], instance_id=view.id)
    assert [one.attempt_count for one in asked.requirements] == [2]
    versions = [await compliance.upload(one) for one in BOTH]
    await compliance.push(versions[0], request_id=asked.request_id)
    first = next(row for row in await compliance.requests() if row["id"] != asked.request_id)
    await compliance.push(versions[1], request_id=first["id"])
    await compliance.work()
    assert await compliance.place() == ("running", ["identity_verified"])


async def test_what_a_person_asked_ends_with_the_instance_that_is_cancelled(compliance: Compliance) -> None:
    view = await compliance.begin()
    lead = compliance.by(Actor("lead", capabilities={"*"}))
    asked = await lead.requirements.solicit("c-1", ["passport"], instance_id=view.id)
    other = await lead.requirements.solicit("c-9", ["passport"])
    await lead.instances.cancel(view.id, "the client has gone")
    found = {row["id"]: row for row in await compliance.requests()}
    ended = found.pop(asked.request_id)
    assert (ended["status"], ended["error"]) == ("cancelled", "its instance is cancelled")
    assert ended["ended_at"] is not None
    assert found[other.request_id]["status"] == "pending"
    with pytest.raises(Refused):
        await lead.requests.upload_link(asked.request_id, base_url="https://assent.example")


async def test_a_request_of_no_instance_is_for_readers_of_documents(compliance: Compliance) -> None:
    asked = await compliance.by(LEAD).requirements.solicit("c-9", ["passport"])
    reader, other = (
        Actor("ray", capabilities={"documents:read"}),
        Actor("eve", capabilities={"requests:read"}),
    )
    assert [one.id for one in (await compliance.by(reader).requests.list()).items] == [asked.request_id]
    assert (await compliance.by(reader).requests.get(asked.request_id)).request.step_id is None
    assert (await compliance.by(other).requests.list()).items == []
    with pytest.raises(Refused):
        await compliance.by(other).requests.get(asked.request_id)


async def test_a_lapsed_document_is_asked_for_at_the_step_that_rests_and_not_behind_it(
    compliance: Compliance,
) -> None:
    """The step that rests asks again; an instance that has passed stays where it is, and the board shows it."""
    async with compliance.database.transaction(None) as connection:
        await hire(connection, {"olly": ["compliance_officer"], "hedda": ["head_of_compliance"]})
    await compliance.begin(risk="high")
    versions = await compliance.hand_in(*BOTH)
    await compliance.work()
    last = compliance.clock.now().date() + timedelta(days=2)
    await compliance.verify(*versions, valid_to=last)
    assert await compliance.place() == ("running", ["compliance"])
    await compliance.wait(days=3)
    assert await compliance.place() == ("running", ["compliance"])
    requirements = compliance.by(LEAD).requirements
    expired = (await requirements.list(status="expired")).items
    assert [one.subject for one in expired] == ["c-1", "c-1"]
    counts = await requirements.count()
    assert (counts.statuses["expired"], counts.statuses["verified"], counts.more) == (2, 0, False)
    assert len(await compliance.requests()) == 1  # a person asks for it, where it is needed


async def test_the_board_is_filtered_by_the_code_of_the_last_rejection(compliance: Compliance) -> None:
    await compliance.begin()
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    await compliance.reject(passport, "GLARE")
    requirements = compliance.by(LEAD).requirements
    assert [one.doc_type for one in (await requirements.list(code="GLARE")).items] == ["passport"]
    assert (await requirements.list(code="CUTOFF")).items == []
    assert (await requirements.count(code="GLARE")).statuses["requested"] == 1
    other = compliance.by(VERA).requirements  # she reads documents, and not this instance
    assert (await other.list(code="GLARE")).items == []
    assert (await other.count(code="GLARE")).statuses["requested"] == 0
    with pytest.raises(Refused):
        await compliance.by(PORTAL).requirements.count()
