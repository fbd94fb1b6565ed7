"""Nobody approves their own work: every route that leads to a decision, tried by whoever had a part in it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.people import KeptDelegation, NewDelegation, delegate
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from tests.world import (
    MIDDLE,
    ORG,
    create_invoice,
    drain,
    edit_invoice,
    entity_row,
    found_acme,
    patch_of,
    publish_invoices,
    request_id,
    rows,
)

ASK = {"id": "ask", "type": "approval", "approvers": {"role": "finance_manager"}}
PEOPLE = {"ann": ["clerk", "finance_manager"], "fin": ["finance_manager"], "eve": ["manager"]}
BOTH = frozenset({"clerk", "finance_manager"})
ANN = Actor("ann", roles=BOTH)
ANN_ADMIN = Actor("ann", roles=BOTH, capabilities=frozenset({"*"}))
FIN = Actor("fin", roles=frozenset({"finance_manager"}))
EVE = Actor("eve", capabilities=frozenset({"*"}))

Route = Callable[[Runtime, InstanceView], Awaitable[object]]


async def lend(runtime: Runtime, from_user: str, to_user: str, by: Actor) -> None:
    wanted = NewDelegation(ORG, from_user, to_user)
    async with runtime.database.transaction(ORG) as connection:
        kept = await delegate(connection, runtime.core.directory, wanted, by, runtime.database.clock.now())
    assert isinstance(kept, KeptDelegation)


async def by_deciding(runtime: Runtime, view: InstanceView) -> None:
    await runtime.org(ORG, ANN).approvals.decide(request_id(view, "ask"), "approved")


async def by_deciding_with_every_right(runtime: Runtime, view: InstanceView) -> None:
    await runtime.org(ORG, ANN_ADMIN).approvals.decide(request_id(view, "ask"), "approved")


async def by_advancing(runtime: Runtime, view: InstanceView) -> None:
    await runtime.org(ORG, ANN).instances.advance(view.id, "approved")


async def as_a_delegate(runtime: Runtime, view: InstanceView) -> None:
    await lend(runtime, "fin", "ann", FIN)
    await runtime.org(ORG, ANN).approvals.decide(request_id(view, "ask"), "approved")


async def as_a_named_delegate(runtime: Runtime, view: InstanceView) -> None:
    await lend(runtime, "fin", "ann", FIN)
    await runtime.org(ORG, ANN).approvals.decide(request_id(view, "ask"), "approved", on_behalf_of="fin")


async def by_reassignment_from_the_approver(runtime: Runtime, view: InstanceView) -> None:
    await runtime.org(ORG, FIN).approvals.reassign(request_id(view, "ask"), from_user="fin", to_user="ann")


async def by_reassignment_from_an_admin(runtime: Runtime, view: InstanceView) -> None:
    await runtime.org(ORG, EVE).approvals.reassign(request_id(view, "ask"), from_user="fin", to_user="ann")


async def by_claiming(runtime: Runtime, view: InstanceView) -> None:
    await runtime.org(ORG, ANN).approvals.claim(request_id(view, "ask"))


async def by_skipping(runtime: Runtime, view: InstanceView) -> None:
    (instance,) = await rows(runtime.database, "workflow_instances")
    definitions = {row["id"]: row for row in await rows(runtime.database, "workflow_definitions")}
    edges: dict[str, Any] = definitions[instance["definition_id"]]["compiled_json"]["edges"]
    (approved,) = [key for key, edge in edges.items() if edge["label"] == "approved"]
    await runtime.org(ORG, ANN_ADMIN).instances.skip(view.id, "ask", approved)


async def by_asking_for_the_transition(runtime: Runtime, view: InstanceView) -> None:
    assert view.entity_id is not None
    await runtime.org(ORG, ANN_ADMIN).entities.transition(view.entity_id, "approve")


ROUTES: dict[Route, str] = {
    by_deciding: "SEPARATION_OF_DUTIES",
    by_deciding_with_every_right: "SEPARATION_OF_DUTIES",
    by_advancing: "SEPARATION_OF_DUTIES",
    as_a_delegate: "SEPARATION_OF_DUTIES",
    as_a_named_delegate: "SEPARATION_OF_DUTIES",
    by_reassignment_from_the_approver: "SEPARATION_OF_DUTIES",
    by_reassignment_from_an_admin: "SEPARATION_OF_DUTIES",
    by_claiming: "POLICY_DENIED",
    by_skipping: "APPROVAL_CANNOT_BE_SKIPPED",
    by_asking_for_the_transition: "INVALID_TRANSITION",
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
async def test_the_originator_is_refused(runtime: Runtime, database: Database, route: Route) -> None:
    await found_acme(database, PEOPLE)
    await publish_invoices(database, patch_of(ASK))
    entity = await create_invoice(runtime, MIDDLE, ANN)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    with pytest.raises(Refused, match=ROUTES[route]):
        await route(runtime, view)
    assert (await entity_row(runtime, entity.id))["state"] == "submitted"
    assert await rows(database, "approval_decisions") == []
    await runtime.org(ORG, FIN).approvals.decide(request_id(view, "ask"), "approved")
    assert (await entity_row(runtime, entity.id))["state"] == "active"


CLERK = Actor("carl", roles=frozenset({"clerk"}))


async def created(runtime: Runtime) -> InstanceView:
    entity = await create_invoice(runtime, MIDDLE, ANN)
    return await runtime.org(ORG, CLERK).entities.transition(entity.id, "submit")


async def edited(runtime: Runtime) -> InstanceView:
    entity = await create_invoice(runtime, MIDDLE, CLERK)
    await edit_invoice(runtime, entity.id, ANN, grand_total=80_000)
    return await runtime.org(ORG, CLERK).entities.transition(entity.id, "submit")


async def brought_in(runtime: Runtime) -> InstanceView:
    entity = await create_invoice(runtime, MIDDLE, CLERK)
    return await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")


async def amended(runtime: Runtime) -> InstanceView:
    entity = await create_invoice(runtime, MIDDLE, CLERK)
    await runtime.org(ORG, CLERK).entities.transition(entity.id, "submit")
    await edit_invoice(runtime, entity.id, ANN, grand_total=80_000)
    await drain(runtime)
    return await runtime.org(ORG, CLERK).entities.transition(entity.id, "submit")


@pytest.mark.parametrize("part", [created, edited, brought_in, amended], ids=lambda part: part.__name__)
async def test_whoever_had_a_part_in_it_is_neither_asked_nor_heard(
    runtime: Runtime, database: Database, part: Callable[[Runtime], Awaitable[InstanceView]]
) -> None:
    await found_acme(database, {**PEOPLE, "carl": ["clerk"]})
    await publish_invoices(database, patch_of(ASK))
    view = await part(runtime)
    assert [waiting.asked for waiting in view.waiting] == [("fin",)]
    with pytest.raises(Refused, match="SEPARATION_OF_DUTIES"):
        await by_deciding(runtime, view)


async def test_the_originator_is_not_among_those_it_is_escalated_to(
    runtime: Runtime, database: Database
) -> None:
    await found_acme(database, PEOPLE)
    ask = {
        **ASK,
        "approvers": {"user": "fin"},
        "escalate": {"after": "1h", "to": {"role": "finance_manager"}},
    }
    await publish_invoices(database, patch_of(ask))
    entity = await create_invoice(runtime, MIDDLE, ANN)
    await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert "ann" not in {row["user_id"] for row in await rows(database, "workflow_seats")}
