"""What the use cases leave behind: the evidence that an auditor would look for, which scenarios do not show."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from assent.model.mutation import Command, Entity
from assent.runtime import InstanceView
from assent.testing import Sandbox
from tests.scenarios.application import app
from tests.world import effects, rows, steps_of

LARGE = {"number": "1", "vendor_id": "v-9", "grand_total": 2_000_000, "currency": "EUR", "cost_center": "R&D"}
TERMS = {"supplier_id": "s-1", "owner_id": "kat", "value": 5000, "currency": "EUR", "terms": "thirty days"}


@pytest.fixture
async def sandbox(postgres_url: str) -> AsyncIterator[Sandbox]:
    async with Sandbox(app, server=postgres_url) as sandbox:
        yield sandbox


async def do(
    sandbox: Sandbox, who: str, action: str, data: Mapping[str, Any], of: UUID | None = None
) -> Entity:
    command = Command(sandbox.org_id, action, await sandbox.actor(who), data, of)
    return (await sandbox.runtime.core.kernel.mutate(command)).entity


async def submit(sandbox: Sandbox, who: str, entity: Entity) -> InstanceView:
    return await sandbox.runtime.org(sandbox.org_id, await sandbox.actor(who)).entities.transition(
        entity.id, "submit"
    )


async def approve(sandbox: Sandbox, who: str, view: InstanceView, step: str) -> InstanceView:
    (request_id,) = [waiting.request_id for waiting in view.waiting if waiting.name == step]
    assert request_id is not None
    return await sandbox.runtime.org(sandbox.org_id, await sandbox.actor(who)).approvals.decide(
        request_id, "approved"
    )


class TestInvoice:
    """Use case A."""

    async def test_gate_consumes_both_approvals_at_once_and_the_invoice_is_posted_by_the_workflow(
        self, sandbox: Sandbox
    ) -> None:
        await sandbox.publish("template:invoice_approval")
        await sandbox.org_settings(trusted_vendors=[], budget_owners={"R&D": "bea"})
        await sandbox.people(ann=["clerk"], fin=["finance_manager"], bea=["owner"])
        view = await submit(sandbox, "ann", await do(sandbox, "ann", "invoice.create", LARGE))
        after_one = await approve(sandbox, "fin", view, "finance")
        assert {row["applied_at"] for row in await rows(sandbox.database, "approval_requests")} == {None}
        await sandbox.advance_time("26h")
        view = await approve(sandbox, "bea", after_one, "budget")
        requests = await rows(sandbox.database, "approval_requests")
        assert {(row["status"], row["applied_at"]) for row in requests} == {("approved", sandbox.clock.now())}
        audit = [row for row in await rows(sandbox.database, "audit_log") if row["action"] == "invoice.post"]
        assert [(row["actor_id"], row["instance_id"]) for row in audit] == [("system", view.id)]


class TestSalesOrder:
    """Use case B."""

    async def test_losers_of_the_join_are_cancelled_and_leave_no_reservation(self, sandbox: Sandbox) -> None:
        await sandbox.publish("template:sales_order_fulfilment")
        await sandbox.people(sal=["sales"], wes=["warehouse"])
        stock = await do(sandbox, "wes", "inventory.create", {"stock": 5})
        customer = {"id": "c-1", "email": "c@example.com", "credit_available": 1}
        order = {"number": "o-1", "inventory_id": str(stock.id), "warehouse": "north", "grand_total": 900}
        entity = await do(
            sandbox, "sal", "sales_order.create", {**order, "currency": "EUR", "customer": customer}
        )
        view = await submit(sandbox, "sal", entity)
        assert [waiting.name for waiting in view.waiting] == ["payment"]
        steps = await steps_of(sandbox.database, view.id)
        assert len([step for step in steps if step["status"] == "cancelled"]) == 2
        versions = [
            row for row in await rows(sandbox.database, "entity_versions") if row["entity_id"] == stock.id
        ]
        assert len(versions) == 1


class TestAmendment:
    """Use case C."""

    async def test_amendment_says_what_changed_and_whose_approval_it_cost(self, sandbox: Sandbox) -> None:
        await sandbox.publish("template:amendment_loop")
        await sandbox.people(kat=["category_manager"], lea=["legal_counsel"], cod=["commercial_director"])
        agreement = await do(sandbox, "kat", "agreement.create", {"title": "Paper", **TERMS})
        view = await submit(sandbox, "kat", agreement)
        await approve(sandbox, "lea", view, "legal")
        await do(sandbox, "kat", "agreement.update", {"terms": "sixty days"}, agreement.id)
        await sandbox.drain()
        (moved,) = [
            step["output_json"]
            for step in await steps_of(sandbox.database, view.id)
            if step["node_id"] == "ctl:move"
        ]
        assert moved["changes"] == {"terms": ["thirty days", "sixty days"]}
        assert moved["void"] == ["commercial", "legal"]
        requests = await rows(sandbox.database, "approval_requests")
        assert {(row["status"], row["applied_at"]) for row in requests} == {("void", None)}
        assert [row["approver_id"] for row in await rows(sandbox.database, "approval_decisions")] == ["lea"]


class TestDelivery:
    """Use case D."""

    async def test_silence_ends_after_72_hours_however_far_the_clock_moves(self, sandbox: Sandbox) -> None:
        await sandbox.publish("template:delivery_confirmation")
        await sandbox.org_settings(logistics_email="logistics@acme.example")
        await sandbox.people(sam=["shipping_clerk"], log=["logistics_manager"])
        began = sandbox.clock.now()
        data = {"shipment_id": "s-1", "order_id": "o-1", "carrier": "DHL"}
        view = await submit(sandbox, "sam", await do(sandbox, "sam", "shipment.create", data))
        await sandbox.advance_time("10 days")
        by_node = {step["node_type"]: step for step in await steps_of(sandbox.database, view.id)}
        assert (by_node["wait_event"]["completed_at"] - began).total_seconds() == 72 * 3600
        assert (by_node["approval"]["created_at"] - began).total_seconds() == 72 * 3600


class TestRoyalty:
    """Use case E."""

    async def test_webhook_is_enqueued_once_by_its_step_at_six_o_clock(self, sandbox: Sandbox) -> None:
        await sandbox.publish("template:franchise_royalty")
        await sandbox.people(job=["royalty_clerk"])
        await sandbox.roles(royalty_clerk=["franchise:royalty:execute"])
        given = {"franchisee_id": "f-1", "portal_url": "https://portal.example/f-1"}
        job = await sandbox.actor("job")
        view = await sandbox.runtime.org(sandbox.org_id, job).instances.start("franchise.royalty", given)
        await sandbox.advance_time("90 days")
        (effect,) = await effects(sandbox.database)
        assert (effect["type"], effect["status"]) == ("webhook", "queued")
        assert effect["created_at"].isoformat() == "2026-04-01T06:00:00+00:00"
        (step,) = [
            step for step in await steps_of(sandbox.database, view.id) if step["id"] == effect["step_id"]
        ]
        assert (step["node_id"], step["status"]) == ("deliver", "completed")
