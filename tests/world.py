"""The world of the tests: acme and its people, three documents (invoice, order, expense), and what tests do with them.

The invoice is the design's, with its patch; an order is what several people look at; an expense has no workflow.
A suite that needs another document derives it from one of these. `tests.authored` has the words to write a flow with.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.definitions import Publication, publish_contract, publish_flow, publish_patch
from assent.kernel import Kernel
from assent.model.actor import SYSTEM, Actor
from assent.model.contract import Contract, contract_from
from assent.model.mutation import Command, Entity, Mutation
from assent.runtime import InstanceView, Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.connection import Connection
from assent.store.database import Database
from tests.authored import END, arrows, flow_of, invoice_contract, invoice_patch
from tests.twin import TWIN

ORG: Final = "acme"
OTHER_ORG: Final = "globex"

# People

PEOPLE: Final[Mapping[str, Collection[str]]] = {
    "ann": ["clerk"],
    "carl": ["clerk"],
    "fin": ["finance_manager"],
    "fay": ["finance_manager"],
    "bea": ["owner"],
    "max": ["manager"],
}
"""The members of acme by name, with their roles."""
ORG_SETTINGS: Final[Mapping[str, Any]] = {"trusted_vendors": ["v-1"], "budget_owners": {"R&D": "bea"}}


def actor(name: str, *capabilities: str) -> Actor:
    """Return a person of acme with their roles and these capabilities; a stranger has no roles."""
    return Actor(name, roles=frozenset(PEOPLE.get(name, ())), capabilities=frozenset(capabilities))


ANN, FIN, FAY, BEA, MAX = (actor(name) for name in ("ann", "fin", "fay", "bea", "max"))
EVE: Final = actor("eve")
"""A person without rights."""
OPS: Final = actor("ops", "workflows:*")
"""An operator."""


@dataclass(frozen=True)
class WorldMember:
    """A member of an org, where it is not a person with roles alone."""

    roles: Collection[str] = ()
    kind: str = "user"
    email: str | None = None


async def hire(
    connection: Connection, people: Mapping[str, WorldMember | Collection[str]], org_id: str = ORG
) -> None:
    """Insert members into an org; a collection is the roles of a person."""
    members = {
        name: one if isinstance(one, WorldMember) else WorldMember(one) for name, one in people.items()
    }
    await connection.executemany(
        "INSERT INTO assent.members (org_id, user_id, name, email, roles, kind) VALUES ($1, $2, $2, $3, $4, $5)",
        [(org_id, name, one.email, list(one.roles), one.kind) for name, one in members.items()],
    )


async def grant(
    connection: Connection, capabilities: Mapping[str, Collection[str]], org_id: str = ORG
) -> None:
    """Give roles of an org their capabilities."""
    await connection.executemany(
        "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ($1, $2, $3)",
        [(org_id, role, capability) for role, held in capabilities.items() for capability in held],
    )


async def hire_with(
    database: Database, user: str, *capabilities: str, kind: str = "user", org: str = ORG
) -> None:
    """Insert a member whose one role, named after them, has these capabilities and is unknown to contracts."""
    async with database.transaction(None) as connection:
        await hire(connection, {user: WorldMember([f"{user}s"], kind)}, org)
        await grant(connection, {f"{user}s": capabilities}, org)


async def insert_org(
    connection: Connection, org_id: str = ORG, settings: Mapping[str, Any] = ORG_SETTINGS
) -> None:
    await connection.execute(
        "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $2, $3)",
        org_id,
        org_id.capitalize(),
        dict(settings),
    )


async def found_acme(database: Database, people: Mapping[str, Collection[str]] = PEOPLE) -> None:
    """Insert acme with its settings and these people, each with an address."""
    members = {name: WorldMember(roles, email=f"{name}@acme.example") for name, roles in people.items()}
    async with database.transaction(None) as connection:
        await insert_org(connection)
        await hire(connection, members)


# Documents

APPROVED_LIFECYCLE: Final[dict[str, Any]] = {
    "initial": "draft",
    "states": {
        "draft": {"edit": "editable"},
        "submitted": {"edit": "amend_only"},
        "active": {"edit": "locked"},
        "amended": {"edit": "editable"},
    },
    "transitions": {
        "submit": {"from": ["draft", "amended"], "to": "submitted"},
        "approve": {"from": "submitted", "to": "active", "approval": "required", "on_reject": "draft"},
    },
}
"""The life of a document that is submitted and approved."""

EXPENSE: Final[dict[str, Any]] = {
    "contract": "expense",
    "version": 1,
    "workflow": "none",
    "fields": {
        "title": {"type": "text", "required": True, "max": 40},
        "total": {"type": "money", "required": True, "min": 0},
        "note": {"type": "text"},
        "posted_at": {"type": "datetime", "system": True},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {"draft": {"edit": "editable"}, "posted": {"edit": "locked"}, "void": {"edit": "locked"}},
        "transitions": {"post": {"from": "draft", "to": "posted"}, "void": {"from": "posted", "to": "void"}},
    },
    "permissions": {"create": ["clerk"], "update": ["clerk"], "post": ["manager"], "void": ["manager"]},
}

ORDER: Final[dict[str, Any]] = {
    "contract": "order",
    "version": 1,
    "fields": {
        "number": {"type": "text", "required": True},
        "total": {"type": "money"},
        "checked_at": {"type": "datetime", "system": True},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {**APPROVED_LIFECYCLE["states"], "cancelled": {"edit": "locked"}},
        "transitions": {
            **APPROVED_LIFECYCLE["transitions"],
            "cancel": {"from": ["draft", "submitted", "active"], "to": "cancelled"},
        },
    },
    "permissions": {"create": ["clerk"], "update": ["clerk"], "submit": ["clerk"], "cancel": ["manager"]},
}

FAILS_ON_DRIFT: Final[dict[str, Any]] = {
    "on_drift": "fail",
    "lifecycle": {
        "initial": "draft",
        "states": {name: edit for name, edit in ORDER["lifecycle"]["states"].items() if name != "amended"},
        "transitions": {
            **ORDER["lifecycle"]["transitions"],
            "submit": {"from": "draft", "to": "submitted"},
        },
    },
}
"""Changes of the order: an edit while it is being approved fails the instance."""

SLOT: Final = "slot:submitted_to_approved"
"""Where a patch asks for the approval of a document."""


def patch_of(
    *nodes: dict[str, Any],
    edges: list[dict[str, Any]] | None = None,
    entity_type: str = "invoice",
    slot: str = SLOT,
    **more: Any,
) -> dict[str, Any]:
    """Return a patch whose slot holds these nodes, one after the other unless `edges` says otherwise."""
    if edges is None:
        names = ["in", *(node["id"] for node in nodes), "out"]
        kinds = {node["id"]: node["type"] for node in nodes}
        edges = [
            {"from": a, "to": b, **({"on": "approved"} if kinds.get(a) == "approval" else {})}
            for a, b in pairwise(names)
        ]
    return {
        "patch": entity_type,
        "base": {"entity_type": entity_type, "envelope_version": 1},
        "slots": {slot: {"nodes": list(nodes), "edges": edges, **more}},
    }


def order_patch_of(node: dict[str, Any], **slot: Any) -> dict[str, Any]:
    """Return a patch of the order with one node, `it`, which stands in for the approval."""
    outcome = {"on": "done"} if node["type"] == "form" else {}
    edges = [{"from": "in", "to": "it"}, {"from": "it", "to": "out", **outcome}]
    return patch_of({"id": "it", "waives_approval": True, **node}, edges=edges, entity_type="order", **slot)


ORDER_PATCH: Final = patch_of(
    {"id": "fork", "type": "parallel_split"},
    {"id": "stock", "type": "form", "waives_approval": True},
    {"id": "credit", "type": "form", "waives_approval": True},
    {"id": "both", "type": "parallel_join", "mode": "all"},
    edges=[
        {"from": "in", "to": "fork"},
        {"from": "fork", "to": "stock"},
        {"from": "fork", "to": "credit"},
        {"from": "stock", "to": "both", "on": "done"},
        {"from": "credit", "to": "both", "on": "done"},
        {"from": "both", "to": "out"},
    ],
    entity_type="order",
)
"""Two people look at an order at the same time."""

LARGE: Final = {
    "number": "1",
    "vendor_id": "v-9",
    "grand_total": 2_000_000,
    "currency": "EUR",
    "cost_center": "R&D",
}
"""The data of an invoice that two people must approve; MIDDLE: one; SMALL: none."""
MIDDLE: Final = {**LARGE, "grand_total": 70_000}
SMALL: Final = {**LARGE, "grand_total": 1_000, "vendor_id": "v-1"}

# Publishing


async def publish_source(
    connection: Connection, source: Contract | dict[str, Any], org_id: str, by: Actor, now: Any
) -> Publication:
    if isinstance(source, Contract):
        return await publish_contract(connection, source, by, now)
    if "contract" in source:
        return await publish_contract(connection, contract_from(source), by, now)
    if "patch" in source:
        return await publish_patch(connection, org_id, source, by, now)
    return await publish_flow(connection, org_id, source, by, now)


async def publish(
    database: Database, source: Contract | dict[str, Any], org_id: str = "*", by: Actor = SYSTEM
) -> Publication:
    """Publish a contract, a patch or a flow in a transaction of its own, as the owner."""
    async with database.transaction(None) as connection:
        return await publish_source(connection, source, org_id, by, database.clock.now())


async def publish_steps(
    database: Database,
    key: str,
    steps: list[dict[str, Any]],
    transitions: list[dict[str, Any]],
    *,
    org: str = ORG,
    **more: Any,
) -> None:
    """Publish a flow that begins with the first of these steps."""
    await publish(database, flow_of(key, steps, transitions, **more), org)


async def publish_invoices(database: Database, patch: dict[str, Any] | None = None) -> None:
    """Publish the design's invoice and its patch, or another one."""
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await publish_source(connection, invoice_contract(), ORG, SYSTEM, now)
        await publish_source(connection, patch or invoice_patch(), ORG, SYSTEM, now)


async def found_acme_with_invoices(database: Database, patch: dict[str, Any] | None = None) -> None:
    """Insert acme with its people, and publish invoices."""
    await found_acme(database)
    await publish_invoices(database, patch)


async def publish_orders(
    database: Database, patch: dict[str, Any] | None = ORDER_PATCH, **changes: Any
) -> None:
    """Publish the order, with these changes of its contract, and its patch."""
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await publish_source(connection, {**ORDER, **changes}, ORG, SYSTEM, now)
        if patch is not None:
            await publish_source(connection, patch, ORG, SYSTEM, now)


# Flows of one call

ENDS: Final = [END, {"id": "failed", "type": "terminal"}, {"id": "late", "type": "terminal"}]


def webhook(url: str = "{workflow.url}", **rest: Any) -> dict[str, Any]:
    return {"id": "tell", "type": "webhook_out", "url": url, "body": {"order": "{workflow.order}"}, **rest}


async def publish_webhook(database: Database, key: str = "telling", **rest: Any) -> None:
    """Publish a flow that sends an order to `workflow.url`; where that fails, it ends elsewhere."""
    await publish_step(database, webhook(**rest), key)


async def publish_step(database: Database, step: dict[str, Any], key: str = "telling", **rest: Any) -> None:
    """Publish a flow of one step, with an end each for completion, error and timeout."""
    ends = ENDS[:1]
    transitions = arrows(step["id"], "end")
    if step.get("await") or step["type"] == "system":
        ends = ENDS if "timeout" in step else ENDS[:2]
        transitions += arrows(step["id"], "failed", event="error")
    if "timeout" in step:
        transitions += arrows(step["id"], "late", event="timeout")
    await publish_steps(database, key, [step, *ends], transitions, **rest)


def vendor(**rest: Any) -> dict[str, Any]:
    asked = {"id": "vendor", "type": "webhook_out", "url": "https://vendor.example/checks", "await": "result"}
    return {**asked, "body": {"client": "{workflow.client}"}, **rest}


async def publish_vendor(database: Database, key: str = "kyc", *, org: str = ORG, **rest: Any) -> None:
    """Publish a flow that asks a vendor; `timed` gives it an end for the timeout."""
    timed = rest.pop("timed", False)
    ways = arrows("vendor", "end") + arrows("vendor", "failed", event="error")
    ways += arrows("vendor", "late", event="timeout") if timed else []
    ends = ENDS if timed else ENDS[:2]
    await publish_steps(database, key, [vendor(**rest), *ends], ways, org=org)


# What people do


async def create(kernel: Kernel, entity_type: str, data: Mapping[str, Any], who: Actor = ANN) -> Entity:
    return (await kernel.mutate(Command(ORG, f"{entity_type}.create", who, data))).entity


async def create_invoice(runtime: Runtime, data: Mapping[str, Any], who: Actor = ANN) -> Entity:
    return await create(runtime.core.kernel, "invoice", data, who)


async def create_order(runtime: Runtime, **data: Any) -> Entity:
    return await create(runtime.core.kernel, "order", {"number": "1", "total": 500, **data})


async def edit_invoice(
    runtime: Runtime, entity_id: UUID | None, who: Actor = ANN, **changes: Any
) -> Mutation:
    return await runtime.core.kernel.mutate(Command(ORG, "invoice.update", who, changes, entity_id))


async def edit_order(runtime: Runtime, entity_id: UUID, **changes: Any) -> Entity:
    return (await runtime.core.kernel.mutate(Command(ORG, "order.update", ANN, changes, entity_id))).entity


async def submit(runtime: Runtime, entity: Entity, who: Actor = ANN) -> InstanceView:
    return await runtime.org(ORG, who).entities.transition(entity.id, "submit")


async def submit_invoice(runtime: Runtime, data: Mapping[str, Any] = LARGE, who: Actor = ANN) -> InstanceView:
    """Create an invoice and submit it."""
    return await submit(runtime, await create_invoice(runtime, data, who), who)


def request_id(view: InstanceView, step: str) -> UUID:
    """Return the id of the approval request that the instance waits for at this step."""
    (found,) = [waiting.request_id for waiting in view.waiting if waiting.name == step]
    assert found is not None
    return found


async def decide(
    runtime: Runtime, view: InstanceView, step: str, who: Actor, answer: str = "approved", **rest: Any
) -> InstanceView:
    return await runtime.org(ORG, who).approvals.decide(request_id(view, step), answer, **rest)


async def drain(runtime: Runtime, limit: int = 200) -> int:
    """Process events until there are none; return how many there were."""
    total = 0
    processor = EventProcessor(runtime.core)
    while handled := await processor.process_events(limit):
        total += handled
    return total


# Reading what became of it


async def fetch(database: Database, sql: str, *arguments: Any) -> list[asyncpg.Record]:
    """Run a query as the owner."""
    async with database.transaction(None) as connection:
        return await connection.fetch(sql, *arguments)


async def rows(database: Database, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table but the twin org's, which the end of the test looks at."""
    found = await fetch(database, f"SELECT * FROM assent.{table}")  # noqa: S608
    return [dict(row) for row in found if row.get("org_id") != TWIN]


async def count(database: Database, table: str) -> int:
    return len(await rows(database, table))


async def entity_row(runtime: Runtime, entity_id: UUID | None) -> dict[str, Any]:
    """Return the current row of an entity of acme."""
    sql = "SELECT * FROM assent.current_entities WHERE org_id = $1 AND id = $2"
    (found,) = await fetch(runtime.database, sql, ORG, entity_id)
    return dict(found)


async def steps_of(database: Database, instance_id: UUID) -> list[dict[str, Any]]:
    """Return an instance's steps in the order in which they took effect."""
    steps = [
        row for row in await rows(database, "workflow_step_executions") if row["instance_id"] == instance_id
    ]
    return sorted(steps, key=lambda row: row["output_json"].get("n") or row["output_json"]["entered"])


EFFECTS: Final = """
SELECT e.*, j.lane AS destination, j.status, j.attempts, j.attempts_max, j.run_at, j.repeatable, j.worker_id,
       j.claimed_at, j.losses, j.suspect, j.ended_at, a.error, a.code, a.output,
       EXISTS (SELECT FROM assent.job_attempts t
                WHERE t.org_id = e.org_id AND t.job_id = e.id AND t.ambiguous) AS ambiguous
  FROM assent.effects e JOIN assent.jobs j USING (org_id, id)
  LEFT JOIN LATERAL (SELECT * FROM assent.job_attempts t WHERE t.org_id = e.org_id AND t.job_id = e.id
                      ORDER BY t.attempt DESC LIMIT 1) AS a ON true
 WHERE e.org_id <> 'aatwin' ORDER BY e.created_at, e.id
"""


async def effects(database: Database) -> list[dict[str, Any]]:
    """Return the effects with their jobs and the last attempt at each."""
    return [dict(row) for row in await fetch(database, EFFECTS)]
