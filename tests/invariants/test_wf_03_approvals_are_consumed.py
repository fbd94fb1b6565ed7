"""WF-03: an approval is about one version, is used up once by the gate, and an edit makes it void."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.model.actor import Actor
from assent.model.mutation import Command, Refused
from assent.runtime import InstanceView, Runtime
from assent.store.database import Connection, Database
from tests.authored import invoice_contract
from tests.plain_sql import CONSUMED, NOT_APPROVED, refused
from tests.postgres import past_the_guards
from tests.processes.application import app as processes
from tests.processes.application import keep_calls
from tests.processes.spawn import closed_gate, wait_until_blocked
from tests.rows import insert_request_about, read_entity
from tests.world import (
    ANN,
    BEA,
    FAY,
    FIN,
    MIDDLE,
    ORG,
    create_invoice,
    decide,
    drain,
    edit_invoice,
    entity_row,
    found_acme_with_invoices,
    patch_of,
    request_id,
    rows,
    steps_of,
    submit_invoice,
)

ASK = {"id": "ask", "type": "approval", "approvers": {"user": "fin"}}
HOLD = {"id": "hold", "type": "system", "operation": {"sdk": "tests.gate"}, "input": {"what": "'slot'"}}


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    app = App([invoice_contract()])
    app.operations |= processes.operations
    return app.runtime(database)


async def one_request(database: Database) -> dict[str, Any]:
    (found,) = await rows(database, "approval_requests")
    return found


async def test_an_approval_is_consumed_once(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    await decide(runtime, view, "ask", FIN)
    request = await one_request(database)
    async with database.transaction(None) as connection, refused(connection, CONSUMED):
        await connection.execute(
            "UPDATE assent.approval_requests SET applied_at = assent.now() + interval '1 s' WHERE org_id = 'acme'"
        )
    async with database.transaction(None) as connection, refused(connection, CONSUMED):
        await connection.execute(
            "UPDATE assent.approval_requests SET applied_at = NULL WHERE org_id = 'acme'"
        )
    (gate,) = [s for s in await steps_of(database, view.id) if s["node_id"] == "sys:gate:approve"]
    assert gate["output_json"]["consumed"] == [str(request["id"])]


async def test_a_gate_does_not_pass_with_an_approval_that_was_consumed(
    runtime: Runtime, database: Database
) -> None:
    """Somebody with too many rights marks it as used while the token is on its way to the gate."""
    await found_acme_with_invoices(database, patch_of(ASK, HOLD))
    view = await submit_invoice(runtime)
    async with closed_gate(database) as observer:
        deciding = asyncio.create_task(decide(runtime, view, "ask", FIN))
        await wait_until_blocked(observer, 1)
        assert (await one_request(database))["status"] == "pending"
    assert (await deciding).status == "completed"
    again = await submit_invoice(runtime)
    await _consume_behind_its_back(runtime, database, again)
    assert (await entity_row(runtime, again.entity_id))["state"] == "submitted"


async def test_a_gate_passes_with_all_of_its_approvals_or_not_at_all(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(
        database, patch_of(ASK, {**ASK, "id": "then", "approvers": {"user": "bea"}})
    )
    view = await decide(runtime, await submit_invoice(runtime), "ask", FIN)
    await _consume_behind_its_back(runtime, database, view, "then", BEA)
    assert (await entity_row(runtime, view.entity_id))["state"] == "submitted"
    assert {r["node_name"]: r["applied_at"] for r in await rows(database, "approval_requests")} == {
        "ask": None,
        "then": None,
    }


async def _consume_behind_its_back(
    runtime: Runtime, database: Database, view: InstanceView, step: str = "ask", who: Actor = FIN
) -> None:
    async with database.transaction(None) as connection:
        await connection.execute(
            "CREATE FUNCTION assent.consume() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.status = 'approved' THEN NEW.applied_at := assent.now(); END IF; RETURN NEW; END $$"
        )
        await connection.execute(
            "CREATE TRIGGER a_consume BEFORE UPDATE ON assent.approval_requests"
            " FOR EACH ROW WHEN (OLD.status = 'pending') EXECUTE FUNCTION assent.consume()"
        )
    with pytest.raises(Exception, match="was void or consumed before"):
        await decide(runtime, view, step, who)


async def test_no_gate_without_an_approval_where_the_contract_requires_one(
    runtime: Runtime, database: Database
) -> None:
    """Somebody with too many rights puts the token before the gate: what is asked for there is not there."""
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    await put_before_the_gate(database)
    await assert_that_the_gate_stays_shut(runtime, view)


async def test_a_waiver_of_an_earlier_round_opens_no_gate(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    (request,) = await rows(database, "approval_requests")
    await put_before_the_gate(database, _waived=request["generation"] - 1)
    await assert_that_the_gate_stays_shut(runtime, view)


async def test_an_approval_of_another_slot_opens_no_gate(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    (request,) = await rows(database, "approval_requests")
    async with database.transaction(None) as connection:
        entity = await read_entity(connection, ORG, view.entity_id)
        about = {"instance_id": view.id, "generation": request["generation"], "status": "approved"}
        # Its time was over, and that was its default.
        at = request["created_at"].isoformat()
        about["approvers"] = {**request["approvers"], "default": {"status": "approved", "at": at}}
        about["decided_at"] = request["created_at"]
        await insert_request_about(connection, entity, **about, slot="slot:draft_to_submit", node_id="usr:it")
    await put_before_the_gate(database)
    await assert_that_the_gate_stays_shut(runtime, view)


async def put_before_the_gate(database: Database, **context: Any) -> None:
    async with database.transaction(None) as connection:
        (token,) = await connection.fetchval(
            "SELECT active_tokens FROM assent.workflow_instances WHERE org_id = 'acme'"
        )
        moved = {key: token[key] for key in ("id", "version", "carry", "authority")}
        moved |= {"node": "sys:gate:approve", "state": "ready"}
        await connection.execute(
            "UPDATE assent.workflow_instances SET active_tokens = $1::jsonb, context_json = context_json || $2::jsonb"
            " WHERE org_id = 'acme'",
            [moved],
            context,
        )


async def assert_that_the_gate_stays_shut(runtime: Runtime, view: InstanceView) -> None:
    with pytest.raises(Refused, match="WORKFLOW_NOT_ACTIVE"):
        await runtime.org(ORG, FIN).instances.advance(view.id, "approved")
    (instance,) = await rows(runtime.database, "workflow_instances")
    assert (instance["status"], instance["incident"]["code"]) == ("paused", "APPROVAL_MISSING")
    assert (await entity_row(runtime, view.entity_id))["state"] == "submitted"


async def test_an_approval_that_nobody_gave_is_not_written_by_plain_sql(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(
        database, patch_of({**ASK, "mode": "all", "approvers": {"role": "finance_manager"}})
    )
    view = await submit_invoice(runtime)
    await decide(runtime, view, "ask", FIN)
    approve = "UPDATE assent.approval_requests SET status = 'approved', decided_at = assent.now() WHERE org_id = 'acme'"
    for org_id in (ORG, None):
        async with database.transaction(org_id) as connection, refused(connection, NOT_APPROVED):
            await connection.execute(approve)
    done = await decide(runtime, view, "ask", FAY)
    assert done.status == "completed"


async def test_an_approval_of_another_content_is_not_consumed_by_plain_sql(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(
        database, patch_of(ASK, {**ASK, "id": "then", "approvers": {"user": "bea"}})
    )
    view = await submit_invoice(runtime)
    await decide(runtime, view, "ask", FIN)
    async with past_the_guards(database.url) as connection:
        await connection.execute("UPDATE assent.entities SET content_hash = 'other' WHERE org_id = 'acme'")
    async with database.transaction(None) as connection, refused(connection, CONSUMED):
        await connection.execute(
            "UPDATE assent.approval_requests SET applied_at = assent.now()"
            " WHERE org_id = 'acme' AND status = 'approved'"
        )


async def test_an_edit_that_is_under_way_makes_the_approval_wait_and_then_void(
    runtime: Runtime, database: Database
) -> None:
    """Edit first: the approver's decision waits for its lock, and is refused when the edit has committed."""
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    changed = Command(ORG, "invoice.update", ANN, {"grand_total": 9}, view.entity_id)
    async with database.transaction(None) as observer:
        async with database.transaction(ORG) as connection:
            await runtime.core.kernel.mutate_in(connection, [changed])
            deciding = asyncio.create_task(decide(runtime, view, "ask", FIN))
            await wait_until_blocked(observer, 1)
        with pytest.raises(Refused, match="APPROVAL_VOID"):
            await deciding
    await drain(runtime)
    assert (await entity_row(runtime, view.entity_id))["state"] == "amended"
    assert (await one_request(database))["status"] == "void"


async def test_an_approval_that_is_under_way_makes_the_edit_wait_and_then_be_refused(
    runtime: Runtime, database: Database
) -> None:
    """Approval first: it holds the instance's lock on its way to the gate, and what it passes is what was approved."""
    await found_acme_with_invoices(database, patch_of(ASK, HOLD))
    view = await submit_invoice(runtime)
    async with closed_gate(database) as observer:
        deciding = asyncio.create_task(decide(runtime, view, "ask", FIN))
        await wait_until_blocked(observer, 1)
        editing = asyncio.create_task(edit_invoice(runtime, view.entity_id, grand_total=9))
        await wait_until_blocked(observer, 2)
    assert (await deciding).status == "completed"
    with pytest.raises(Refused, match="WORKFLOW_EDIT_LOCKED"):
        await editing
    assert (await entity_row(runtime, view.entity_id))["data"]["grand_total"] == 2_000_000


async def test_an_approval_given_before_an_edit_does_not_open_the_gate_after_it(
    runtime: Runtime, database: Database
) -> None:
    """One of two has approved; then somebody edits; the other's approval finds nothing to complete."""
    await found_acme_with_invoices(database)
    view = await submit_invoice(runtime)
    await decide(runtime, view, "finance", FIN)
    await edit_invoice(runtime, view.entity_id, grand_total=2_500_000)
    with pytest.raises(Refused, match="APPROVAL_VOID"):
        await decide(runtime, view, "budget", BEA)
    assert (await entity_row(runtime, view.entity_id))["state"] == "amended"


async def test_whoever_is_faster_nobody_passes_with_content_that_nobody_approved(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database, patch_of(ASK))
    views = [await submit_invoice(runtime, {**MIDDLE, "number": str(number)}) for number in range(12)]

    async def both(view: InstanceView, approve_first: bool) -> None:
        tasks = [decide(runtime, view, "ask", FIN), edit_invoice(runtime, view.entity_id, grand_total=80_000)]
        await asyncio.gather(*(tasks if approve_first else reversed(tasks)), return_exceptions=True)

    await asyncio.gather(*(both(view, number % 2 == 0) for number, view in enumerate(views)))
    await drain(runtime)
    for view in views:
        await _check_what_was_passed(runtime, database, view)


async def _check_what_was_passed(runtime: Runtime, database: Database, view: InstanceView) -> None:
    found = await entity_row(runtime, view.entity_id)
    (request,) = [r for r in await rows(database, "approval_requests") if r["instance_id"] == view.id]
    versions = {row["id"]: row["data"] for row in await rows(database, "entity_versions")}
    if found["state"] == "active":
        assert request["applied_at"] is not None
        assert versions[request["snapshot_version_id"]] == found["data"]
    else:
        assert (found["state"], request["status"]) == ("amended", "void")


async def test_a_request_survives_in_the_record_with_what_it_was_about(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database, patch_of(ASK))
    entity = await create_invoice(runtime, MIDDLE)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    first = request_id(view, "ask")
    await edit_invoice(runtime, entity.id, grand_total=80_000)
    await drain(runtime)
    async with database.transaction(ORG) as connection:
        assert await _asked_about(connection, first) == 70_000


async def _asked_about(connection: Connection, request: UUID) -> int:
    found: int = await connection.fetchval(
        "SELECT (v.data ->> 'grand_total')::int FROM assent.approval_requests r"
        " JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id WHERE r.id = $1",
        request,
    )
    return found
