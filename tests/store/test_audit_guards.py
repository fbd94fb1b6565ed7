"""The database notes every change of what people administer, and refuses audit entries that are written by hand."""

from typing import Any
from uuid import uuid4

import orjson
import pytest

from tests.blank_rows import row
from tests.plain_sql import NOT_BY_THE_DOOR, PRIVILEGE, acting_for, refused
from tests.postgres import START
from tests.rows import insert, insert_api_key, insert_chain_step, insert_session

ADMINISTERED: dict[str, Any] = {
    "orgs": ("org", "org_id", {"settings": {"limit": 5}}),
    "members": ("member", "user_id", {"roles": ["clerk"]}),
    "role_capabilities": ("role", "role", {"capability": "invoice:read"}),
    "api_keys": ("api_key", "id", {"scopes": ["audit:read"]}),
    "sessions": ("session", "id", {"revoked_at": START}),
    "event_sources": ("event_source", "name", {"key_prefix": "other:"}),
    "effect_secrets": ("effect_secret", "id", {"retired_at": START}),
    "named_secrets": ("secret", "name", {"hosts": ["other.example"]}),
    "schedules": ("schedule", "name", {"cron": "0 8 * * *"}),
    "mail_templates": ("mail_template", "kind", {"subject": "{title}"}),
    "member_preferences": ("preferences", "user_id", {"language": "de"}),
    "workflow_definitions": ("definition", "id", {"name": "Another"}),
    "workflow_rules": ("rule", "id", {"enabled": False}),
    "approval_delegations": ("delegation", "id", {"revoked_at": START}),
    "saved_filters": ("saved_filter", "id", {"owner_id": "bea"}),
    "approval_chains": ("chain", "id", {"active": False}),
    "approval_chain_steps": ("chain_step", "chain_id", {"mode": "all"}),
}
"""Table → the subject's kind, the column that names it, and something of it that changes."""

NAMES = {"role_capabilities": ("give", "take"), "workflow_definitions": ("create", "discard")}
CHANGES = {"approval_delegations": "revoke", "sessions": "revoke", "approval_chains": "deactivate"}

ANN = {
    "actor_id": "ann",
    "actor_kind": "user",
    "actor_roles": ["admin"],
    "channel": "http",
    "place": "203.0.113.7",
    "reason": "ticket 4711",
    "trace_id": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}

SECRETS = ("key_hash", "token_hash", "secret", "former_secret", "value")


async def acting(connection, who=ANN):
    text = orjson.dumps(who).decode() if who else ""
    await connection.execute("SELECT set_config('assent.acting', $1, true)", text)


async def log(connection):
    return await connection.fetch("SELECT * FROM assent.audit_log ORDER BY subject_kind, action")


async def made(connection, table):
    ways = {"api_keys": insert_api_key, "sessions": insert_session, "approval_chain_steps": insert_chain_step}
    if table in ways:
        return await ways[table](connection)
    return await insert(connection, table)


async def of_table(connection, table):
    """The entries about rows of one table, in the order in which they were written."""
    kind = ADMINISTERED[table][0]
    sql = "SELECT * FROM assent.audit_log WHERE subject_kind = $1 ORDER BY id"
    return await connection.fetch(sql, kind)


async def test_ids_made_in_one_transaction_sort_in_the_order_of_its_statements(owner):
    made_ids = [await owner.fetchval("SELECT assent.new_id()") for _ in range(500)]
    assert made_ids == sorted(made_ids)
    assert {made_id.version for made_id in made_ids} == {7}


@pytest.mark.parametrize("table", ADMINISTERED)
async def test_whatever_is_administered_leaves_a_row_in_the_same_transaction(owner, table):
    kind, name, change = ADMINISTERED[table]
    await acting(owner)
    found = await made(owner, table)
    column, value = next(iter(change.items()))
    await owner.execute(f"UPDATE assent.{table} SET {column} = $1", value)  # noqa: S608 - ours
    await owner.execute(f"DELETE FROM assent.{table}")  # noqa: S608 - ours
    entries = await of_table(owner, table)
    born, gone = NAMES.get(table, ("create", "delete"))
    verbs = [born, CHANGES.get(table, "change"), gone]
    assert [entry["action"] for entry in entries] == [f"{kind}.{verb}" for verb in verbs]
    for entry in entries:
        assert entry["subject_id"] == str(found[name])
        assert {key: entry[key] for key in ANN} == ANN
    before, after = entries[1]["changes"][column]
    assert before != after
    assert after == value or column in ("retired_at", "revoked_at")


@pytest.mark.parametrize("table", [name for name in ADMINISTERED if set(row(name)) & set(SECRETS)])
async def test_a_secret_is_in_no_entry(owner, table):
    found = await made(owner, table)
    await owner.execute(f"DELETE FROM assent.{table}")  # noqa: S608 - ours
    entries = await of_table(owner, table)
    assert len(entries) == 2
    for secret in set(row(table)) & set(SECRETS):
        assert found[secret] not in str([dict(entry) for entry in entries])


async def test_whoever_does_not_say_who_they_are_is_the_system_with_the_role_they_signed_in_with(owner):
    await insert(owner, "members", user_id="dora")
    (entry,) = await log(owner)
    assert (entry["actor_id"], entry["actor_kind"], entry["channel"]) == ("system", "system", "sql")
    assert entry["details"] == {"database_role": await owner.fetchval("SELECT session_user")}


async def test_what_changes_nothing_leaves_no_row(owner):
    await insert(owner, "members", user_id="dora")
    await owner.execute("UPDATE assent.members SET name = name, updated_at = $1", START)
    assert [entry["action"] for entry in await log(owner)] == ["member.create"]


async def test_the_application_changes_a_member_and_is_audited_without_a_right_to_the_log(owner):
    await insert(owner, "members", user_id="dora")
    async with acting_for(owner, "acme"):
        await acting(owner)
        await owner.execute("UPDATE assent.members SET active = false")
        async with refused(owner, PRIVILEGE, saying="permission denied for table audit_log"):
            await owner.execute("INSERT INTO assent.audit_log SELECT * FROM assent.audit_log")
        async with refused(owner, PRIVILEGE, saying="permission denied for table audit_log"):
            await owner.execute("DELETE FROM assent.audit_log")
    entries = {entry["action"]: entry["actor_id"] for entry in await log(owner)}
    assert entries == {"member.create": "system", "member.deactivate": "ann"}


async def test_a_published_and_an_archived_definition_say_so(owner):
    found = await insert(owner, "workflow_definitions", status="published")
    await owner.execute("UPDATE assent.workflow_definitions SET status = 'archived'")
    first, second = await of_table(owner, "workflow_definitions")
    assert (first["action"], second["action"]) == ("definition.publish", "definition.archive")
    assert second["changes"] == {"status": ["published", "archived"]}
    identified = {"definition_kind": "flow", "key": found["key"], "version": 1}
    assert second["details"].items() >= identified.items()


async def test_ids_of_the_database_sort_by_time_among_those_of_programs(owner):
    await owner.execute("SELECT set_config('assent.now', $1, true)", START.isoformat())
    made = await owner.fetchval("SELECT assent.new_id()")
    assert made.version == 7
    assert made.int >> 80 == int(START.timestamp() * 1000)
    later = []
    for _ in range(8):
        await owner.execute("SELECT pg_sleep(0.0002)")  # a tick is a tenth of a millisecond
        later.append(await owner.fetchval("SELECT assent.new_id()"))
    assert later == sorted(later)


def command(**given):
    return {
        "org_id": "acme",
        "id": uuid4(),
        "at": START,
        "actor_id": "ann",
        "actor_kind": "user",
        "actor_roles": [],
        "action": "workflow.start",
        "subject_kind": "instance",
        "subject_id": str(uuid4()),
        "channel": "http",
        "details": {},
    } | given


async def test_the_application_notes_commands_of_its_own_org_only(owner):
    async with acting_for(owner, "acme"):
        await owner.execute("SELECT assent.note_commands($1::jsonb)", [command()])
        async with refused(owner, PRIVILEGE, saying="acts for org 'acme', not for 'globex'"):
            await owner.execute("SELECT assent.note_commands($1::jsonb)", [command(org_id="globex")])
    assert [entry["org_id"] for entry in await log(owner)] == ["acme"]


@pytest.mark.parametrize("kind", ["member", "role", "entity", None])
async def test_nobody_notes_as_a_command_what_the_database_notes_by_itself(owner, kind):
    async with refused(
        owner, NOT_BY_THE_DOOR, saying="commands are to instances, events, effects, results, tasks, documents"
    ):
        await owner.execute("SELECT assent.note_commands($1::jsonb)", [command(subject_kind=kind)])
