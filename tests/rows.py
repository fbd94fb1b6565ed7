"""Rows for tests, written by plain SQL: each is valid as it comes, and different only where a test says so.

Nothing here goes through the kernel. Entities are the exception that the schema itself makes: they have one
door, `assent.write_entities`, and `change` builds what it takes.
"""

from collections.abc import Callable, Mapping
from itertools import count
from secrets import token_hex
from typing import Any, Final
from uuid import uuid4

import asyncpg

from assent.model.canonical import canonical_hash
from assent.store.connect import Connection
from tests.postgres import START

Row = dict[str, Any]

_numbers = count(1)


def _word(stem: str) -> str:
    return f"{stem}-{next(_numbers)}"


_BLANKS: Final[Mapping[str, Callable[[], Row]]] = {
    "orgs": lambda: {"name": "Acme"},
    "members": lambda: {"user_id": _word("user"), "name": "Ann"},
    "role_capabilities": lambda: {"role": _word("role"), "capability": "invoice:create"},
    "api_keys": lambda: {
        "id": uuid4(),
        "user_id": _word("user"),
        "name": "laptop",
        "prefix": "ak",
        "key_hash": token_hex(32),
    },
    "workflow_definitions": lambda: {
        "id": uuid4(),
        "definition_kind": "flow",
        "key": _word("flow"),
        "name": "Order approval",
        "source_json": {"start": "review"},
        "compiled_json": {"nodes": []},
        "compiled_hash": token_hex(32),
        "compiler_version": "1",
    },
    "workflow_instances": lambda: {
        "id": uuid4(),
        "definition_id": uuid4(),
        "definition_version": 1,
        "definition_hash": token_hex(32),
        "workflow_id": "orders.approval",
        "subject_id": "ann",
    },
    "workflow_step_executions": lambda: {
        "id": uuid4(),
        "instance_id": uuid4(),
        "node_id": "review",
        "node_type": "approval",
        "token_id": "t1",
        "entity_version": 0,
        "idempotency_key": token_hex(32),
    },
    "workflow_step_receipts": lambda: {
        "instance_id": uuid4(),
        "idempotency_key": token_hex(32),
        "step_execution_id": uuid4(),
    },
    "workflow_events_outbox": lambda: {
        "id": uuid4(),
        "instance_id": uuid4(),
        "event_type": "advance",
        "event_idempotency_key": token_hex(32),
    },
    "workflow_side_effects_outbox": lambda: {
        "id": uuid4(),
        "instance_id": uuid4(),
        "step_execution_id": uuid4(),
        "effect_type": "email",
        "event_idempotency_key": token_hex(32),
    },
    "workflow_outbox_receipts": lambda: {
        "instance_id": uuid4(),
        "source_table": "events",
        "event_idempotency_key": token_hex(32),
    },
    "approval_chains": lambda: {"id": uuid4(), "name": _word("chain")},
    "approval_chain_steps": lambda: {
        "chain_id": uuid4(),
        "position": 1,
        "name": "finance",
        "approvers": {"role": "finance_manager"},
    },
    "approval_requests": lambda: {
        "id": uuid4(),
        "instance_id": uuid4(),
        "step_execution_id": uuid4(),
        "node_id": "review",
        "entity_version": 0,
        "approvers": ["bea"],
        "requested_by": "ann",
    },
    "approval_decisions": lambda: {
        "id": uuid4(),
        "request_id": uuid4(),
        "approver_id": "bea",
        "decision": "approved",
        "entity_version": 0,
    },
    "workflow_rules": lambda: {
        "id": uuid4(),
        "name": _word("rule"),
        "entity_type": "invoice",
        "action": "*",
        "timing": "before",
        "condition": "entity.grand_total > 0",
        "outcome": "deny",
        "outcome_json": {"message": "no"},
    },
    "workflow_rule_evaluations": lambda: {
        "id": uuid4(),
        "rule_id": uuid4(),
        "rule_name": "limit",
        "timing": "before",
        "action": "update",
        "entity_type": "invoice",
        "entity_id": uuid4(),
        "entity_version": 1,
        "expression": "entity.grand_total > 0",
        "variables": {},
        "result": False,
        "actor_id": "ann",
        "at": START,
    },
}


def row(table: str, **given: Any) -> Row:
    """A valid row of org acme, but for what is given; what it refers to is not there yet."""
    return {"org_id": "acme"} | _BLANKS[table]() | given


async def insert(connection: Connection, table: str, **given: Any) -> asyncpg.Record:
    """Insert `row(table, …)` and give it back with the columns that the database filled in."""
    values = row(table, **given)
    columns = ", ".join(values)
    marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    # The names are this module's own and its callers'; values go as parameters.
    sql = f"INSERT INTO assent.{table} ({columns}) VALUES ({marks}) RETURNING *"  # noqa: S608
    return await connection.fetchrow(sql, *values.values())


async def update(connection: Connection, table: str, found: Mapping[str, Any], **given: Any) -> int:
    """Set the given columns of one row by plain SQL; answers how many rows there were to set."""
    settings = ", ".join(f"{column} = ${number}" for number, column in enumerate(given, start=3))
    sql = f"UPDATE assent.{table} SET {settings} WHERE org_id = $1 AND id = $2"  # noqa: S608
    answer = await connection.execute(sql, found["org_id"], found["id"], *given.values())
    return int(answer.removeprefix("UPDATE "))


async def delete(connection: Connection, table: str, found: Mapping[str, Any]) -> int:
    sql = f"DELETE FROM assent.{table} WHERE org_id = $1 AND id = $2"  # noqa: S608
    answer = await connection.execute(sql, found["org_id"], found["id"])
    return int(answer.removeprefix("DELETE "))


async def insert_member(connection: Connection, **given: Any) -> asyncpg.Record:
    return await insert(connection, "members", **given)


async def insert_api_key(connection: Connection, **given: Any) -> asyncpg.Record:
    """A key, and its member where none is named."""
    if "user_id" not in given:
        member = await insert_member(connection, org_id=given.get("org_id", "acme"))
        given["user_id"] = member["user_id"]
    return await insert(connection, "api_keys", **given)


async def insert_definition(connection: Connection, **given: Any) -> asyncpg.Record:
    """A flow, in draft and compiled; see `definition_of_kind` for the others."""
    return await insert(connection, "workflow_definitions", **given)


def definition_of_kind(kind: str) -> Row:
    """The columns that a definition of this kind must have, and none that it must not."""
    columns: dict[str, Row] = {
        "envelope": {
            "org_id": "*",
            "status": "published",
            "is_default": True,
            "entity_type": "invoice",
            "nodes_json": [],
            "edges_json": [],
            "slots_json": [],
        },
        "org_patch": {
            "entity_type": "invoice",
            "body_patches_json": {},
            "base_ref": {"entity_type": "invoice", "envelope_version": 1},
        },
        "effective": {"entity_type": "invoice", "nodes_json": [], "edges_json": []},
        "flow": {},
    }
    blank = row("workflow_definitions", definition_kind=kind)
    unused = {} if kind in ("effective", "flow") else dict.fromkeys(_COMPILED)
    unused |= {} if kind == "flow" else {"source_json": None}
    return blank | unused | columns[kind]


_COMPILED: Final = ("compiled_json", "compiled_hash", "compiler_version")


async def insert_instance(connection: Connection, **given: Any) -> asyncpg.Record:
    """A running instance, of no entity unless one is named; one that has ended ended at START."""
    if given.get("status") in ("completed", "failed", "cancelled"):
        given = {"completed_at": START} | given
    return await insert(connection, "workflow_instances", **given)


async def insert_instance_of(
    connection: Connection, entity: Mapping[str, Any], **given: Any
) -> asyncpg.Record:
    about = {name: entity[name] for name in ("org_id", "entity_type")}
    about |= {"entity_id": entity["id"], "entity_version": entity["version"]}
    return await insert_instance(connection, **about | given)


async def insert_step(connection: Connection, **given: Any) -> asyncpg.Record:
    return await insert(connection, "workflow_step_executions", **given)


async def insert_event(connection: Connection, **given: Any) -> asyncpg.Record:
    return await insert(connection, "workflow_events_outbox", **given)


async def insert_effect(connection: Connection, **given: Any) -> asyncpg.Record:
    return await insert(connection, "workflow_side_effects_outbox", **given)


async def insert_chain_step(connection: Connection, **given: Any) -> asyncpg.Record:
    """A chain's step, and its chain where none is named."""
    if "chain_id" not in given:
        chain = await insert(connection, "approval_chains", org_id=given.get("org_id", "acme"))
        given["chain_id"] = chain["id"]
    return await insert(connection, "approval_chain_steps", **given)


async def insert_request(connection: Connection, **given: Any) -> asyncpg.Record:
    """An approval request, and its instance where none is named."""
    if "instance_id" not in given:
        instance = await insert_instance(connection, org_id=given.get("org_id", "acme"))
        given["instance_id"] = instance["id"]
    return await insert(connection, "approval_requests", **given)


async def insert_decision(connection: Connection, **given: Any) -> asyncpg.Record:
    """A decision, and its request where none is named."""
    if "request_id" not in given:
        request = await insert_request(connection, org_id=given.get("org_id", "acme"))
        given["request_id"] = request["id"]
    return await insert(connection, "approval_decisions", **given)


def change(**given: Any) -> Row:
    """One record for `assent.write_entities`: unless told otherwise, a new invoice that may be edited."""
    data = given.get("data", {"number": "1", "grand_total": 100})
    blank = {
        "layer": 1,
        "org_id": "acme",
        "entity_id": uuid4(),
        "version_id": uuid4(),
        "audit_id": uuid4(),
        "entity_type": "invoice",
        "contract_version": 1,
        "from_version": None,
        "version": 1,
        "from_state": None,
        "state": "draft",
        "data": data,
        "data_hash": canonical_hash(data),
        "edit_window": "editable",
        "at": START,
        "actor_id": "ann",
        "actor_kind": "user",
        "actor_roles": ["clerk"],
        "action": "create",
        "changed": {},
        "channel": "test",
    }
    return blank | given


def change_of(entity: Mapping[str, Any], **given: Any) -> Row:
    """The record that takes `entity` to its next version and changes only what is given."""
    same = ("org_id", "entity_type", "contract_version", "partition_id", "state", "data", "edit_window")
    before = {name: entity[name] for name in same}
    numbered = {
        "entity_id": entity["id"],
        "from_version": entity["version"],
        "version": entity["version"] + 1,
        "from_state": entity["state"],
        "action": "update",
    }
    return change(**before | numbered | given)


async def write_entities(connection: Connection, *changes: Row) -> None:
    layers = max(found["layer"] for found in changes)
    await connection.execute("SELECT assent.write_entities($1::jsonb, $2)", list(changes), layers)


async def insert_entity(connection: Connection, **given: Any) -> asyncpg.Record:
    """Create an entity through its door, and read it as it stands; takes what `change` takes."""
    created = change(**given)
    await write_entities(connection, created)
    return await read_entity(connection, created["org_id"], created["entity_id"])


async def read_entity(connection: Connection, org_id: str, entity_id: Any) -> asyncpg.Record:
    return await connection.fetchrow(
        "SELECT * FROM assent.current_entities WHERE org_id = $1 AND id = $2", org_id, entity_id
    )


async def insert_one_of_each(connection: Connection, org_id: str) -> None:
    """At least one row of this org in every table that orgs have rows in."""
    instance = await insert_instance_of(connection, await insert_entity(connection, org_id=org_id))
    about = {"org_id": org_id, "instance_id": instance["id"]}
    await insert_step(connection, **about)
    await insert_event(connection, **about)
    await insert_effect(connection, **about)
    for table in ("workflow_step_receipts", "workflow_outbox_receipts"):
        await insert(connection, table, **about)
    await insert_decision(connection, org_id=org_id)
    await insert_chain_step(connection, org_id=org_id)
    await insert_api_key(connection, org_id=org_id)
    for table in ("orgs", "role_capabilities", "workflow_definitions", "workflow_rules"):
        await insert(connection, table, org_id=org_id)
    await insert(connection, "workflow_rule_evaluations", org_id=org_id)
