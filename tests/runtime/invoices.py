"""The design's invoice with its patch, and the people who create and approve it."""

from itertools import pairwise
from typing import Any
from uuid import UUID

from assent.definitions import publish_contract, publish_patch
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Command, Entity, Mutation
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from tests.authored import invoice_contract, invoice_patch
from tests.runtime.flows import ORG, rows

PEOPLE = {
    "ann": ["clerk"],
    "carl": ["clerk"],
    "fin": ["finance_manager"],
    "fay": ["finance_manager"],
    "bea": ["owner"],
    "max": ["manager"],
}
SETTINGS = {"trusted_vendors": ["v-1"], "budget_owners": {"R&D": "bea"}}
LARGE = {"number": "1", "vendor_id": "v-9", "grand_total": 2_000_000, "currency": "EUR", "cost_center": "R&D"}
MIDDLE = {**LARGE, "grand_total": 70_000}
SMALL = {**LARGE, "grand_total": 1_000, "vendor_id": "v-1"}


def actor(name: str, *capabilities: str) -> Actor:
    return Actor(name, roles=frozenset(PEOPLE.get(name, ())), capabilities=frozenset(capabilities))


ANN, FIN, FAY, BEA, MAX = (actor(name) for name in ("ann", "fin", "fay", "bea", "max"))


async def found_company(database: Database, people: dict[str, list[str]] | None = None) -> None:
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, 'Acme', $2::jsonb)", ORG, SETTINGS
        )
        await connection.executemany(
            "INSERT INTO assent.members (org_id, user_id, name, email, roles) VALUES ($1, $2, $2, $3, $4)",
            [(ORG, name, f"{name}@acme.example", roles) for name, roles in (people or PEOPLE).items()],
        )


async def publish_invoices(database: Database, patch: dict[str, Any] | None = None) -> None:
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await publish_contract(connection, invoice_contract(), SYSTEM, now)
        await publish_patch(connection, ORG, patch or invoice_patch(), SYSTEM, now)


async def open_shop(database: Database, patch: dict[str, Any] | None = None) -> None:
    await found_company(database)
    await publish_invoices(database, patch)


async def create(runtime: Runtime, data: dict[str, Any], who: Actor = ANN) -> Entity:
    return (await runtime.core.kernel.mutate(Command(ORG, "invoice.create", who, data))).entity


async def submitted(runtime: Runtime, data: dict[str, Any] = LARGE, who: Actor = ANN) -> InstanceView:
    entity = await create(runtime, data, who)
    return await runtime.org(ORG, who).entities.transition(entity.id, "submit")


async def edit(runtime: Runtime, entity_id: UUID | None, who: Actor = ANN, **changes: Any) -> Mutation:
    return await runtime.core.kernel.mutate(Command(ORG, "invoice.update", who, changes, entity_id))


def request_id(view: InstanceView, step: str) -> UUID:
    (found,) = [waiting.request_id for waiting in view.waiting if waiting.name == step]
    assert found is not None
    return found


async def decide(
    runtime: Runtime, view: InstanceView, step: str, who: Actor, answer: str = "approved", **rest: Any
) -> InstanceView:
    return await runtime.org(ORG, who).approvals.decide(request_id(view, step), answer, **rest)


async def invoice(runtime: Runtime, entity_id: UUID | None) -> dict[str, Any]:
    (found,) = [row for row in await rows(runtime.database, "current_entities") if row["id"] == entity_id]
    return found


def patch_of(*nodes: dict[str, Any], edges: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A patch whose slot before the approval holds these nodes, one after the other unless said otherwise."""
    if edges is None:
        names = ["in", *(node["id"] for node in nodes), "out"]
        kinds = {node["id"]: node["type"] for node in nodes}
        edges = [
            {"from": a, "to": b, **({"on": "approved"} if kinds.get(a) == "approval" else {})}
            for a, b in pairwise(names)
        ]
    return {
        "patch": "invoice",
        "base": {"entity_type": "invoice", "envelope_version": 1},
        "slots": {"slot:submitted_to_approved": {"nodes": list(nodes), "edges": edges}},
    }
