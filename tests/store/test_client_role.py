"""What a host application or a report may do that has joined `assent_client`: the whole catalogue, tried one by one."""

# ruff: noqa: S608 - the names of tables come from the catalogue

from urllib.parse import urlsplit, urlunsplit

import pytest

from assent.store.connection import connect
from assent.store.roles import CLIENT_ROLE, ENGINE_ROLE
from tests.plain_sql import PRIVILEGE, refused
from tests.postgres import SETTINGS, START
from tests.rows import insert, insert_job, insert_one_of_each
from tests.store.test_grants import FUNCTIONS, RELATIONS, is_permitted, rights

ALL = "every column"

READS = {
    "entities": ALL,
    "entity_versions": ALL,
    "audit_log": ALL,
    "role_capabilities": ALL,
    "workflow_instances": ALL,
    "workflow_seats": ALL,
    "workflow_rules": ALL,
    "workflow_rule_evaluations": ALL,
    "approval_requests": ALL,
    "approval_decisions": ALL,
    "approval_chains": ALL,
    "approval_chain_steps": ALL,
    "approval_delegations": ALL,
    "outside_requests": ALL,
    "outside_request_items": ALL,
    "document_requirements": ALL,
    "jobs": ALL,
    "task_submissions": ALL,
    "job_attempts": ALL,
    "orgs": ALL + " but settings",
    "members": ALL + " but email",
    "workflow_definitions": ALL
    + " but base_ref body_patches_json compiled_json edges_json edited_by nodes_json slots_json"
    " source_json walls",
    "workflow_step_executions": ALL + " but idempotency_key input_json output_json waiting_for_event_key",
    "workflow_forms": ALL + " but draft_at draft_by draft_json draft_problems",
}
"""What assent_client may read. Of a table that is not here, nothing; and it writes to none but one."""

INSERTS = {"incoming_results": "cargo error items key kind org_id payload request_id status"}
"""Where it may insert, and into which columns; it reads nothing of it."""

INSERTABLE = """
SELECT c.relname, string_agg(a.attname, ' ' ORDER BY a.attname) AS columns
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p', 'v')
   AND has_column_privilege($1, c.oid, a.attnum, 'INSERT')
 GROUP BY c.relname
"""


@pytest.fixture
async def client(database, login):
    """A host application's connection, in a transaction for acme."""
    parts = urlsplit(database.url)
    netloc = f"{login}@{parts.netloc.rpartition('@')[2]}"
    connection = await connect(urlunsplit(parts._replace(netloc=netloc)), SETTINGS)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT set_config('assent.org_id', 'acme', true)")
    yield connection
    await transaction.rollback()
    await connection.close()


@pytest.fixture
async def two_orgs(database):
    """One row of each table, for acme and for globex."""
    async with database.transaction(None) as connection:
        for org in ("acme", "globex"):
            await insert_one_of_each(connection, org)


async def _hidden(connection, table, columns):
    """The columns that cannot be read; none where every one can."""
    return [
        name
        for name in columns
        if not await is_permitted(connection, f"SELECT {name} FROM assent.{table} WHERE false")
    ]


async def test_client_reads_the_columns_of_this_list_and_inserts_results_only(client):
    relations = await client.fetch(RELATIONS)
    found = {}
    for name, _, columns in relations:
        may = await rights(client, name, columns)
        assert {right.partition(" ")[0] for right in may} <= {"SELECT"}, name
        if may:
            hidden = await _hidden(client, name, columns)
            found[name] = ALL + (f" but {' '.join(hidden)}" if hidden else "")
    assert found == READS
    assert dict(await client.fetch(INSERTABLE, CLIENT_ROLE)) == INSERTS


async def test_client_executes_its_functions_and_what_row_security_asks(client):
    assert [found["proname"] for found in await client.fetch(FUNCTIONS, CLIENT_ROLE)] == [
        "complete_task",
        "emit_event",
        "fail_task",
        "is_blank",
        "org_id",
        "push_result",
        "submit_task",
    ]


async def test_client_role_is_a_member_of_nothing_and_has_no_power_of_its_own(client):
    row = await client.fetchrow("SELECT * FROM pg_roles WHERE rolname = $1", CLIENT_ROLE)
    powers = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolreplication")
    assert [power for power in powers if row[power]] == []
    assert await client.fetchval("SELECT count(*) FROM pg_auth_members WHERE member = $1", row["oid"]) == 0


async def test_client_cannot_become_the_engine(client):
    async with refused(client, PRIVILEGE, saying=ENGINE_ROLE):
        await client.execute(f"SET LOCAL ROLE {ENGINE_ROLE}")


async def test_client_sees_the_rows_of_its_org_in_every_table_that_it_reads(client, two_orgs):
    for table in READS:
        orgs = await client.fetch(f"SELECT DISTINCT org_id FROM assent.{table}")
        assert {row["org_id"] for row in orgs} - {"*"} == {"acme"}, table


async def test_client_sees_the_content_of_entities_by_the_view(client, two_orgs):
    rows = await client.fetch("SELECT org_id, data FROM assent.current_entities")
    assert {row["org_id"] for row in rows} == {"acme"}
    assert all(row["data"] for row in rows)


async def test_client_sees_tasks_and_no_other_job(client, database):
    """What receivers answered to effects is in the attempts at them."""
    async with database.transaction(None) as connection:
        for kind in ("task", "effect", "result"):
            job = await insert_job(connection, kind=kind)
            await insert(connection, "job_attempts", job_id=job["id"], kind=kind, output={"body": "secret"})
    for table in ("jobs", "job_attempts"):
        assert [row["kind"] for row in await client.fetch(f"SELECT kind FROM assent.{table}")] == ["task"]


async def test_client_without_an_org_sees_nothing(client, two_orgs):
    await client.execute("SELECT set_config('assent.org_id', '', true)")
    for table in READS:
        assert await client.fetchval(f"SELECT count(*) FROM assent.{table} WHERE org_id <> '*'") == 0, table


async def test_client_tells_an_event_for_the_org_of_its_transaction(client, database):
    assert await client.fetchval("SELECT assent.emit_event('paid:7', '{\"amount\": 5}', 'statement 1')")
    assert not await client.fetchval("SELECT assent.emit_event('paid:7', '{\"amount\": 5}', 'statement 1')")
    async with refused(client, PRIVILEGE):
        await client.fetch("SELECT * FROM assent.workflow_events_outbox")


async def test_client_submits_a_task_in_its_own_name(client, login):
    task_id = await client.fetchval(
        "SELECT assent.submit_task('report.build', '{\"month\": \"May\"}', 'may')"
    )
    again = await client.fetchval("SELECT assent.submit_task('report.build', '{\"month\": \"May\"}', 'may')")
    row = await client.fetchrow("SELECT * FROM assent.task_submissions")
    assert (row["id"], again) == (task_id, task_id)
    assert (row["org_id"], row["submitted_by"]) == ("acme", f"sql:{login}")


async def test_client_hands_in_results_of_its_own_org_only(client, database):
    async with database.transaction(None) as connection:
        asked = {org: await insert(connection, "outside_requests", org_id=org) for org in ("acme", "globex")}
    push = "SELECT assent.push_result($1, 'evt_1', '[{\"cargo\": \"external://vault/7\"}]')"
    assert await client.fetchval(push, asked["acme"]["id"]) == "accepted"
    async with refused(client, "P0002", saying="no request"):
        await client.fetchval(push, asked["globex"]["id"])


@pytest.mark.parametrize(
    "call",
    [
        "assent.emit_event('paid:7')",
        "assent.submit_task('report.build')",
        "assent.push_result(gen_random_uuid(), 'k', '[{\"cargo\": \"external://vault/7\"}]')",
    ],
)
async def test_functions_of_the_client_need_an_org(client, call):
    await client.execute("SELECT set_config('assent.org_id', '', true)")
    async with refused(client, "22023", saying="needs an org"):
        await client.execute(f"SELECT {call}")


async def test_time_of_what_a_client_submits_is_the_databases(client, database):
    task_id = await client.fetchval("SELECT assent.submit_task('report.build')")
    created = await client.fetchval("SELECT created_at FROM assent.task_submissions WHERE id = $1", task_id)
    assert created != START
    assert created == await client.fetchval("SELECT now()")


FORGERIES = {
    "a decision": "INSERT INTO assent.approval_decisions (org_id, id, request_id, seat_id, approver_id, decision,"
    " entity_version) SELECT s.org_id, gen_random_uuid(), s.request_id, s.id, s.user_id, 'approved', 1"
    " FROM assent.workflow_seats s",
    "approved": "UPDATE assent.approval_requests SET status = 'approved', decided_at = now()",
    "applied": "UPDATE assent.approval_requests SET applied_at = now()",
    "a version": "SELECT assent.write_entities('[]', 1)",
    "a window": "SELECT assent.set_edit_windows('[]')",
    "an output": "UPDATE assent.workflow_step_executions SET output_json = '{}'",
    "a step": "INSERT INTO assent.workflow_step_executions (org_id) VALUES ('acme')",
    "a receipt": "INSERT INTO assent.workflow_step_receipts (org_id) VALUES ('acme')",
    "an end": "UPDATE assent.workflow_instances SET status = 'completed', completed_at = now()",
    "an entry": "SELECT assent.note_commands('[]')",
    "a member": "UPDATE assent.members SET roles = '{admin}'",
    "a capability": "INSERT INTO assent.role_capabilities VALUES ('acme', 'clerk', '*')",
    "a key": "UPDATE assent.api_keys SET revoked_at = NULL",
    "a definition": "UPDATE assent.workflow_definitions SET status = 'published'",
    "a delegation": "UPDATE assent.approval_delegations SET ends_at = NULL",
    "a setting": "UPDATE assent.orgs SET settings = '{}'",
    "an event": "INSERT INTO assent.workflow_events_outbox (org_id) VALUES ('acme')",
    "a task": "UPDATE assent.jobs SET status = 'complete'",
}
"""What the application's role of an older build could do with plain SQL (docs/proof.md), each in one statement."""


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_client_forges_nothing(client, two_orgs, forgery):
    async with refused(client, PRIVILEGE, saying="permission denied"):
        await client.execute(forgery)


async def test_client_that_names_an_actor_submits_in_its_own_name(client, login):
    acting = '{"actor_id": "admin", "actor_kind": "user"}'
    await client.execute("SELECT set_config('assent.acting', $1, true)", acting)
    await client.execute("SELECT assent.submit_task('report.build')")
    assert await client.fetchval("SELECT submitted_by FROM assent.task_submissions") == f"sql:{login}"
