"""The library's templates, lived through: joins, timers, loops, timeouts, amendments and cancellations."""

from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Command, Entity
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.runtime.flows import ORG, drain, rows
from tests.scenarios.templates import (
    pass_time,
    publish_entity,
    publish_template_flow,
    read,
    waiting,
)

EVERYBODY = Actor("ann", capabilities=frozenset({"*"}))
INVENTORY: dict[str, Any] = {
    "contract": "inventory",
    "version": 1,
    "workflow": "none",
    "fields": {"reserved": {"type": "boolean"}, "backordered": {"type": "boolean"}},
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}},
}


@pytest.fixture
def runtime(database: Database) -> Runtime:
    names = ("delivery_confirmation", "sales_order_fulfilment", "invoice_approval")
    app = App([INVENTORY, *(read(name, "contract.yaml") for name in names)])

    @app.action("inventory.reserve")
    def reserve(inventory: Entity, payload: Any) -> dict[str, Any]:
        return {"reserved": True}

    @app.action("invoice.post", payload={"posted_at": {"type": "datetime"}})
    def post(invoice: Entity, payload: Any) -> dict[str, Any]:
        return dict(payload)

    return app.runtime(database)


async def create(runtime: Runtime, entity_type: str, data: dict[str, Any]) -> Entity:
    command = Command(ORG, f"{entity_type}.create", EVERYBODY, data)
    return (await runtime.kernel.mutate(command)).entity


async def state_of(database: Database, entity_id: UUID) -> str:
    (state,) = [row["state"] for row in await rows(database, "entities") if row["id"] == entity_id]
    return str(state)


async def instance(database: Database, instance_id: UUID) -> dict[str, Any]:
    (found,) = [row for row in await rows(database, "workflow_instances") if row["id"] == instance_id]
    return found


class TestDelivery:
    """Use case D: a shipment waits for its proof of delivery, for 72 hours."""

    @pytest.fixture
    async def shipment(self, runtime: Runtime, database: Database) -> Entity:
        await publish_entity(database, "delivery_confirmation")
        data = {"shipment_id": "s-1", "order_id": "o-1", "carrier": "DHL"}
        return await create(runtime, "shipment", data)

    async def test_proof_confirms_it(self, runtime: Runtime, database: Database, shipment: Entity) -> None:
        view = await runtime.transition(ORG, shipment.id, "submit", EVERYBODY)
        assert waiting(view) == ["proof"]
        await runtime.emit(ORG, "delivery:pod:s-1", {"signed": "Kim"})
        await drain(runtime)
        assert await state_of(database, shipment.id) == "active"

    async def test_proof_that_comes_first_is_kept(
        self, runtime: Runtime, database: Database, shipment: Entity
    ) -> None:
        await runtime.emit(ORG, "delivery:pod:s-1", {})
        await drain(runtime)
        await runtime.transition(ORG, shipment.id, "submit", EVERYBODY)
        assert await state_of(database, shipment.id) == "active"

    async def test_after_72_hours_somebody_decides(
        self, runtime: Runtime, database: Database, clock: MovedClock, shipment: Entity
    ) -> None:
        view = await runtime.transition(ORG, shipment.id, "submit", EVERYBODY)
        await pass_time(runtime, clock, "71h")
        assert (await instance(database, view.id))["context_json"] == {}
        await pass_time(runtime, clock, "1h")
        assert (await instance(database, view.id))["context_json"] == {"told_alarm": True}
        await runtime.emit(ORG, "delivery:pod:s-1", {})
        await drain(runtime)
        assert await state_of(database, shipment.id) == "submitted"
        await runtime.advance(ORG, view.id, "approved", EVERYBODY)
        assert await state_of(database, shipment.id) == "active"


class TestSalesOrder:
    """Use case B: credit, stock and warehouse at once; the first that decides wins."""

    async def submit(self, runtime: Runtime, database: Database, credit: int) -> tuple[Entity, Any]:
        await publish_entity(database, "sales_order_fulfilment")
        stock = await create(runtime, "inventory", {})
        customer = {"id": "c-1", "email": "c@example.com", "credit_available": credit}
        data = {"number": "o-1", "inventory_id": str(stock.id), "warehouse": "north", "grand_total": 900}
        order = await create(runtime, "sales_order", {**data, "currency": "EUR", "customer": customer})
        return order, await runtime.transition(ORG, order.id, "submit", EVERYBODY)

    async def test_stock_is_reserved_and_the_order_confirmed(
        self, runtime: Runtime, database: Database
    ) -> None:
        order, view = await self.submit(runtime, database, credit=1000)
        assert (view.status, await state_of(database, order.id)) == ("completed", "active")

    async def test_without_credit_it_waits_for_the_payment_and_the_others_are_cancelled(
        self, runtime: Runtime, database: Database, clock: MovedClock
    ) -> None:
        order, view = await self.submit(runtime, database, credit=10)
        assert waiting(view) == ["payment"]
        steps = await rows(database, "workflow_step_executions")
        assert len([step for step in steps if step["status"] == "cancelled"]) == 2
        await runtime.emit(ORG, "payment:received:o-1", {})
        await drain(runtime)
        assert await state_of(database, order.id) == "active"


class TestInvoice:
    """Use cases A and C: two people at once for a large invoice; an edit asks again."""

    @pytest.fixture
    async def invoice(self, runtime: Runtime, database: Database) -> Entity:
        await publish_entity(database, "invoice_approval")
        data = {"number": "1", "vendor_id": "v-9", "grand_total": 2_000_000, "currency": "EUR"}
        return await create(runtime, "invoice", {**data, "cost_center": "R&D"})

    async def test_both_must_agree(self, runtime: Runtime, database: Database, invoice: Entity) -> None:
        view = await runtime.transition(ORG, invoice.id, "submit", EVERYBODY)
        assert waiting(view) == ["budget", "finance"]
        for step in ("finance", "budget"):
            view = await runtime.advance(ORG, view.id, "approved", EVERYBODY, step=step)
        assert (view.status, await state_of(database, invoice.id)) == ("completed", "active")

    async def test_an_edit_asks_everybody_again(
        self, runtime: Runtime, database: Database, invoice: Entity
    ) -> None:
        view = await runtime.transition(ORG, invoice.id, "submit", EVERYBODY)
        await runtime.advance(ORG, view.id, "approved", EVERYBODY, step="finance")
        edit = Command(ORG, "invoice.update", EVERYBODY, {"grand_total": 2_100_000}, invoice.id)
        await runtime.kernel.mutate(edit)
        view = await runtime.transition(ORG, invoice.id, "submit", EVERYBODY)
        assert waiting(view) == ["budget", "finance"]
        kept, folded = await runtime.folded(ORG, view.id)
        assert kept == folded

    async def test_cancel_ends_both_branches(
        self, runtime: Runtime, database: Database, invoice: Entity
    ) -> None:
        view = await runtime.transition(ORG, invoice.id, "submit", EVERYBODY)
        view = await runtime.transition(ORG, invoice.id, "cancel", EVERYBODY)
        assert (view.status, await state_of(database, invoice.id)) == ("completed", "cancelled")
        cancelled = [
            s for s in await rows(database, "workflow_step_executions") if s["status"] == "cancelled"
        ]
        assert len(cancelled) == 2


class TestDispute:
    """Seed 003's dispute: steps and the workflow itself run out of time."""

    @pytest.fixture
    async def dispute(self, runtime: Runtime, database: Database) -> Any:
        await publish_template_flow(database, "dispute_resolution")
        runtime.advancing.operations["payments.refund"] = lambda connection, given: {"refund_id": "r-1"}
        view = await runtime.start(ORG, "disputes.resolution", EVERYBODY, {"merchant_email": "m@example.com"})
        data = {"order_id": "o-1", "amount": 100, "reason": "other"}
        return await runtime.advance(ORG, view.id, "completed", EVERYBODY, data)

    async def test_times_run_out_step_by_step_until_somebody_decides(
        self, runtime: Runtime, database: Database, clock: MovedClock, dispute: Any
    ) -> None:
        assert waiting(dispute) == ["evidence"]
        await pass_time(runtime, clock, "7d")
        assert (await instance(database, dispute.id))["current_nodes"] == ["review"]
        await pass_time(runtime, clock, "3d")
        assert (await instance(database, dispute.id))["current_nodes"] == ["senior_review"]
        view = await runtime.advance(ORG, dispute.id, "approved", EVERYBODY)
        assert (view.status, view.context["refund_id"]) == ("completed", "r-1")

    async def test_a_refund_that_is_refused_goes_back_to_a_person(
        self, runtime: Runtime, database: Database, dispute: Any
    ) -> None:
        runtime.advancing.operations.clear()
        await runtime.emit(ORG, "dispute:evidence:o-1", {"photo": "p-1"})
        await drain(runtime)
        view = await runtime.advance(ORG, dispute.id, "approved", EVERYBODY)
        assert waiting(view) == ["senior_review"]
        assert view.context["_last_error"]["code"] == "UNKNOWN_OPERATION"
        assert (await runtime.advance(ORG, dispute.id, "rejected", SYSTEM)).status == "completed"

    async def test_the_whole_dispute_lapses_after_45_days(
        self, runtime: Runtime, database: Database, clock: MovedClock, dispute: Any
    ) -> None:
        await pass_time(runtime, clock, "7d")
        await pass_time(runtime, clock, "3d")
        await pass_time(runtime, clock, "35d")
        found = await instance(database, dispute.id)
        assert (found["status"], found["active_tokens"]) == ("completed", [])
        steps = {(s["node_id"], s["status"]) for s in await rows(database, "workflow_step_executions")}
        assert {("senior_review", "cancelled"), ("lapsed", "completed")} <= steps
