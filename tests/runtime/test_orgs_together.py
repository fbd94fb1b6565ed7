"""Commands of different orgs share transactions of a busy process, and no org sees or waits for another."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.runtime import InstanceView, Runtime
from assent.store import group_commit
from assent.store.database import Database
from assent.store.group_commit import SHARED_LANES
from tests.authored import END, arrows, call, form
from tests.faults.proxy import Proxy
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.statements import StatementCounter
from tests.world import ANN, BEA, hire, publish_steps, request_id, rows

ORGS = [f"org{number:02}" for number in range(SHARED_LANES + 6)]
ASK = {"id": "ask", "type": "approval", "assignee": {"user": "bea"}}
ROUND_TRIPS = 3
"""BEGIN; the instances with all that is read of them; the writes and COMMIT."""

WATCH_ROLES = """
CREATE TABLE public.acted (row_org text, acting_org text, role text, xid xid8 DEFAULT pg_current_xact_id());
GRANT INSERT ON public.acted TO PUBLIC;
CREATE FUNCTION public.note_acting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.acted (row_org, acting_org, role)
  VALUES (NEW.org_id, assent.org_id(), current_setting('role'));
  RETURN NULL;
END $$;
CREATE TRIGGER note_acting AFTER INSERT ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION public.note_acting();
"""


@pytest.fixture(autouse=True)
def patient_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait for a lane as long as it takes: on a busy machine a transaction outlasts the usual wait."""
    monkeypatch.setattr(group_commit, "WAIT_S_MAX", WAIT_MAX_S)


def transactions(counter: StatementCounter) -> int:
    return sum(sql.startswith("COMMIT") for sql in counter.statements)


async def ask_bea(runtime: Runtime, database: Database) -> list[InstanceView]:
    """Start a flow in each org that waits for an approval."""
    ways = [*arrows("ask", "end", event="approved"), *arrows("ask", "end", event="rejected")]
    for org in ORGS:
        await publish_steps(database, "asking", [ASK, END], ways, org=org)
        async with database.transaction(None) as connection:
            if not await connection.fetchval(
                "SELECT EXISTS (SELECT FROM assent.members WHERE org_id = $1)", org
            ):
                await hire(connection, {"bea": []}, org)
    return [await runtime.org(org, ANN).instances.start("asking") for org in ORGS]


def decide(runtime: Runtime, org: str, view: InstanceView) -> Coroutine[Any, Any, InstanceView]:
    return runtime.org(org, BEA).approvals.decide(request_id(view, "ask"), "approved")


async def decide_all(runtime: Runtime, views: list[InstanceView]) -> list[InstanceView]:
    return list(await asyncio.gather(*map(decide, [runtime] * len(ORGS), ORGS, views)))


async def test_decisions_of_different_orgs_share_transactions(
    runtime: Runtime, database: Database, statement_counter: StatementCounter
) -> None:
    views = await ask_bea(runtime, database)
    statement_counter.clear()
    decided = await decide_all(runtime, views)
    assert [(view.id, view.status) for view in decided] == [(view.id, "completed") for view in views]
    assert transactions(statement_counter) == SHARED_LANES + 1


async def test_shared_transaction_costs_the_round_trips_of_one(app: App, database: Database) -> None:
    async with Proxy.before(database.url) as proxy:
        settings = SETTINGS.replace(pool_connections_max=1, plans_kept_ms=3_600_000)
        behind = await Database.open(proxy.url, settings=settings, clock=database.clock)
        runtime = app.runtime(behind)
        for _ in range(2):  # of the second time, when statements are prepared and definitions are known
            views = await ask_bea(runtime, database)
            proxy.clear()
            await decide_all(runtime, views)
            counted = proxy.round_trips
        await behind.close()
    assert counted == ROUND_TRIPS * (SHARED_LANES + 1)


async def test_each_org_of_a_shared_transaction_is_under_its_own_row_security(
    runtime: Runtime, database: Database
) -> None:
    views = await ask_bea(runtime, database)
    async with database.transaction(None) as connection:
        await connection.execute(WATCH_ROLES)
    await decide_all(runtime, views)
    async with database.transaction(None) as connection:
        acted = await connection.fetch("SELECT * FROM public.acted")
    assert sorted(row["row_org"] for row in acted) == ORGS
    assert all(row["row_org"] == row["acting_org"] for row in acted)
    assert {row["role"] for row in acted} == {"assent_engine"}
    assert len({row["xid"] for row in acted}) == SHARED_LANES + 1


async def test_command_of_a_shared_transaction_finds_nothing_of_the_other_orgs_in_it(
    runtime: Runtime, database: Database
) -> None:
    views = await ask_bea(runtime, database)
    mine, other = ORGS[-1], views[-2]
    commands = [*map(decide, [runtime] * len(ORGS), ORGS, views), decide(runtime, mine, other)]
    *decided, stranger = await asyncio.gather(*commands, return_exceptions=True)
    assert {view.status for view in decided} == {"completed"}
    assert stranger.code == "NOT_FOUND"
    by_org = {row["org_id"]: row["approver_id"] for row in await rows(database, "approval_decisions")}
    assert by_org == dict.fromkeys(ORGS, "bea")


async def test_each_decision_of_a_shared_transaction_has_its_audit_entry_in_its_org(
    runtime: Runtime, database: Database
) -> None:
    views = await ask_bea(runtime, database)
    await decide_all(runtime, views)
    noted = {
        (row["org_id"], row["instance_id"], row["actor_id"])
        for row in await rows(database, "audit_log")
        if row["action"] == "approval.decide"
    }
    assert noted == {(org, view.id, "bea") for org, view in zip(ORGS, views, strict=True)}


async def test_instance_that_is_busy_keeps_no_other_org_waiting(runtime: Runtime, database: Database) -> None:
    views = await ask_bea(runtime, database)
    async with database.transaction(None) as connection:
        lock = "SELECT pg_advisory_xact_lock(hashtextextended($1::uuid::text, 0))"
        await connection.execute(lock, views[-1].id)
        *others, busy = [asyncio.create_task(decide(runtime, *one)) for one in zip(ORGS, views, strict=True)]
        assert {view.status for view in await asyncio.gather(*others)} == {"completed"}
        assert not busy.done()
    assert (await busy).status == "completed"


@pytest.fixture
async def called(runtime: Runtime, database: Database) -> list[UUID]:
    """A flow in each org that calls a function of the application, which fails where it is asked to."""
    calls: list[UUID] = []

    async def function(_: Any, arguments: Any) -> None:
        calls.append(arguments["id"])
        if arguments["fails"]:
            raise ValueError("no")

    runtime.core.advancing.operations["tests.call"] = function
    given = {"id": "workflow.id", "fails": "workflow.fails"}
    steps = [form("ask"), call("do", "tests.call", input=given), END]
    ways = [*arrows("ask", "do", event="done"), *arrows("do", "end")]
    for org in ORGS:
        await publish_steps(database, "calling", steps, ways, org=org)
    return calls


@pytest.mark.parametrize("fails", [False, True])
async def test_function_of_the_application_runs_in_a_transaction_of_its_org_alone_and_once(
    runtime: Runtime, called: list[UUID], statement_counter: StatementCounter, fails: bool
) -> None:
    """It may take long, and no other org is to wait for it; where it fails, no other org's command does."""
    views = [await runtime.org(org, ANN).instances.start("calling") for org in ORGS]
    statement_counter.clear()
    answers = [
        runtime.org(org, ANN).instances.advance(
            view.id, "done", {"id": str(view.id), "fails": fails and org == ORGS[-1]}
        )
        for org, view in zip(ORGS, views, strict=True)
    ]
    *found, last = await asyncio.gather(*answers, return_exceptions=True)
    assert [view.status for view in found] == ["completed"] * (len(ORGS) - 1)
    assert "ValueError" in repr(last) if fails else last.status == "completed"
    assert sorted(map(str, called)) == sorted(str(view.id) for view in views)
    assert transactions(statement_counter) == len(ORGS) - fails
