"""The roles: an ordinary owner installs and runs everything, and what is missing is named with its repair."""

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from assent.store.database import Database
from assent.store.embedded.cluster import OWNER, SUPERUSER
from assent.store.errors import StoreError
from assent.store.migrate import examine, migrate
from assent.store.roles import ENGINE_ROLE, ROLES, as_script
from tests.plain_sql import PRIVILEGE
from tests.postgres import SETTINGS, own_server_in

ASSENT = Path(sys.executable).parent / "assent"


def run(*arguments, url):
    environment = {**os.environ, "ASSENT_DATABASE_URL": url, "COLUMNS": "200"}
    return subprocess.run(
        [ASSENT, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@asynccontextmanager
async def connected(url):
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def say(url, *statements):
    async with connected(url) as connection:
        for statement in statements:
            await connection.execute(statement)


@pytest.fixture
async def plain_owner_url(postgres_url):
    """A database whose owner may create neither roles nor databases, as on some managed services."""
    name = f"plain_{uuid4().hex[:12]}"
    async with connected(postgres_url) as connection:
        may_set = " WITH SET TRUE" if connection.get_server_version().major >= 16 else ""
        await connection.execute(f"CREATE ROLE {name} LOGIN")
        await connection.execute(f"GRANT {name} TO CURRENT_USER{may_set}")
        await connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        parts = urlsplit(postgres_url)
        yield urlunsplit(parts._replace(path=f"/{name}", netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.execute(f"DROP ROLE {name}")


@pytest.fixture
def own_server(run_dir):
    """A server of this test's own, since roles belong to the whole server."""
    with own_server_in(run_dir) as server:
        yield server


async def engine_answers(url):
    """Whether our processes can act for an org."""
    database = await Database.open(url, settings=SETTINGS)
    try:
        async with database.transaction("acme") as connection:
            return await connection.fetchval("SELECT count(*) FROM assent.entities") == 0
    finally:
        await database.close()


async def test_these_tests_run_as_an_owner_who_is_no_superuser(database):
    async with database.transaction(None) as connection:
        row = await connection.fetchrow(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = session_user"
        )
    assert tuple(row) == (False, False)


async def test_owner_who_may_not_grant_is_given_the_script_and_migrates_after_it_ran(
    plain_owner_url, postgres_url, template
):
    with pytest.raises(StoreError, match="Have an administrator run this") as caught:
        await migrate(plain_owner_url)
    printed = run("migrate", "--print-roles", url=plain_owner_url)
    assert printed.returncode == 0
    assert printed.stdout.strip() in str(caught.value)
    await say(postgres_url, printed.stdout)
    assert await migrate(plain_owner_url)
    assert await engine_answers(plain_owner_url)
    assert run("migrate", "--print-roles", url=plain_owner_url).stdout == "-- all roles are there\n"


async def test_server_without_the_roles_is_migrated_by_an_owner_who_may_create_none(own_server):
    superuser = own_server.url("postgres", role=SUPERUSER)
    await say(superuser, "CREATE ROLE plain LOGIN", "CREATE DATABASE plain OWNER plain")
    url = own_server.url("plain", role="plain")
    with pytest.raises(StoreError, match=f"CREATE ROLE {ENGINE_ROLE} NOLOGIN;"):
        await migrate(url)
    await say(superuser, as_script((await examine(url)).roles))
    assert await migrate(url)
    assert await engine_answers(url)


async def test_migrate_of_an_empty_server_makes_the_roles_without_a_superuser(own_server):
    await say(own_server.url("postgres"), "CREATE DATABASE assent")
    url = own_server.url("assent")
    assert await migrate(url)
    assert await engine_answers(url)
    async with connected(own_server.url("postgres", role=SUPERUSER)) as connection:
        found = await connection.fetch(
            "SELECT rolname FROM pg_roles WHERE rolname = ANY ($1::text[])"
            " AND NOT (rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb)",
            ROLES,
        )
    assert {row["rolname"] for row in found} == set(ROLES)


async def test_roles_that_are_gone_after_a_restore_are_named_and_the_statements_repair_them(own_server):
    """What a restore leaves on a server that never had the roles: every object, and none of the grants."""
    superuser, url = own_server.url("assent", role=SUPERUSER), own_server.url("assent")
    await say(own_server.url("postgres"), "CREATE DATABASE assent")
    await migrate(url)
    await say(superuser, *(f"DROP OWNED BY {role}; DROP ROLE {role}" for role in ROLES))

    for command in (("migrate",), ("health",), ("worker", "--once")):
        told = run(*command, url=url)
        assert told.returncode == 1, command
        assert "Traceback" not in told.stderr
    # `migrate` has made the roles, since it could; the rights are the operator's to give back.
    assert "rights that migrations granted" in run("migrate", url=url).stderr

    doctor = run("doctor", url=url)
    assert doctor.returncode == 1
    assert f"GRANT USAGE ON SCHEMA assent TO {ENGINE_ROLE};" in doctor.stdout
    await say(url, doctor.stdout)
    assert run("doctor", url=url).returncode == 0
    assert run("migrate", url=url).returncode == 0
    assert await engine_answers(url)


@pytest.mark.parametrize(
    "grant",
    [
        f"USAGE ON SCHEMA assent TO {ENGINE_ROLE}",
        f"SELECT ON TABLE assent.members TO {ENGINE_ROLE}",
        f"UPDATE (settings) ON TABLE assent.orgs TO {ENGINE_ROLE}",
        f"EXECUTE ON FUNCTION assent.write_entities(changes jsonb, layers integer) TO {ENGINE_ROLE}",
        f"SELECT ON TABLE assent.current_entities TO {ENGINE_ROLE}",
    ],
)
async def test_right_that_is_gone_is_named_by_doctor(database_url, grant):
    await say(database_url, f"REVOKE {grant.replace(' TO ', ' FROM ')}")
    report = await examine(database_url)
    assert (report.missing, report.beyond) == ([f"GRANT {grant}"], [])
    with pytest.raises(StoreError, match="1 rights that migrations granted"):
        await migrate(database_url)
    await say(database_url, as_script(report.missing))
    assert (await examine(database_url)).statements == []


@pytest.mark.parametrize(
    "right",
    [
        f"DELETE ON TABLE assent.audit_log %s {ENGINE_ROLE}",
        f"UPDATE (state) ON TABLE assent.entities %s {ENGINE_ROLE}",
        f"CREATE ON SCHEMA assent %s {ENGINE_ROLE}",
        "SELECT ON TABLE assent.members %s PUBLIC",
        "EXECUTE ON FUNCTION assent.calling_role() %s PUBLIC",
    ],
)
async def test_right_that_no_migration_granted_is_named_by_doctor(database_url, right):
    await say(database_url, f"GRANT {right % 'TO'}")
    told = json.loads(run("doctor", "--json", url=database_url).stdout)
    assert (told["missing"], told["beyond"]) == ([], [f"REVOKE {right % 'FROM'}"])
    await say(database_url, as_script(told["beyond"]))
    assert (await examine(database_url)).statements == []


async def test_role_that_goes_past_row_security_is_named(own_server):
    await say(own_server.url("postgres"), "CREATE DATABASE assent")
    url = own_server.url("assent")
    await migrate(url)
    await say(own_server.url("postgres", role=SUPERUSER), f"ALTER ROLE {ENGINE_ROLE} BYPASSRLS")
    assert (await examine(url)).roles == [f"ALTER ROLE {ENGINE_ROLE} NOSUPERUSER NOBYPASSRLS"]
    with pytest.raises(StoreError, match="not ready"):
        await migrate(url)


async def test_doctor_says_who_else_may_act_as_the_engine_and_that_a_superuser_is_too_much(own_server):
    superuser = own_server.url("assent", role=SUPERUSER)
    await say(own_server.url("postgres"), "CREATE DATABASE assent")
    await migrate(own_server.url("assent"))
    await say(superuser, "CREATE ROLE reports", f"GRANT {ENGINE_ROLE} TO reports")
    assert (await examine(superuser)).notes == [
        f"connected as the superuser {SUPERUSER}; the owner of the database is enough",
        f"{OWNER} may act as {ENGINE_ROLE}, which is for Assent's own processes",
        f"reports may act as {ENGINE_ROLE}, which is for Assent's own processes",
    ]


async def test_owner_cannot_act_as_a_superuser_even_where_one_is_on_the_server(own_server):
    async with connected(own_server.url("postgres")) as connection:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.execute(f"SET ROLE {SUPERUSER}")
    assert caught.value.sqlstate == PRIVILEGE
