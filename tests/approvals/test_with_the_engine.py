"""People and their answers in real workflows: who finds what in the inbox, who stands in, and what the record says."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from assent.approvals import decisions_of_entity, decisions_of_request, keep_chain
from assent.people import (
    InboxPage,
    InboxQuery,
    KeptDelegation,
    MembersDirectory,
    NewDelegation,
    count_inbox,
    delegate,
    read_inbox,
)
from assent.store.database import Database
from tests.world import (
    ANN,
    BEA,
    FAY,
    FIN,
    LARGE,
    ORG,
    decide,
    drain,
    edit_invoice,
    found_acme_with_invoices,
    patch_of,
    publish_steps,
    request_id,
    rows,
    steps_of,
    submit_invoice,
)

ASK = {"id": "ask", "type": "approval", "approvers": {"role": "finance_manager"}, "due": "24h"}


async def _inbox(database: Database, user_id: str, **given: Any) -> tuple[Any, ...]:
    async with database.transaction(ORG) as connection:
        page = await read_inbox(connection, ORG, user_id, InboxQuery(**given), database.clock.now())
    assert isinstance(page, InboxPage), page
    return page.items


async def _lend(database: Database, from_user: Any, to_user: str, **given: Any) -> None:
    async with database.transaction(ORG) as connection:
        wanted = NewDelegation(ORG, from_user.id, to_user, **given)
        kept = await delegate(connection, MembersDirectory(), wanted, from_user, database.clock.now())
    assert isinstance(kept, KeptDelegation), kept


async def test_question_is_in_the_inbox_of_all_who_are_asked_until_one_answers(runtime, database):
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    for name in ("fin", "fay"):
        (item,) = await _inbox(database, name)
        assert (item.node_name, item.bucket, item.workflow) == ("ask", "roles", "invoice")
        assert (item.entity_id, item.state, item.requested_by) == (view.entity_id, "submitted", "ann")
        assert (item.figure, item.due_at - item.asked_at) == (
            Decimal(LARGE["grand_total"]),
            timedelta(days=1),
        )
    await decide(runtime, view, "ask", FIN)
    assert await _inbox(database, "fin") == await _inbox(database, "fay") == ()


async def test_edit_takes_the_question_back_and_the_next_asks_about_the_new_version(runtime, database):
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    (before,) = await _inbox(database, "fin")
    await edit_invoice(runtime, view.entity_id, grand_total=2_100_000)
    assert await _inbox(database, "fin") == ()
    await drain(runtime)
    await runtime.org(ORG, ANN).entities.transition(view.entity_id, "submit")
    (after,) = await _inbox(database, "fin")
    assert (after.figure, after.version > before.version) == (Decimal(2_100_000), True)


async def test_stand_in_finds_and_answers_and_both_names_are_on_record(runtime, database, clock):
    await found_acme_with_invoices(database, patch_of(ASK | {"approvers": {"user": "fin"}}))
    await _lend(database, FIN, "fay", ends_at=clock.now() + timedelta(days=2))
    view = await submit_invoice(runtime)
    (item,) = await _inbox(database, "fay")
    assert (item.bucket, item.on_behalf_of) == ("delegated", "fin")
    await decide(runtime, view, "ask", FAY, reason="checked")
    async with database.transaction(ORG) as connection:
        (found,) = await decisions_of_entity(connection, ORG, view.entity_id)
    assert (found.approver_id, found.on_behalf_of, found.reason) == ("fay", "fin", "checked")


async def test_delegation_that_has_ended_shows_nothing(runtime, database, clock):
    await found_acme_with_invoices(database, patch_of(ASK | {"approvers": {"user": "fin"}}))
    await _lend(database, FIN, "fay", ends_at=clock.now() + timedelta(hours=1))
    await submit_invoice(runtime)
    assert len(await _inbox(database, "fay")) == 1
    clock.advance(timedelta(hours=1))
    assert await _inbox(database, "fay") == ()


async def test_evidence_names_the_gate_that_used_the_approval_up(runtime, database):
    await found_acme_with_invoices(database, patch_of(ASK))
    view = await submit_invoice(runtime)
    asked = request_id(view, "ask")
    await decide(runtime, view, "ask", FIN)
    (gate,) = [s for s in await steps_of(database, view.id) if s["node_id"] == "sys:gate:approve"]
    async with database.transaction(ORG) as connection:
        (found,) = await decisions_of_request(connection, ORG, asked)
    assert (found.node_name, found.status, found.applied_step_id) == ("ask", "approved", gate["id"])
    assert (found.snapshot["grand_total"], found.is_intact) == (LARGE["grand_total"], True)


async def test_evidence_of_a_flow_names_the_step_itself(runtime, database):
    await found_acme_with_invoices(database)
    ends = [{"id": name, "type": "terminal"} for name in ("approved", "rejected")]
    steps = [{"id": "ok", "type": "approval", "assignee": {"user": "bea"}}, *ends]
    arrows = [{"from": "ok", "event": end["id"], "to": end["id"]} for end in ends]
    await publish_steps(database, "leave", steps, arrows)
    view = await runtime.org(ORG, ANN).instances.start("leave")
    asked = request_id(view, "ok")
    await runtime.org(ORG, BEA).approvals.decide(asked, "approved")
    async with database.transaction(ORG) as connection:
        (found,) = await decisions_of_request(connection, ORG, asked)
    assert (found.applied_step_id, found.applied_at) == (found.step_id, database.clock.now())


async def test_instances_ask_the_people_of_a_role_in_turn(runtime, database):
    role = {"role": "finance_manager", "pick": "round_robin"}
    await found_acme_with_invoices(database, patch_of(ASK | {"approvers": role}))
    for _ in range(4):
        await submit_invoice(runtime)
    assert [(await _counted(database, name)) for name in ("fay", "fin")] == [2, 2]


async def _counted(database: Database, user_id: str) -> int:
    async with database.transaction(ORG) as connection:
        return (await count_inbox(connection, ORG, user_id, database.clock.now())).roles.open


async def test_chain_asks_one_after_the_other(runtime, database):
    await found_acme_with_invoices(database, patch_of(ASK | {"approvers": {"chain": "large"}}))
    steps = [
        {"name": "finance", "approvers": {"role": "finance_manager"}},
        {"name": "budget", "approvers": {"user": "bea"}},
    ]
    async with database.transaction(ORG) as connection:
        await keep_chain(connection, ORG, {"chain": "large", "steps": steps}, database.clock.now())
    view = await submit_invoice(runtime)
    assert [len(await _inbox(database, name)) for name in ("fin", "bea")] == [1, 0]
    await decide(runtime, view, "ask", FIN)
    assert [len(await _inbox(database, name)) for name in ("fin", "bea")] == [0, 1]
    await runtime.org(ORG, BEA).approvals.decide(request_id(view, "ask"), "approved")
    (request,) = await rows(database, "approval_requests")
    assert (request["status"], request["chain_id"] is not None) == ("approved", True)
