"""Row security: an org sees and writes its own rows, whatever the table, and without an org nothing."""

# ruff: noqa: S608 - the names of tables come from the catalogue

import pytest

from assent.store.roles import ENGINE_ROLE
from tests.blank_rows import definition_of_kind, row
from tests.plain_sql import PRIVILEGE, acting_for, check_deferred, refused
from tests.rows import (
    change,
    insert,
    insert_effect,
    insert_entity,
    insert_instance_of,
    insert_one_of_each,
    read_entity,
    set_edit_windows,
    window,
    write_entities,
)

OWN_ORG = "(org_id = ( SELECT assent.org_id() AS org_id))"

ROWS_OF_NOBODY = {
    *(
        "schema_migrations",
        "schema_grants",
        "workflow_batches",
        "worker_leases",
        "declared_names",
        "nodes",
        "resources",
    ),
}
"""Tables of the owner alone: they have no org, and no role under row security sees a row of them."""

UNGUARDED_TABLES = """
SELECT c.relname
  FROM pg_class c
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT (c.relrowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid))
"""

POLICIES = """
SELECT c.relname, p.polname || CASE WHEN p.polpermissive THEN '' ELSE ' (restrictive)' END AS polname,
       p.polcmd::text, pg_get_expr(p.polqual, c.oid) AS seen,
       pg_get_expr(p.polwithcheck, c.oid) AS written
  FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p')
 ORDER BY 1, 2
"""

UNIQUE_INDEXES_NOT_LED_BY_ORG = """
SELECT i.indexrelid::regclass::text
  FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
  JOIN pg_attribute org ON org.attrelid = c.oid AND org.attname = 'org_id'
 WHERE c.relnamespace = 'assent'::regnamespace AND i.indisunique AND i.indkey[0] <> org.attnum
"""

READABLE = """
SELECT c.relname
  FROM pg_class c
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p', 'v')
   AND has_table_privilege($1, c.oid, 'SELECT')
 ORDER BY 1
"""

UPDATABLE = """
SELECT c.relname, array_agg(a.attname::text) AS columns
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE c.relnamespace = 'assent'::regnamespace AND has_column_privilege($1, c.oid, a.attnum, 'UPDATE')
 GROUP BY c.relname
"""

WITH_PRIVILEGE = """
SELECT c.relname
  FROM pg_class c
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p')
   AND has_table_privilege($1, c.oid, $2)
"""


OF_ALL_ORGS = {"entity_indexes"}
"""Tables whose rows are for all orgs, and of none."""


@pytest.fixture
async def two_orgs(owner):
    """Acme and Globex, each with rows in every table."""
    for org_id in ("acme", "globex"):
        await insert_one_of_each(owner, org_id)
        await insert_effect(owner, org_id=org_id, status="dead", lane="mail")  # for the view of incidents
    await check_deferred(owner)
    return owner


async def _names(connection, sql, *arguments):
    return [found[0] for found in await connection.fetch(sql, *arguments)]


async def _count(connection, table, org_id):
    return await connection.fetchval(f"SELECT count(*) FROM assent.{table} WHERE org_id = $1", org_id)


async def test_every_table_and_partition_has_row_security_and_a_policy(owner):
    assert await _names(owner, UNGUARDED_TABLES) == []


async def test_table_without_a_policy_would_be_found(owner):
    await owner.execute("CREATE TABLE assent.bare (org_id text)")
    await owner.execute("CREATE TABLE assent.half (org_id text)")
    await owner.execute("ALTER TABLE assent.half ENABLE ROW LEVEL SECURITY")
    assert sorted(await _names(owner, UNGUARDED_TABLES)) == ["bare", "half"]


async def test_every_policy_compares_the_org_for_reading_and_for_writing(owner):
    await owner.execute("SET LOCAL search_path = pg_catalog")  # so that names are written out
    found = {(table, policy): what for table, policy, *what in await owner.fetch(POLICIES)}
    for table in ROWS_OF_NOBODY:
        assert found.pop((table, "rows_of_nobody")) == ["*", "false", None]
    shared = found.pop(("workflow_definitions", "definitions_of_all_orgs_are_readable"))
    assert shared == ["r", "(org_id = '*'::text)", None]
    assert found.pop(("entity_indexes", "indexes_of_all_orgs_are_readable")) == shared
    assert found.pop(("rejection_codes", "rejection_codes_of_all_orgs_are_readable")) == shared
    for table, rows in (("workflow_definitions", "definitions"), ("rejection_codes", "rejection_codes")):
        inserted = found.pop((table, f"{rows}_of_all_orgs_are_the_owners (restrictive)"))
        assert inserted == ["a", None, "(org_id <> '*'::text)"]
        updated = found.pop((table, f"{rows}_of_all_orgs_stay_the_owners (restrictive)"))
        assert updated == ["w", "(org_id <> '*'::text)", "(org_id <> '*'::text)"]
    for table, policy in (("jobs", "clients_see_tasks"), ("job_attempts", "clients_see_attempts_at_tasks")):
        narrowed = found.pop(
            (table, f"{policy} (restrictive)")
        )  # one that permits would show other orgs' rows
        assert narrowed == ["r", "(kind = 'task'::text)", None]
    assert {policy for _, policy in found} == {"rows_of_own_org"}
    assert [table for table, what in found.items() if what != ["*", OWN_ORG, OWN_ORG]] == []


async def test_org_leads_every_primary_key_and_unique_index(owner):
    assert await _names(owner, UNIQUE_INDEXES_NOT_LED_BY_ORG) == []


async def test_every_table_has_an_org_but_those_that_no_org_may_see(owner):
    without = await owner.fetch(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'assent'::regnamespace"
        " AND c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT FROM pg_attribute a"
        " WHERE a.attrelid = c.oid AND a.attname = 'org_id' AND a.attnotnull)"
    )
    assert {found["relname"] for found in without} == ROWS_OF_NOBODY


async def test_application_role_is_neither_above_row_security_nor_an_owner(owner):
    role = await owner.fetchrow("SELECT * FROM pg_roles WHERE rolname = $1", ENGINE_ROLE)
    powers = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolcanlogin")
    assert [power for power in powers if role[power]] == []
    assert await owner.fetchval("SELECT count(*) FROM pg_auth_members WHERE member = $1", role["oid"]) == 0
    owned = await owner.fetchval(
        "SELECT (SELECT count(*) FROM pg_class WHERE relowner = $1)"
        " + (SELECT count(*) FROM pg_proc WHERE proowner = $1)"
        " + (SELECT count(*) FROM pg_namespace WHERE nspowner = $1)",
        role["oid"],
    )
    assert owned == 0


async def test_org_sees_its_own_rows_and_no_others_in_every_table(two_orgs):
    tables = [name for name in await _names(two_orgs, READABLE, ENGINE_ROLE) if name not in OF_ALL_ORGS]
    assert len(tables) > 15
    async with acting_for(two_orgs, "globex"):
        own = {table for table in tables if await _count(two_orgs, table, "globex") > 0}
        foreign = {table for table in tables if await _count(two_orgs, table, "acme") > 0}
    assert (own, foreign) == (set(tables), set())


async def test_without_an_org_nothing_is_visible(two_orgs):
    tables = await _names(two_orgs, READABLE, ENGINE_ROLE)
    async with acting_for(two_orgs, None):
        visible = {t: await two_orgs.fetchval(f"SELECT count(*) FROM assent.{t}") for t in tables}
        of_all_orgs = await two_orgs.fetchval(
            "SELECT count(*) FROM assent.rejection_codes WHERE org_id = '*'"
        )
    assert {table: number for table, number in visible.items() if number} == {"rejection_codes": of_all_orgs}


async def test_foreign_rows_are_out_of_reach_of_update_and_delete(two_orgs):
    updatable = dict(await two_orgs.fetch(UPDATABLE, ENGINE_ROLE))
    deletable = await _names(two_orgs, WITH_PRIVILEGE, ENGINE_ROLE, "DELETE")
    assert len(updatable) > 8
    assert len(deletable) > 4
    async with acting_for(two_orgs, "globex"):
        for table, (column, *_) in updatable.items():
            sql = f"UPDATE assent.{table} SET {column} = {column} WHERE org_id = 'acme'"
            assert await two_orgs.execute(sql) == "UPDATE 0", table
        for table in deletable:
            assert await two_orgs.execute(f"DELETE FROM assent.{table} WHERE org_id = 'acme'") == "DELETE 0"


async def test_rows_cannot_be_inserted_for_another_org_into_any_table(owner):
    tables = await _names(owner, WITH_PRIVILEGE, ENGINE_ROLE, "INSERT")
    assert len(tables) > 12
    async with acting_for(owner, "globex"):
        for table in tables:
            async with refused(owner, PRIVILEGE, saying="row-level security policy"):
                await insert(owner, table, **row(table, org_id="acme"))


async def test_rows_cannot_be_inserted_without_an_org(owner):
    async with acting_for(owner, None), refused(owner, PRIVILEGE, saying="row-level security policy"):
        await insert(owner, "members")


async def test_own_row_cannot_be_handed_to_another_org(two_orgs):
    updatable = dict(await two_orgs.fetch(UPDATABLE, ENGINE_ROLE))
    movable = [table for table, columns in updatable.items() if "org_id" in columns]
    assert len(movable) > 5
    async with acting_for(two_orgs, "globex"):
        for table in movable:
            async with refused(two_orgs, PRIVILEGE, saying="row-level security policy"):
                await two_orgs.execute(f"UPDATE assent.{table} SET org_id = 'acme'")


async def test_partitions_cannot_be_read_around_their_table(two_orgs):
    partitions = await _names(
        two_orgs,
        "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relname LIKE 'workflow%'",
    )
    assert len(partitions) >= 10
    async with acting_for(two_orgs, "globex"):
        for partition in partitions:
            async with refused(two_orgs, PRIVILEGE, saying="permission denied for table"):
                await two_orgs.fetch(f"SELECT * FROM assent.{partition}")


async def test_partition_shows_an_org_its_own_rows_even_where_somebody_granted_it(two_orgs):
    await two_orgs.execute("GRANT SELECT ON assent.workflow_events_outbox_2026_03 TO assent_engine")
    async with acting_for(two_orgs, "globex"):
        seen = await _names(two_orgs, "SELECT org_id FROM assent.workflow_events_outbox_2026_03")
    assert seen == ["globex"]


async def test_rows_of_nobody_stay_hidden_even_where_somebody_granted_them(owner):
    batch = "INSERT INTO assent.workflow_batches VALUES (gen_random_uuid(), '{}', '{}', assent.now())"
    await owner.execute(batch)
    await owner.execute("INSERT INTO assent.worker_leases VALUES (gen_random_uuid(), assent.now())")
    await owner.execute("INSERT INTO assent.declared_names VALUES ('task:scan', assent.now())")
    await owner.execute("INSERT INTO assent.resources VALUES ('ollama', 2)")
    node = (
        "INSERT INTO assent.nodes (node_id, host, pid, version, serves, duties, task_types, expected_until) "
    )
    await owner.execute(node + "VALUES (gen_random_uuid(), 'a', 1, '1', true, '{}', '{}', assent.now())")
    for table in ROWS_OF_NOBODY:
        await owner.execute(f"GRANT SELECT ON assent.{table} TO assent_engine")
        assert await owner.fetchval(f"SELECT count(*) FROM assent.{table}") > 0
        async with acting_for(owner, "acme"):
            assert await owner.fetchval(f"SELECT count(*) FROM assent.{table}") == 0


async def test_envelopes_of_all_orgs_can_be_read_by_any_and_written_by_none(owner):
    envelope = await insert(owner, "workflow_definitions", **definition_of_kind("envelope"))
    async with acting_for(owner, "globex"):
        assert await _names(owner, "SELECT id FROM assent.workflow_definitions") == [envelope["id"]]
        assert await owner.execute("UPDATE assent.workflow_definitions SET name = 'mine'") == "UPDATE 0"
        assert await owner.execute("DELETE FROM assent.workflow_definitions") == "DELETE 0"
        async with refused(owner, PRIVILEGE, saying="row-level security policy"):
            await insert(owner, "workflow_definitions", **definition_of_kind("envelope"))


async def test_lock_entities_refuses_another_org(owner):
    entity = await insert_entity(owner)
    lock = "SELECT count(*) FROM assent.lock_entities($1, $2)"
    async with acting_for(owner, "globex"):
        async with refused(owner, PRIVILEGE, saying="acts for org 'globex', not for 'acme'"):
            await owner.fetchval(lock, ["acme"], [entity["id"]])
        # Under one's own org the id is simply not there: another org's id is no different from none.
        assert await owner.fetchval(lock, ["globex"], [entity["id"]]) == 0
    async with acting_for(owner, "acme"):
        assert await owner.fetchval(lock, ["acme"], [entity["id"]]) == 1


async def test_write_entities_refuses_another_org_also_when_only_one_of_its_changes_is_foreign(owner):
    own, foreign = change(org_id="globex"), change(org_id="acme")
    async with acting_for(owner, "globex"):
        async with refused(owner, PRIVILEGE, saying="acts for org 'globex', not for 'acme'"):
            await write_entities(owner, own, foreign)
        await write_entities(owner, own)
        assert await read_entity(owner, "globex", own["entity_id"]) is not None


async def test_write_entities_refuses_a_transaction_without_an_org(owner):
    async with acting_for(owner, None), refused(owner, PRIVILEGE, saying="acts for org NULL"):
        await write_entities(owner, change())


async def test_set_edit_windows_refuses_another_org(owner):
    entity = await insert_entity(owner)
    instance = await insert_instance_of(owner, entity)
    locked = window(entity, instance, "locked")
    async with acting_for(owner, "globex"), refused(owner, PRIVILEGE, saying="'globex', not for 'acme'"):
        await set_edit_windows(owner, locked)
    async with acting_for(owner, "acme"):
        await set_edit_windows(owner, locked)
        assert (await read_entity(owner, "acme", entity["id"]))["edit_window"] == "locked"
