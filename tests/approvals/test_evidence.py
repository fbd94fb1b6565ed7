"""Who approved what, exactly: one row per decision, with the version, its hashes and what became of it."""

from datetime import timedelta
from uuid import UUID

from assent.approvals import decisions_of_entity, decisions_of_request
from tests.postgres import START
from tests.rows import (
    change_of,
    insert_decision,
    insert_entity,
    insert_request,
    insert_request_about,
    insert_seat,
    read_entity,
    update,
    write_entities,
)

STEP = UUID("00000000-0000-7000-8000-000000000001")
GATE = UUID("00000000-0000-7000-8000-000000000002")
DAY = timedelta(days=1)
EDITED = {"number": "1", "grand_total": 999}


async def _decide(connection, request, approver_id, **given):
    seat = await insert_seat(connection, request, user_id=given.get("on_behalf_of") or approver_id)
    columns = {
        "request_id": request["id"],
        "seat_id": seat["id"],
        "entity_version": request["entity_version"],
    }
    return await insert_decision(connection, approver_id=approver_id, **columns | given)


async def _history(connection):
    """A version that was approved and edited, and the next, which was approved by a stand-in and applied."""
    entity = await insert_entity(connection, state="submitted", actor_id="ann")
    first = await insert_request_about(connection, entity, step_id=STEP, node_name="Finance")
    await _decide(connection, first, "fay", reason="looks right", decided_at=START)
    await write_entities(connection, change_of(entity, data=EDITED, actor_id="flo"))
    entity = await read_entity(connection, "acme", entity["id"])
    second = await insert_request_about(connection, entity, step_id=STEP)
    await _decide(connection, second, "cal", on_behalf_of="fay", decided_at=START + 2 * DAY)
    await _decide(connection, second, "fin", decision="abstained", decided_at=START + DAY)
    applied = {"status": "approved", "applied_at": START + 3 * DAY, "applied_step_id": GATE}
    await update(connection, "approval_requests", second, **applied)
    return entity, first, second


async def test_decisions_of_one_moment_are_on_one_page_or_the_next(acme):
    entity = await insert_entity(acme, state="submitted", actor_id="ann")
    request = await insert_request_about(acme, entity, step_id=STEP)
    for approver in ("cal", "fay", "fin"):
        await _decide(acme, request, approver, decided_at=START)
    whole = await decisions_of_entity(acme, "acme", entity["id"])
    pages = [whole[0]]
    while page := await decisions_of_entity(
        acme, "acme", entity["id"], after=(pages[-1].decided_at, pages[-1].decision_id), limit=1
    ):
        pages += page
    assert [one.approver_id for one in pages] == [one.approver_id for one in whole]
    assert len(pages) == 3


async def test_every_decision_about_an_entity_is_told_in_order(acme):
    entity, first, second = await _history(acme)
    found = await decisions_of_entity(acme, "acme", entity["id"])
    assert [(e.approver_id, e.on_behalf_of, e.answer, e.request_id) for e in found] == [
        ("fay", None, "approved", first["id"]),
        ("fin", None, "abstained", second["id"]),
        ("cal", "fay", "approved", second["id"]),
    ]


async def test_decision_says_why_when_how_and_what_became_of_its_request(acme):
    entity, first, _ = await _history(acme)
    voided, _, applied = await decisions_of_entity(acme, "acme", entity["id"])
    assert (voided.reason, voided.decided_at, voided.via) == ("looks right", START, "user")
    assert (voided.node_name, voided.step_id, voided.requested_by) == ("Finance", STEP, "ann")
    assert (voided.status, voided.status_reason) == ("void", "edited: version 2")
    assert (voided.applied_at, voided.applied_step_id) == (None, None)
    assert (applied.status, applied.applied_at, applied.applied_step_id) == (
        "approved",
        START + 3 * DAY,
        GATE,
    )
    assert voided.asked_at == first["created_at"]


async def test_decision_shows_the_version_that_was_decided_on_and_not_what_came_after(acme):
    entity, _, _ = await _history(acme)
    before, _, after = await decisions_of_entity(acme, "acme", entity["id"])
    assert (before.entity_version, before.snapshot["grand_total"], before.written_by) == (1, 100, "ann")
    assert (after.entity_version, after.snapshot, after.written_by) == (2, EDITED, "flo")
    assert (after.content_hash, after.snapshot_hash) == (entity["content_hash"], entity["data_hash"])
    assert before.content_hash != after.content_hash
    assert (after.state, after.entity_type, after.entity_id) == ("submitted", "invoice", entity["id"])
    assert before.is_intact
    assert after.is_intact


async def test_snapshot_that_somebody_tampered_with_is_not_intact(staffed):
    async with staffed.transaction(None) as owner:
        entity, _, _ = await _history(owner)
        await owner.execute("ALTER TABLE assent.entity_versions DISABLE TRIGGER USER")
        await owner.execute(
            "UPDATE assent.entity_versions SET data = data || '{\"grand_total\": 1}' WHERE org_id = 'acme'"
        )
        assert {found.is_intact for found in await decisions_of_entity(owner, "acme", entity["id"])} == {
            False
        }


async def test_decisions_on_one_request_are_told_alone(acme):
    _, first, second = await _history(acme)
    assert [e.approver_id for e in await decisions_of_request(acme, "acme", first["id"])] == ["fay"]
    assert [e.approver_id for e in await decisions_of_request(acme, "acme", second["id"])] == ["fin", "cal"]


async def test_answer_of_the_nodes_own_is_told_by_its_name(acme):
    request = await insert_request(acme)
    await _decide(acme, request, "fay", decision="returned", outcome="more_information")
    (found,) = await decisions_of_request(acme, "acme", request["id"])
    assert (found.answer, found.outcome) == ("returned", "more_information")


async def test_decision_in_a_flow_without_an_entity_has_no_snapshot(acme):
    request = await insert_request(acme)
    await _decide(acme, request, "fay")
    (found,) = await decisions_of_request(acme, "acme", request["id"])
    assert (found.entity_id, found.snapshot, found.content_hash, found.is_intact) == (None, None, None, True)
    assert found.node_name == request["node_id"]


async def test_request_that_nobody_answered_is_no_evidence(acme):
    entity = await insert_entity(acme)
    await insert_request_about(acme, entity)
    assert await decisions_of_entity(acme, "acme", entity["id"]) == []


async def test_evidence_of_another_org_is_not_told(staffed):
    async with staffed.transaction("acme") as connection:
        entity, first, _ = await _history(connection)
    async with staffed.transaction("globex") as connection:
        assert await decisions_of_entity(connection, "globex", entity["id"]) == []
        assert await decisions_of_request(connection, "globex", first["id"]) == []
    async with staffed.transaction(None) as connection:
        assert await decisions_of_entity(connection, "globex", entity["id"]) == []


async def test_evidence_is_one_statement_however_much_there_is(staffed, statement_counter):
    async with staffed.transaction("acme") as connection:
        entity, _, _ = await _history(connection)
        await decisions_of_entity(connection, "acme", entity["id"])
        statement_counter.clear()
        assert len(await decisions_of_entity(connection, "acme", entity["id"])) == 3
        assert len(statement_counter) == 1
