"""What the database refuses even to the engine's role, which our own processes use: tried by plain SQL.

Another program has got hold of the role, or a process of ours has a bug. What stays possible with it is at the end,
so that nobody claims more than holds.
"""

from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import orjson
import pytest

from assent.app import App
from assent.model.canonical import canonical_hash
from tests.authored import invoice_contract
from tests.plain_sql import (
    CONSUMED,
    IDENTITY,
    NOT_APPROVED,
    NOT_BEHIND_ITS_GATE,
    NOT_BY_THE_DOOR,
    PRIVILEGE,
    check_deferred,
    refused,
)
from tests.rows import change, change_of, set_edit_windows, window, write_entities
from tests.world import (
    ANN,
    FIN,
    LARGE,
    ORG,
    SMALL,
    create_invoice,
    decide,
    drain,
    edit_invoice,
    entity_row,
    found_acme_with_invoices,
    patch_of,
    rows,
    submit_invoice,
)

ASK = {"id": "ask", "type": "approval", "approvers": {"user": "fin"}}
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
async def runtime(database):
    await found_acme_with_invoices(database, patch_of(ASK))
    return App([invoice_contract()]).runtime(database)


def hashes(data):
    content = {name: value for name, value in data.items() if name != "posted_at"}
    return {"data": data, "data_hash": canonical_hash(data), "content_hash": canonical_hash(content)}


def forged(entity, **given):
    """A change of an invoice as its own instance would write it, with the window that it has."""
    return change_of(entity, **hashes(given.pop("data", entity["data"])) | given)


async def as_engine(database, *changes):
    """Commit changes as the engine's role, for the org."""
    async with database.transaction(ORG) as connection:
        await write_entities(connection, *changes)


async def test_state_behind_a_gate_is_not_reached_while_the_request_is_pending(runtime, database):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await as_engine(database, forged(bill, state="active", written_by_instance=view.id, actor_id="fin"))
    assert caught.value.sqlstate == NOT_BEHIND_ITS_GATE
    assert "submitted to active" in str(caught.value)
    assert await entity_row(runtime, view.entity_id) == bill


@pytest.mark.parametrize("role", [ORG, None], ids=["engine", "owner"])
async def test_state_does_not_move_without_the_instance_of_the_entity(runtime, database, role):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    for instance in (None, uuid4()):
        with pytest.raises(asyncpg.PostgresError) as caught:
            async with database.transaction(role) as connection:
                await write_entities(
                    connection, forged(bill, state="cancelled", written_by_instance=instance)
                )
        assert caught.value.sqlstate == NOT_BEHIND_ITS_GATE


async def test_state_does_not_move_where_no_transition_of_the_contract_leads(runtime, database):
    draft = await create_invoice(runtime, LARGE)
    started = await runtime.org(ORG, ANN).entities.transition(draft.id, "submit")
    await edit_invoice(
        runtime, draft.id, grand_total=5
    )  # an amendment: it is `amended`, which only `submit` leaves
    await drain(runtime)
    bill = await entity_row(runtime, draft.id)
    assert bill["state"] == "amended"
    with pytest.raises(asyncpg.PostgresError) as caught:
        await as_engine(database, forged(bill, state="active", written_by_instance=started.id))
    assert (caught.value.sqlstate, "amended to active" in str(caught.value)) == (NOT_BEHIND_ITS_GATE, True)


async def test_entity_does_not_begin_in_another_state_than_its_contract_says(runtime, database):
    for version in (1, 2):  # of a contract that was published, and of one that never was
        born = change(state="active", contract_version=version, **hashes(LARGE))
        async with (
            database.transaction(ORG) as connection,
            refused(connection, NOT_BEHIND_ITS_GATE, saying="begins as draft"),
        ):
            await write_entities(connection, born)


async def consume(connection, instance_id):
    """As the engine would: the member who is asked says yes, and the approval is used up."""
    await connection.execute(
        "INSERT INTO assent.approval_decisions (org_id, id, request_id, seat_id, approver_id, decision,"
        " entity_version) SELECT s.org_id, gen_random_uuid(), s.request_id, s.id, s.user_id, 'approved', 1"
        " FROM assent.workflow_seats s WHERE s.instance_id = $1",
        instance_id,
    )
    await connection.execute(
        "UPDATE assent.approval_requests SET status = 'approved', decided_at = assent.now(),"
        " applied_at = assent.now() WHERE instance_id = $1",
        instance_id,
    )


async def test_approval_opens_the_gate_in_the_transaction_that_consumes_it_and_in_no_later_one(
    runtime, database
):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    passing = forged(bill, state="active", written_by_instance=view.id)
    async with database.transaction(ORG) as connection:
        await consume(connection, view.id)
    async with database.transaction(ORG) as connection, refused(connection, NOT_BEHIND_ITS_GATE):
        await write_entities(connection, passing)
        await check_deferred(connection)
    other = await submit_invoice(runtime)
    bill = await entity_row(runtime, other.entity_id)
    async with database.transaction(ORG) as connection:
        await consume(connection, other.id)
        await write_entities(connection, forged(bill, state="active", written_by_instance=other.id))
    assert (await entity_row(runtime, other.entity_id))["state"] == "active"


async def test_gate_stays_closed_while_another_approval_of_its_round_is_open(runtime, database):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    second = (
        "INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, slot, generation,"
        " entity_version, approvers, requested_by) SELECT org_id, gen_random_uuid(), instance_id, gen_random_uuid(),"
        " 'then', slot, generation, 0, '{}', 'ann' FROM assent.approval_requests WHERE instance_id = $1"
    )
    async with database.transaction(ORG) as connection, refused(connection, NOT_BEHIND_ITS_GATE):
        await consume(connection, view.id)
        await connection.execute(second, view.id)
        await write_entities(connection, forged(bill, state="active", written_by_instance=view.id))
        await check_deferred(connection)


async def test_transaction_that_consumes_is_the_databases_own_word(runtime, database):
    view = await submit_invoice(runtime)
    await decide(runtime, view, "ask", FIN)
    (request,) = await rows(database, "approval_requests")
    async with database.transaction(ORG) as connection:
        async with refused(connection, PRIVILEGE):
            await connection.execute("UPDATE assent.approval_requests SET applied_xid = pg_current_xact_id()")
        now = await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")
        assert int(request["applied_xid"]) < now
        made = await connection.fetchval(
            "INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, entity_version,"
            " approvers, requested_by, applied_xid)"
            " VALUES ($1, gen_random_uuid(), $2, gen_random_uuid(), 'ask', 0, '{}', 'ann', pg_current_xact_id())"
            " RETURNING applied_xid",
            ORG,
            view.id,
        )
        assert made is None


async def test_approval_of_another_entity_opens_no_gate(runtime, database):
    view, other = await submit_invoice(runtime), await submit_invoice(runtime)
    bill = await entity_row(runtime, other.entity_id)
    async with database.transaction(ORG) as connection, refused(connection, NOT_BEHIND_ITS_GATE):
        await consume(connection, view.id)
        await write_entities(connection, forged(bill, state="active", written_by_instance=other.id))
        await check_deferred(connection)


async def test_gate_opens_without_an_approval_where_a_step_of_the_round_waived_it(database):
    """The design's patch: a small amount of a trusted vendor goes by the lane that waives, a large one does not."""
    await found_acme_with_invoices(database)
    runtime = App([invoice_contract()]).runtime(database)
    small, large = await submit_invoice(runtime, SMALL), await submit_invoice(runtime, LARGE)
    assert (await entity_row(runtime, small.entity_id))["state"] == "active"
    bill = await entity_row(runtime, large.entity_id)
    async with database.transaction(ORG) as connection, refused(connection, NOT_BEHIND_ITS_GATE):
        await write_entities(connection, forged(bill, state="active", written_by_instance=large.id))
        await check_deferred(connection)


async def test_content_is_not_swapped_under_the_hash_that_approvers_approve(runtime, database):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    swapped = forged(bill, data={**bill["data"], "grand_total": 999}, written_by_instance=view.id)
    async with (
        database.transaction(ORG) as connection,
        refused(connection, NOT_BY_THE_DOOR, saying="content hash"),
    ):
        await write_entities(connection, swapped | {"content_hash": bill["content_hash"]})
    assert (await entity_row(runtime, view.entity_id))["data"] == bill["data"]


async def test_content_is_not_swapped_by_a_contract_version_that_nobody_published(runtime, database):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    swapped = forged(bill, data={**bill["data"], "grand_total": 999}, contract_version=99)
    async with (
        database.transaction(ORG) as connection,
        refused(connection, "AS006", saying="lives by version 1 of its contract"),
    ):
        await write_entities(connection, swapped | {"content_hash": bill["content_hash"]})


async def test_fields_of_the_workflow_change_under_the_same_content_hash(runtime, database):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    noted = {**bill["data"], "posted_at": "2026-03-02T09:00:00Z"}
    await as_engine(database, forged(bill, data=noted, written_by_instance=view.id))
    found = await entity_row(runtime, view.entity_id)
    assert (found["data"], found["content_hash"]) == (noted, bill["content_hash"])
    assert [request["status"] for request in await rows(database, "approval_requests")] == ["pending"]


async def test_request_shows_the_content_that_it_is_about(runtime, database):
    """An approver who is shown another version than the one that is approved approves nothing."""
    view = await submit_invoice(runtime)
    old = await entity_row(runtime, view.entity_id)
    await edit_invoice(runtime, view.entity_id, grand_total=999)
    new = await entity_row(runtime, view.entity_id)
    ask = (
        "INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, entity_type,"
        " entity_id, entity_version, snapshot_version_id, content_hash, approvers, requested_by)"
        " VALUES ($1, gen_random_uuid(), $2, gen_random_uuid(), 'ask', 'invoice', $3, $4, $5, $6, '{}', 'ann')"
    )
    for version, shown, hashed in ((old, old, new), (new, new, old), (new, old, new)):
        async with (
            database.transaction(ORG) as connection,
            refused(connection, CONSUMED, saying="another content"),
        ):
            await connection.execute(
                ask,
                ORG,
                view.id,
                view.entity_id,
                version["version"],
                shown["version_id"],
                hashed["content_hash"],
            )


async def test_window_does_not_become_looser_than_the_state_allows(runtime, database):
    view = await submit_invoice(runtime)
    bill = await entity_row(runtime, view.entity_id)
    for ended in (False, True):
        looser = window(bill, {"id": view.id}, "editable", ended=ended)
        async with (
            database.transaction(ORG) as connection,
            refused(connection, NOT_BY_THE_DOOR, saying="looser than its state"),
        ):
            await set_edit_windows(connection, looser)
    async with database.transaction(ORG) as connection:
        await set_edit_windows(connection, window(bill, {"id": view.id}, "locked"))


@pytest.mark.parametrize(
    "rewritten",
    [
        "output_json = '{}'",
        "output_json = NULL",
        'output_json = output_json || \'{"outcome": "rejected"}\'',
        "output_json = output_json || '{\"evidence\": {}}'",
        "error = 'another story'",
        "completed_at = '2001-01-01'",
        "duration_ms = 1",
        "applied = false",
    ],
)
@pytest.mark.parametrize("role", [ORG, None], ids=["engine", "owner"])
async def test_what_came_of_an_ended_step_only_gains_evidence(runtime, database, role, rewritten):
    view = await submit_invoice(runtime)
    await decide(runtime, view, "ask", FIN)
    told = "UPDATE assent.workflow_step_executions SET output_json = output_json || $1::jsonb"
    async with database.transaction(ORG) as connection:
        await connection.execute(
            f"{told} WHERE node_id LIKE 'usr:%'", {"evidence": {"mail-1": {"status": 250}}}
        )
    async with database.transaction(role) as connection, refused(connection, IDENTITY, saying="has ended"):
        await connection.execute(
            f"UPDATE assent.workflow_step_executions SET {rewritten} WHERE node_id LIKE 'usr:%'"  # noqa: S608
        )
    async with database.transaction(ORG) as connection:
        more = {"evidence": {"mail-1": {"status": 250}, "mail-2": {"status": 250}}}
        await connection.execute(f"{told} WHERE node_id LIKE 'usr:%'", more)


async def test_evidence_of_a_later_attempt_takes_the_place_of_an_earlier_ones_by_workers_only(
    runtime, database
):
    """A dead letter that is sent again: the same effect, with what came of it in the end."""
    await decide(runtime, await submit_invoice(runtime), "ask", FIN)
    told = (
        "UPDATE assent.workflow_step_executions SET output_json = output_json || $1::jsonb"
        " WHERE node_id LIKE 'usr:%'"
    )
    dead, sent = {"evidence": {"mail-1": {"status": 550}}}, {"evidence": {"mail-1": {"status": 250}}}
    async with database.transaction(ORG) as connection:
        await connection.execute(told, dead)
        async with refused(connection, IDENTITY, saying="has ended"):
            await connection.execute(told, sent)
    async with database.transaction(None) as connection:
        await connection.execute(told, sent)


async def test_engine_does_not_compact_what_the_owner_may(runtime, database):
    await decide(runtime, await submit_invoice(runtime), "ask", FIN)
    compact = (
        "UPDATE assent.workflow_step_executions SET output_json = '{\"compacted\": true}' WHERE org_id = $1"
    )
    async with database.transaction(ORG) as connection, refused(connection, IDENTITY):
        await connection.execute(compact, ORG)
    async with database.transaction(None) as connection:
        await connection.execute(compact, ORG)


def command(**given):
    blank = {
        "org_id": ORG,
        "id": uuid4(),
        "at": LONG_AGO,
        "actor_id": "admin",
        "actor_kind": "user",
        "actor_roles": ["admin"],
        "action": "instance.cancel",
        "subject_kind": "instance",
        "subject_id": str(uuid4()),
        "channel": "http",
    }
    return blank | given


async def test_audit_entries_are_dated_by_the_database_and_name_the_login_that_wrote_them(
    runtime, database, clock
):
    bill = await create_invoice(runtime, LARGE)
    row = await entity_row(runtime, bill.id)
    async with database.transaction(ORG) as connection:
        await connection.execute("SELECT assent.note_commands($1::jsonb)", [command()])
        await write_entities(connection, forged(row, data={**row["data"], "number": "2"}, at=LONG_AGO))
        acting = orjson.dumps({"actor_id": "admin", "actor_kind": "user", "at": "2001-01-01"}).decode()
        await connection.execute("SELECT set_config('assent.acting', $1, true)", acting)
        await connection.execute("UPDATE assent.members SET email = 'x@y' WHERE user_id = 'ann'")
        login = await connection.fetchval("SELECT session_user")
    entries = await rows(database, "audit_log")
    assert {entry["at"] for entry in entries} == {clock.now()}
    assert {entry["database_role"] for entry in entries} == {login}


async def test_envelopes_are_not_published_by_the_engine_in_the_name_of_all_orgs(runtime, database):
    async with (
        database.transaction("*") as connection,
        refused(connection, PRIVILEGE, saying="row-level security"),
    ):
        await connection.execute(
            "INSERT INTO assent.workflow_definitions (org_id, id, definition_kind, key, version, entity_type, name,"
            " status, is_default, nodes_json, edges_json, slots_json, source_json)"
            " SELECT '*', gen_random_uuid(), 'envelope', key, 7, entity_type, name, status, true, '[]', '[]', '[]',"
            " source_json FROM assent.workflow_definitions WHERE definition_kind = 'envelope'"
        )


async def test_walls_of_a_definition_are_the_databases_own(runtime, database):
    """An org's definition is the engine's to publish; which contract it is bound to is read from it."""
    async with database.transaction(ORG) as connection:
        forged_walls = await connection.fetchval(
            "INSERT INTO assent.workflow_definitions (org_id, id, definition_kind, key, version, entity_type, name,"
            " nodes_json, edges_json, compiled_json, compiled_hash, compiler_version, walls)"
            " SELECT org_id, gen_random_uuid(), definition_kind, 'another', 1, entity_type, name, nodes_json,"
            " edges_json, compiled_json, compiled_hash, compiler_version, '{\"envelope_version\": 7}'"
            " FROM assent.workflow_definitions WHERE org_id = $1 AND definition_kind = 'effective' RETURNING walls",
            ORG,
        )
    assert forged_walls == {"envelope_version": 1, "waives": []}


# What stays possible with the engine's role: it speaks for people, since it is what people speak through.


async def test_engine_gives_a_decision_in_the_name_of_a_member_who_was_asked_and_of_nobody_else(
    runtime, database
):
    await submit_invoice(runtime)
    give = (
        "INSERT INTO assent.approval_decisions (org_id, id, request_id, seat_id, approver_id, decision, entity_version)"
        " SELECT s.org_id, gen_random_uuid(), s.request_id, s.id, $1, 'approved', 1 FROM assent.workflow_seats s"
    )
    approve = "UPDATE assent.approval_requests SET status = 'approved', decided_at = assent.now()"
    async with database.transaction(ORG) as connection:
        async with refused(connection, NOT_APPROVED):
            await connection.execute(approve)
        for stranger in ("ann", "max", "mallory"):
            async with refused(connection, "AS010"):
                await connection.execute(give, stranger)
        assert await connection.execute(give, "fin") == "INSERT 0 1"
        assert await connection.execute(approve) == "UPDATE 1"


async def test_engine_ends_an_instance_and_inserts_steps(runtime, database):
    view = await submit_invoice(runtime)
    async with database.transaction(ORG) as connection:
        ended = "UPDATE assent.workflow_instances SET status = 'completed', completed_at = assent.now() WHERE id = $1"
        assert await connection.execute(ended, view.id) == "UPDATE 1"
