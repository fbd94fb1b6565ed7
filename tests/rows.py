"""Rows for tests, written by plain SQL: each is valid as it comes, and different only where a test says so.

Nothing here goes through the kernel. Entities are the exception that the schema itself makes: they have one
door, `assent.write_entities`, and `change` builds what it takes.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import asyncpg

from assent.model.canonical import canonical_hash
from assent.model.ids import new_id
from assent.store.connection import Connection
from tests.blank_rows import TABLES, Row, row
from tests.postgres import START

Readable = Mapping[str, Any] | asyncpg.Record
"""A row, as it is written or as it was read."""


async def insert(connection: Connection, table: str, **given: Any) -> asyncpg.Record:
    """Insert `row(table, …)` and give it back with the columns that the database filled in."""
    values = row(table, **given)
    columns = ", ".join(values)
    marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    # The names are this module's own and its callers'; values go as parameters.
    sql = f"INSERT INTO assent.{table} ({columns}) VALUES ({marks}) RETURNING *"  # noqa: S608
    return await connection.fetchrow(sql, *values.values())


async def update(connection: Connection, table: str, found: Readable, **given: Any) -> int:
    """Set the given columns of one row by plain SQL; answers how many rows there were to set."""
    settings = ", ".join(f"{column} = ${number}" for number, column in enumerate(given, start=3))
    sql = f"UPDATE assent.{table} SET {settings} WHERE org_id = $1 AND id = $2"  # noqa: S608
    answer = await connection.execute(sql, found["org_id"], found["id"], *given.values())
    return int(answer.removeprefix("UPDATE "))


async def delete(connection: Connection, table: str, found: Readable) -> int:
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


async def insert_session(connection: Connection, **given: Any) -> asyncpg.Record:
    """A session without a key, and its member where none is named."""
    if "user_id" not in given:
        member = await insert_member(connection, org_id=given.get("org_id", "acme"))
        given["user_id"] = member["user_id"]
    return await insert(connection, "sessions", **given)


async def insert_definition(connection: Connection, **given: Any) -> asyncpg.Record:
    """A flow, in draft and compiled; see `blank_rows.definition_of_kind` for the others."""
    return await insert(connection, "workflow_definitions", **given)


async def insert_instance(connection: Connection, **given: Any) -> asyncpg.Record:
    """A running instance, of no entity unless one is named; one that has ended ended at START."""
    if given.get("status") in ("completed", "failed", "cancelled"):
        given = {"completed_at": START} | given
    return await insert(connection, "workflow_instances", **given)


async def insert_instance_of(connection: Connection, entity: Readable, **given: Any) -> asyncpg.Record:
    about = {name: entity[name] for name in ("org_id", "entity_type")}
    about |= {"entity_id": entity["id"], "entity_version": entity["version"]}
    return await insert_instance(connection, **about | given)


async def insert_step(connection: Connection, **given: Any) -> asyncpg.Record:
    return await insert(connection, "workflow_step_executions", **given)


async def insert_event(connection: Connection, **given: Any) -> asyncpg.Record:
    return await insert(connection, "workflow_events_outbox", **given)


JOB_COLUMNS: Final = frozenset(
    {
        *(
            "lane",
            "status",
            "attempts",
            "attempts_max",
            "run_at",
            "repeatable",
            "worker_id",
            "claimed_at",
            "losses",
        ),
        *("suspect", "ended_at", "priority"),
    }
)


async def insert_effect(connection: Connection, **given: Any) -> dict[str, Any]:
    """An effect and its job, and the worker that has claimed it where it is running."""
    error = given.pop("error", None)
    about = {name: given.pop(name) for name in list(given) if name in JOB_COLUMNS}
    if error is not None:
        about = {"attempts": 1} | about
    # As many attempts as it is to have made.
    given = {"attempts_max": max(8, about.get("attempts", 0))} | given
    if "attempts_max" in about:
        given["attempts_max"] = about["attempts_max"]
    effect = await insert(connection, "effects", **given)
    of_effect = {name: effect[name] for name in ("org_id", "id", "created_at", "attempts_max")}
    job = await insert_job(connection, **{"kind": "effect", "lane": "email"} | of_effect | about)
    if error is not None:
        failed = {"outcome": "failed", "code": "FAILED", "error": error, "attempt": job["attempts"]}
        of_job = {"org_id": job["org_id"], "job_id": job["id"], "kind": "effect"}
        await insert(connection, "job_attempts", **of_job, **failed)
    return dict(effect) | dict(job)


async def insert_job(connection: Connection, **given: Any) -> asyncpg.Record:
    """A job, with the worker that has claimed it where it is running, and the time where it has ended."""
    if given.get("status") == "running":
        given = {"worker_id": uuid4(), "claimed_at": START} | given
    if given.get("status") in ("done", "cancelled", "dead"):
        given = {"ended_at": START} | given
    return await insert(connection, "jobs", **given)


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


async def insert_request_about(connection: Connection, entity: Readable, **given: Any) -> asyncpg.Record:
    """A request for approval of an entity as it stands."""
    about = {name: entity[name] for name in ("org_id", "entity_type", "content_hash")}
    about |= {"entity_id": entity["id"], "entity_version": entity["version"]}
    about |= {"snapshot_version_id": entity["version_id"]}
    return await insert_request(connection, **about | given)


async def insert_seat(connection: Connection, request: Readable, **given: Any) -> asyncpg.Record:
    """A seat at a request."""
    about = {"org_id": request["org_id"], "request_id": request["id"], "instance_id": request["instance_id"]}
    return await insert(connection, "workflow_seats", **about | given)


async def insert_decision(connection: Connection, **given: Any) -> asyncpg.Record:
    """A decision, with its request, its seat and the delegation of a stand-in where none are named."""
    org_id = given.get("org_id", "acme")
    if "request_id" not in given:
        # Of a request that lets one person answer twice, so that a copy is refused for being one.
        given["request_id"] = (await insert_request(connection, org_id=org_id, may_repeat=True))["id"]
    if "seat_id" not in given:
        holder = given.get("on_behalf_of") or given.get("approver_id", "bea")
        seat = {"org_id": org_id, "request_id": given["request_id"], "user_id": holder}
        given["seat_id"] = (await insert(connection, "workflow_seats", **seat))["id"]
    if given.get("on_behalf_of") and given.pop("lends", True):
        names = {"from_user": given["on_behalf_of"], "to_user": given.get("approver_id", "bea")}
        await insert(
            connection, "approval_delegations", org_id=org_id, created_by=names["from_user"], **names
        )
    return await insert(connection, "approval_decisions", **given)


async def insert_outside_request(connection: Connection, **given: Any) -> asyncpg.Record:
    """What is asked of an outside party."""
    return await insert(connection, "outside_requests", **given)


async def insert_delivery(connection: Connection, **given: Any) -> dict[str, Any]:
    """A bundle that came, and its request where none is named."""
    if "request_id" not in given:
        request = await insert_outside_request(connection, org_id=given.get("org_id", "acme"))
        given["request_id"] = request["id"]
    about = {name: given.pop(name) for name in list(given) if name in JOB_COLUMNS}
    delivery = await insert(connection, "outside_request_deliveries", **given)
    of_delivery = {"org_id": delivery["org_id"], "id": delivery["id"], "attempts_max": 5}
    job = await insert_job(connection, **{"kind": "result", "lane": "kyc.vendor"} | of_delivery | about)
    return dict(delivery) | dict(job)


async def insert_item(connection: Connection, **given: Any) -> asyncpg.Record:
    """An item of a delivery, which comes with it where none is named."""
    if "delivery_id" not in given:
        delivery = await insert_delivery(connection, org_id=given.get("org_id", "acme"))
        given = {"delivery_id": delivery["id"], "request_id": delivery["request_id"]} | given
    return await insert(connection, "outside_request_items", **given)


async def insert_history(connection: Connection, **given: Any) -> asyncpg.Record:
    """An entry of a request's history, and the request where none is named."""
    if "request_id" not in given:
        request = await insert_outside_request(connection, org_id=given.get("org_id", "acme"))
        given["request_id"] = request["id"]
    return await insert(connection, "outside_request_history", **given)


async def insert_document_version(connection: Connection, **given: Any) -> asyncpg.Record:
    """A version, and its document where none is named."""
    if "document_id" not in given:
        document = await insert(connection, "documents", org_id=given.get("org_id", "acme"))
        given["document_id"] = document["id"]
    return await insert(connection, "document_versions", **given)


async def insert_version_with_file(connection: Connection, **given: Any) -> asyncpg.Record:
    """A version with a file of its own, unless one is named."""
    if "blob_id" not in given:
        blob = await insert(connection, "blobs", org_id=given.get("org_id", "acme"))
        given["blob_id"] = blob["id"]
    return await insert_document_version(connection, **given)


async def insert_upload_link(connection: Connection, **given: Any) -> asyncpg.Record:
    """A link, and its request where none is named."""
    if "request_id" not in given:
        request = await insert_outside_request(connection, org_id=given.get("org_id", "acme"))
        given["request_id"] = request["id"]
    return await insert(connection, "upload_links", **given)


def change(**given: Any) -> Row:
    """One record for `assent.write_entities`: unless told otherwise, a new invoice that may be edited."""
    data = given.get("data", {"number": "1", "grand_total": 100})
    blank = {
        "layer": 1,
        "org_id": "acme",
        "entity_id": new_id(START),
        "version_id": new_id(START),
        "audit_id": new_id(START),
        "entity_type": "invoice",
        "contract_version": 1,
        "from_version": None,
        "version": 1,
        "from_state": None,
        "state": "draft",
        "data": data,
        "data_hash": canonical_hash(data),
        "content_hash": canonical_hash(data),
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


def change_of(entity: Readable, **given: Any) -> Row:
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


def window(entity: Readable, instance: Readable, edit_window: str, *, ended: bool = False) -> Row:
    """One record for `assent.set_edit_windows`."""
    return {
        "org_id": entity["org_id"],
        "entity_id": entity["id"],
        "instance_id": instance["id"],
        "edit_window": edit_window,
        "ended": ended,
    }


async def set_edit_windows(connection: Connection, *windows: Row) -> None:
    await connection.execute("SELECT assent.set_edit_windows($1::jsonb)", list(windows))


async def insert_one_of_each(connection: Connection, org_id: str) -> None:
    """At least one row of this org in every table that orgs have rows in."""
    await insert_instance_of(connection, await insert_entity(connection, org_id=org_id))
    # These bring what they refer to; a blank of any other table stands alone.
    request = await insert_request(connection, org_id=org_id)
    await insert_decision(connection, org_id=org_id)
    await insert_seat(connection, request)
    await insert_chain_step(connection, org_id=org_id)
    await insert_api_key(connection, org_id=org_id)
    await insert_session(connection, org_id=org_id)
    item = await insert_item(connection, org_id=org_id)
    await insert_history(connection, org_id=org_id, request_id=item["request_id"])
    await insert_document_version(connection, org_id=org_id)
    await insert_upload_link(connection, org_id=org_id)
    for table in TABLES - _WITH_PARENTS:
        await insert(connection, table, org_id=org_id)


_WITH_PARENTS: Final = {
    "api_keys",
    "approval_chain_steps",
    "approval_decisions",
    "approval_requests",
    "document_versions",
    "outside_request_deliveries",
    "outside_request_history",
    "outside_request_items",
    "outside_requests",
    "sessions",
    "upload_links",
    "workflow_seats",
}
