"""`kyc_onboarding` as it is shipped: documents are asked for, come in parts, are rejected, and pass their review."""

from datetime import date, timedelta
from typing import Any

import pytest

from assent.model.document import RejectionCode
from assent.model.mutation import Refused
from assent.runtime import InstanceView
from tests.documents.conftest import LEAD, RON, Compliance
from tests.world import ORG, publish_steps, rows

BOTH = ["passport", "proof_of_address"]


async def test_a_client_is_taken_in_when_both_documents_passed_their_review(compliance: Compliance) -> None:
    view = await compliance.begin()
    assert await compliance.place() == ("running", ["evidence_collected"])
    (asked,) = await compliance.asked()
    assert (asked["blocker"], asked["verb"], asked["subject"]) == (
        "MissingDocuments",
        "document.solicit-set",
        "c-1",
    )
    assert [one["doc_type"] for one in asked["documents"]] == BOTH
    assert (await compliance.open_request())["expected"] == 2
    passport, address = await compliance.hand_in(*BOTH)
    await compliance.work()
    assert await compliance.place() == ("running", ["identity_verified"])
    assert await compliance.statuses() == dict.fromkeys(BOTH, "in_qa")
    assert len(await compliance.requests()) == 1  # what is in review is not asked for again
    await compliance.verify(passport)
    assert await compliance.place() == ("running", ["identity_verified"])
    await compliance.verify(address)
    assert await compliance.place() == ("completed", [])
    context = (await compliance.instance())["context_json"]
    assert (context["risk"], view.workflow_id) == ("low", "clients.kyc")


async def test_only_what_is_missing_is_asked_for_again_with_the_words_of_the_last_rejection(
    compliance: Compliance,
) -> None:
    await compliance.begin()
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    first = await compliance.open_request()
    assert (first["status"], first["received"]) == ("partial", 1)
    await compliance.wait(days=7)
    rest = (await compliance.asked())[-1]
    assert [(one["doc_type"], one["attempt"]) for one in rest["documents"]] == [("proof_of_address", 2)]
    assert [row["status"] for row in await compliance.requests()] == ["cancelled", "pending"]
    (address,) = await compliance.hand_in("proof_of_address")
    await compliance.work()
    await compliance.reject(passport, "UNREADABLE")
    (again,) = (await compliance.asked())[-1]["documents"]
    assert (again["doc_type"], again["attempt"], again["rejection_code"]) == ("passport", 2, "UNREADABLE")
    assert again["message"] == (
        "The image of the document is too blurry to read. Please upload a clear image in high resolution."
    )
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    await compliance.verify(passport, address)
    assert await compliance.place() == ("completed", [])


async def test_a_request_that_is_open_is_carried_over_without_a_round(compliance: Compliance) -> None:
    await compliance.begin()
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    await compliance.reject(passport, "GLARE")
    documents = (await compliance.asked())[-1]["documents"]
    assert {one["doc_type"]: one["attempt"] for one in documents} == {"passport": 2, "proof_of_address": 1}
    assert (await compliance.open_request())["expected"] == 2
    await compliance.hand_in(*BOTH)
    await compliance.work()
    assert await compliance.place() == ("running", ["identity_verified"])


@pytest.mark.parametrize(("code", "rounds"), [("SUSPECTED_ALTERATION", 1), ("UNREADABLE", 3)])
async def test_what_no_round_can_bring_is_an_incident_for_a_person(
    compliance: Compliance, code: str, rounds: int
) -> None:
    view = await compliance.begin()
    for _ in range(rounds):
        assert (await compliance.place())[0] == "running"
        (passport,) = await compliance.hand_in("passport")
        await compliance.work()
        await compliance.reject(passport, code)
    found = await compliance.instance()
    assert (found["status"], found["incident"]["code"]) == ("paused", "DOCUMENTS_BLOCKED")
    assert "passport of c-1 (rejected)" in found["incident"]["message"]
    assert {row["ended_at"] is None for row in await compliance.requests()} == {False}
    requirement = (await compliance.requirements())["passport"]
    await compliance.by(LEAD).requirements.waive(requirement.id, "seen in person")
    await compliance.work()
    assert (await compliance.instance())["status"] == "paused"
    await compliance.by(LEAD).instances.retry(view.id)
    assert await compliance.place() == ("running", ["evidence_collected"])
    (asked,) = (await compliance.asked())[-1]["documents"]
    assert asked["doc_type"] == "proof_of_address"


async def test_documents_that_never_come_are_asked_for_as_often_as_there_are_rounds(
    compliance: Compliance,
) -> None:
    await compliance.begin()
    for rounds in (1, 2, 3):
        assert {one.attempt_count for one in (await compliance.requirements()).values()} == {rounds}
        assert len(await compliance.requests()) == rounds
        await compliance.wait(days=6, hours=23)
        assert len(await compliance.requests()) == rounds
        await compliance.wait(hours=2)
    assert (await compliance.instance())["incident"]["code"] == "DOCUMENTS_BLOCKED"


async def test_a_waiver_and_a_reset_wake_the_instance(compliance: Compliance) -> None:
    await compliance.begin()
    found = await compliance.requirements()
    for one in found.values():
        await compliance.by(LEAD).requirements.waive(one.id, "known for years")
    await compliance.work()
    assert await compliance.place() == ("completed", [])
    assert [row["status"] for row in await compliance.requests()] == ["cancelled"]


async def test_a_reset_begins_the_rounds_again(compliance: Compliance) -> None:
    await compliance.begin()
    passport = (await compliance.requirements())["passport"]
    await compliance.by(LEAD).requirements.reset(passport.id, "the client asked for it")
    await compliance.work()
    found = await compliance.requirements()
    assert {name: (one.status, one.attempt_count) for name, one in found.items()} == dict.fromkeys(
        BOTH, ("requested", 1)
    )
    assert {one.request_id for one in found.values()} == {(await compliance.open_request())["id"]}


async def test_open_requests_end_with_their_instance(compliance: Compliance) -> None:
    view = await compliance.begin()
    await compliance.by(LEAD).instances.cancel(view.id, "went elsewhere")
    (request,) = await compliance.requests()
    assert (request["status"], request["error"]) == ("cancelled", "went elsewhere")
    version = await compliance.upload("passport")
    assert await compliance.push(version, request_id=request["id"]) == "late"


async def test_the_onboarding_lapses_with_its_requests(compliance: Compliance) -> None:
    await compliance.begin()
    await compliance.hand_in(*BOTH)
    await compliance.work()
    await compliance.wait(days=90)
    found = await compliance.instance()
    assert found["status"] == "completed"


async def test_a_document_in_review_is_waited_for(compliance: Compliance) -> None:
    await compliance.begin()
    _, address = await compliance.hand_in(*BOTH)
    await compliance.work()
    await compliance.verify(address)
    await compliance.wait(days=80)
    assert await compliance.statuses() == {"passport": "in_qa", "proof_of_address": "verified"}
    assert len(await compliance.requests()) == 1


async def test_a_result_with_the_wrong_documents_is_asked_for_again(compliance: Compliance) -> None:
    await compliance.begin()
    await compliance.hand_in("passport", "passport")
    await compliance.work()
    assert [row["status"] for row in await compliance.requests()] == ["completed", "pending"]
    (asked,) = (await compliance.asked())[-1]["documents"]
    assert (asked["doc_type"], asked["attempt"]) == ("proof_of_address", 2)


async def test_documents_of_another_client_do_not_count(compliance: Compliance) -> None:
    await compliance.begin()
    await compliance.hand_in("passport", subject="c-2")
    await compliance.work()
    assert (await compliance.requirements())["passport"].status == "requested"


async def test_a_result_that_points_to_no_version_is_refused(compliance: Compliance) -> None:
    await compliance.begin()
    request = await compliance.open_request()
    missing = {"cargo": f"version://assent/{request['id']}"}
    with pytest.raises(Refused) as caught:
        await compliance.runtime.org(ORG).requests.push_result(request["id"], "k", [missing])
    assert caught.value.rejection.code == "UNKNOWN_VERSION"
    assert "POST /api/documents/{document_id}/versions" in str(caught.value.rejection.hint)


async def test_the_same_documents_handed_in_twice_change_nothing(compliance: Compliance) -> None:
    await compliance.begin()
    (passport,) = await compliance.hand_in("passport")
    await compliance.push(passport, key="again")
    await compliance.work()
    before = (await compliance.requirements())["passport"]
    await compliance.push(passport, key="and again")
    await compliance.work()
    assert (await compliance.requirements())["passport"] == before
    assert before.status == "received"


async def test_a_verified_document_lapses_after_its_last_day(compliance: Compliance) -> None:
    await compliance.begin()
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    today = compliance.clock.now().date()
    await compliance.verify(passport, valid_to=today + timedelta(days=3))
    assert (await compliance.requirements())["passport"].status == "verified"
    await compliance.wait(days=3)
    assert (await compliance.requirements())["passport"].status == "verified"
    await compliance.wait(days=1)
    found = (await compliance.requirements())["passport"]
    assert (found.status, found.attempt_count) == ("requested", 1)
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    with pytest.raises(Refused, match="was valid until 2020-01-01") as caught:
        await compliance.verify(passport, valid_to=date(2020, 1, 1))
    assert caught.value.rejection.hint == "reject it with EXPIRED"


async def test_a_document_that_is_too_old_lapses_and_is_asked_for_again(compliance: Compliance) -> None:
    step = {
        "id": "papers",
        "type": "requirements",
        "requirements": [
            {"type": "requirement_satisfied", "doc_type": "proof_of_address", "max_age_days": 90},
            {"type": "requirement_satisfied", "doc_type": "passport"},
        ],
        "on_fail": {
            "blocker": {
                "type": "MissingDocuments",
                "resolution": "(document.solicit-set :subject-entity-id $entity_id :doc-types [proof_of_address])",
                "ask_again_after": "365d",
            }
        },
    }
    view = await start_with(compliance, step)
    (address,) = await compliance.hand_in("proof_of_address")
    await compliance.work()
    await compliance.verify(address)
    await compliance.wait(days=91)
    passport = (await compliance.requirements())["passport"]
    assert passport.status == "missing"  # the verb asks for the other only
    await compliance.by(LEAD).requirements.waive(passport.id, "seen in person")
    await compliance.work()
    assert (await compliance.requirements())["proof_of_address"].status == "requested"
    events = await compliance.by(LEAD).requirements.get(
        (await compliance.requirements())["proof_of_address"].id
    )
    assert [one.type for one in events.events][:2] == ["requested", "expired"]
    assert (await compliance.instance())["id"] == view.id


@pytest.mark.parametrize(("limit", "end"), [({"timeout": "2d", "on_timeout": "late"}, "late"), ({}, None)])
async def test_a_step_has_a_time_of_its_own_and_its_requests_end_with_it(
    compliance: Compliance, limit: dict[str, str], end: str | None
) -> None:
    await start_with(compliance, PAPERS | limit)
    await compliance.wait(days=2)
    (request,) = await compliance.requests()
    status, nodes = await compliance.place()
    if end is None:
        assert (status, nodes, request["status"]) == ("running", ["papers"], "pending")
    else:
        assert (status, request["status"]) == ("completed", "cancelled")


async def test_what_cannot_be_had_leaves_by_the_error_edge(compliance: Compliance) -> None:
    await start_with(compliance, PAPERS, {"from": "papers", "event": "error", "to": "late"})
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    await compliance.reject(passport, "SUSPECTED_ALTERATION")
    found = await compliance.instance()
    assert (found["status"], found["context_json"]["_last_error"]["code"]) == (
        "completed",
        "DOCUMENTS_BLOCKED",
    )


async def test_a_step_without_a_subject_is_an_incident(compliance: Compliance) -> None:
    await start_with(compliance, PAPERS, entity_id=" ")
    assert (await compliance.instance())["incident"]["code"] == "SUBJECT_MISSING"


async def test_messages_are_in_the_words_of_the_org(compliance: Compliance) -> None:
    async with compliance.database.transaction(None) as connection:
        await connection.execute(
            """UPDATE assent.orgs SET settings = '{"language": "de"}' WHERE org_id = 'acme'"""
        )
    words = {"de": {"client_message": "Der Ausweis ist unscharf.", "next_action": "Bitte neu aufnehmen."}}
    own = RejectionCode("UNREADABLE", "quality", "Blurred.", "OCR.", "Again.", translations=words)
    await compliance.by(LEAD).requirements.save_code(own)
    notified = PAPERS["on_fail"]["blocker"] | {
        "resolution": "(document.solicit :subject-entity-id $entity_id :doc-type passport :notify $email)"
    }
    await start_with(compliance, PAPERS | {"on_fail": {"blocker": notified}})
    (passport,) = await compliance.hand_in("passport")
    await compliance.work()
    await compliance.reject(passport, "UNREADABLE")
    effects = sorted(await rows(compliance.database, "effects"), key=lambda row: row["created_at"])
    letters = [row["payload"] for row in effects if row["org_id"] == ORG]
    assert [one["to"] for one in letters] == ["cy@mail.example"] * 2
    assert letters[-1]["text"] == "passport: Der Ausweis ist unscharf. Bitte neu aufnehmen."


PAPERS: dict[str, Any] = {
    "id": "papers",
    "type": "requirements",
    "requirements": [{"type": "document_exists", "document_type": "passport", "status": "verified"}],
    "on_fail": {
        "blocker": {
            "type": "MissingDocuments",
            "resolution": "(document.solicit :subject-entity-id $entity_id :doc-type passport)",
        }
    },
}


async def start_with(
    compliance: Compliance, step: dict[str, Any], *edges: dict[str, str], entity_id: str = "c-1"
) -> InstanceView:
    steps = [step, {"id": "done", "type": "terminal"}, {"id": "late", "type": "terminal"}]
    ways = [{"from": "papers", "event": "completed", "to": "done"}, *edges]
    unreached = not edges and "on_timeout" not in step
    await publish_steps(compliance.database, "papers", steps[:2] if unreached else steps, ways)
    return await compliance.by(RON).instances.start(
        "papers", {"entity_id": entity_id, "email": "cy@mail.example"}
    )
