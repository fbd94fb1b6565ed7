"""The answer to COMMIT is lost: nothing is done twice, and callers hear what became of their command."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from assent.app import App
from assent.runtime import InstanceView, Runtime
from assent.store import group_commit
from assent.store.database import Connection, Database
from assent.store.errors import OutcomeUnknown, RolledBack
from assent.store.group_commit import LANES, SHARED_LANES
from tests.authored import invoice_contract
from tests.faults.proxy import COMMIT, Fault, Moment, Proxy
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.runtime.test_orgs_together import ORGS, ask_bea, decide
from tests.world import (
    FIN,
    LARGE,
    ORG,
    create_invoice,
    found_acme_with_invoices,
    request_id,
    rows,
    submit_invoice,
)

COUNT = LANES + 10
LANE_NUMBERS = range(1, SHARED_LANES + 1)
IMPATIENT = SETTINGS.replace(outcome_lookup_timeout_ms=300)


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(database_url) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy, database: Database) -> AsyncIterator[Database]:
    """The database by way of the proxy; `database` is the same one without it."""
    far = await Database.open(proxy.url, settings=SETTINGS, clock=database.clock)
    try:
        yield far
    finally:
        await far.close()


@pytest.fixture
async def runtime(far: Database, database: Database) -> Runtime:
    await found_acme_with_invoices(database)
    return App([invoice_contract()]).runtime(far)


async def count_entities(database: Database) -> int:
    async with database.transaction(ORG) as connection:
        return int(await connection.fetchval("SELECT count(*) FROM assent.entities"))


async def at_once(work: Callable[[int], Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*(work(number) for number in range(COUNT)), return_exceptions=True)


def arm_group(proxy: Proxy, moment: Moment = "after", also: Callable[[], None] = lambda: None) -> Fault:
    """Cut the COMMIT of the commands that go together: those that are alone are held before theirs until then."""
    alone = [Fault(COMMIT, nth=nth, moment="before", action="hold") for nth in range(1, LANES + 1)]

    def let_go() -> None:
        also()
        for fault in alone:
            fault.release()

    for fault in alone:
        proxy.arm(fault)
    return proxy.arm(Fault(COMMIT, nth=LANES + 1, moment=moment, on_strike=let_go))


@pytest.mark.parametrize("arm", [lambda proxy: proxy.arm(Fault(COMMIT)), arm_group], ids=["alone", "group"])
async def test_documents_created_at_once_are_created_once_each(
    runtime: Runtime, proxy: Proxy, database: Database, arm: Callable[[Proxy], Fault]
) -> None:
    """FINDINGS section 2, B1: twelve callers were told success, and 22 documents existed."""
    fault = arm(proxy)
    entities = await at_once(lambda _: create_invoice(runtime, LARGE))
    assert fault.struck
    assert len({entity.id for entity in entities}) == COUNT
    assert await count_entities(database) == COUNT


async def test_approvers_whose_decisions_stand_hear_so(
    runtime: Runtime, proxy: Proxy, database: Database
) -> None:
    views = [await submit_invoice(runtime) for _ in range(COUNT)]
    fault = arm_group(proxy)
    decided = await at_once(
        lambda number: runtime.org(ORG, FIN).approvals.decide(
            request_id(views[number], "finance"), "approved"
        )
    )
    assert fault.struck
    assert [view.id for view in decided] == [view.id for view in views]
    async with database.transaction(ORG) as connection:
        recorded = await connection.fetchval("SELECT count(*) FROM assent.approval_decisions")
    assert recorded == COUNT


async def share_a_lost_commit(
    runtime: Runtime,
    proxy: Proxy,
    views: list[InstanceView],
    moment: Moment = "after",
    also: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Have bea decide in every org; cut the COMMIT that the last of them share, and return what each is told.

    The first have a lane each. They are held until the others wait; then the end of one of them lets those begin.
    """
    alone = [proxy.arm(Fault(COMMIT, nth=nth, moment="before", action="hold")) for nth in LANE_NUMBERS]

    def let_go() -> None:
        also()
        for fault in alone:
            fault.release()

    shared = proxy.arm(Fault(COMMIT, nth=len(alone) + 1, moment=moment, on_strike=let_go))
    decided = [asyncio.create_task(decide(runtime, org, view)) for org, view in zip(ORGS, views, strict=True)]
    for fault in alone:
        await fault.wait()
    alone[0].release()
    told = await asyncio.gather(*decided, return_exceptions=True)
    assert shared.struck
    return told


@pytest.fixture
def patient_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait for a lane as long as it takes: on a busy machine a held COMMIT outlasts the usual wait."""
    monkeypatch.setattr(group_commit, "WAIT_S_MAX", WAIT_MAX_S)


@pytest.mark.usefixtures("patient_groups")
@pytest.mark.parametrize("moment", ["after", "before"])
async def test_decisions_of_orgs_that_shared_a_lost_commit_stand_once_each_and_hear_so(
    far: Database, proxy: Proxy, database: Database, moment: Moment
) -> None:
    """The proof is an entry of one of the orgs; where nothing was committed, each org is tried by itself."""
    runtime = App([]).runtime(far)
    views = await ask_bea(runtime, database)
    decided = await share_a_lost_commit(runtime, proxy, views, moment)
    assert [(view.id, view.status) for view in decided] == [(view.id, "completed") for view in views]
    decisions = await rows(database, "approval_decisions")
    assert sorted((row["org_id"], row["approver_id"]) for row in decisions) == [(org, "bea") for org in ORGS]


@pytest.mark.usefixtures("patient_groups")
async def test_orgs_whose_shared_commit_cannot_be_looked_up_all_hear_that_it_is_unknown(
    proxy: Proxy, database: Database
) -> None:
    far = await Database.open(proxy.url, settings=IMPATIENT, clock=database.clock)
    try:
        runtime = App([]).runtime(far)
        views = await ask_bea(runtime, database)
        told = await share_a_lost_commit(runtime, proxy, views, also=proxy.refuse)
        unknown = [isinstance(one, OutcomeUnknown) for one in told]
        assert unknown == [False] * SHARED_LANES + [True] * (len(ORGS) - SHARED_LANES)
        assert len(await rows(database, "approval_decisions")) == len(ORGS)  # none of them was done again
    finally:
        await far.close()


async def test_a_commit_that_never_arrived_is_a_rollback_and_the_group_is_repeated(
    runtime: Runtime, proxy: Proxy, database: Database
) -> None:
    fault = arm_group(proxy, "before")
    entities = await at_once(lambda _: create_invoice(runtime, LARGE))
    assert fault.struck
    assert len({entity.id for entity in entities}) == COUNT
    assert await count_entities(database) == COUNT


async def test_a_single_command_whose_commit_never_arrived_changed_nothing(
    runtime: Runtime, proxy: Proxy, database: Database
) -> None:
    proxy.arm(Fault(COMMIT, moment="before"))
    with pytest.raises(RolledBack):
        await create_invoice(runtime, LARGE)
    assert await count_entities(database) == 0


async def test_a_commit_that_goes_silent_is_ended_and_looked_up(
    runtime: Runtime, proxy: Proxy, database: Database
) -> None:
    """The server never got COMMIT, and waits for it: its process is ended, so that the answer is sure."""
    fault = proxy.arm(Fault(COMMIT, moment="before", action="hold"))
    creating = asyncio.create_task(create_invoice(runtime, LARGE))
    await fault.wait()
    proxy.cut_clients()
    with pytest.raises(RolledBack):
        await creating
    fault.release()
    assert await count_entities(database) == 0


async def test_without_a_database_to_ask_the_outcome_is_unknown_and_names_its_proof(
    proxy: Proxy, database: Database
) -> None:
    await found_acme_with_invoices(database)
    far = await Database.open(proxy.url, settings=IMPATIENT, clock=database.clock)
    try:
        runtime = App([invoice_contract()]).runtime(far)
        arm_group(proxy, also=proxy.refuse)
        outcomes = await at_once(lambda _: create_invoice(runtime, LARGE))
        unknown = [outcome for outcome in outcomes if isinstance(outcome, OutcomeUnknown)]
        assert len(unknown) == COUNT - LANES
        assert await count_entities(database) == COUNT
        async with database.transaction(ORG) as connection:
            proofs = {error.audit_id for error in unknown}
            found = await connection.fetch("SELECT id FROM assent.audit_log WHERE id = ANY ($1)", proofs)
        assert {row["id"] for row in found} == proofs
    finally:
        await far.close()


async def test_a_transaction_that_names_no_proof_is_unknown(far: Database, proxy: Proxy) -> None:
    proxy.arm(Fault(COMMIT))
    with pytest.raises(OutcomeUnknown) as raised:
        async with far.transaction(ORG) as connection:
            await connection.execute("SELECT 1")
    assert raised.value.audit_id is None


async def test_the_answer_of_a_server_that_ends_proves_nothing(far: Database, proxy: Proxy) -> None:
    """A server process that is ended at COMMIT says FATAL 57P01, also where it has committed."""
    fault = proxy.arm(Fault(COMMIT, moment="before", action="hold"))

    async def work() -> None:
        async with far.transaction(None) as connection:
            pids.append(connection.get_server_pid())

    pids: list[int] = []
    working = asyncio.create_task(work())
    await fault.wait()
    async with far.transaction(None) as other:
        await other.execute("SELECT pg_terminate_backend($1)", pids[0])
    fault.release()
    with pytest.raises(OutcomeUnknown):
        await working


async def test_a_caught_error_of_a_statement_does_not_become_a_success(far: Database) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK then, and asyncpg takes that for a success."""

    async def work(connection: Connection) -> str:
        await connection.execute("CREATE TEMPORARY TABLE marks (n integer)")
        try:
            await connection.execute("SELECT 1 / 0")
        except asyncpg.DivisionByZeroError:
            return "done"
        return "never"

    with pytest.raises(RolledBack, match="savepoint"):
        await far.run(work, org_id=None)


async def test_a_caller_that_is_cancelled_at_commit_leaves_no_open_transaction(
    far: Database, proxy: Proxy, database: Database
) -> None:
    fault = proxy.arm(Fault(COMMIT, moment="before", action="hold"))

    async def work() -> None:
        async with far.transaction(None) as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(4711)")

    working = asyncio.create_task(work())
    await fault.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    fault.release()
    async with database.transaction(None) as other, asyncio.timeout(30):
        await other.execute("SELECT pg_advisory_xact_lock(4711)")
    async with far.transaction(None) as next_one:
        assert await next_one.fetchval("SELECT pg_current_xact_id_if_assigned()") is None
