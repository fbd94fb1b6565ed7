"""Connections that go silent: nothing is closed, nothing is answered, and new connections work."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from assent.app import App
from assent.http.app import create_app
from assent.http.settings import HttpSettings
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.settings import Settings
from assent.worker.duty import DutyRun
from assent.worker.supervisor import Supervisor, duties
from tests.faults.proxy import Fault, Proxy
from tests.postgres import SETTINGS
from tests.rows import insert_event, insert_step
from tests.worker.application import PATIENT, completing_context
from tests.workers import events, with_options

NEVER_MS = 3_600_000
"""A limit that is never the reason that a test passes."""

QUICK = SETTINGS.replace(
    statement_timeout_ms=600,
    statement_slack_ms=400,
    cancel_timeout_ms=200,
    check_timeout_ms=300,
    listen_check_interval_ms=200,
    idle_in_transaction_timeout_ms=2_000,
    idle_check_after_ms=NEVER_MS,
)
"""Silence is noticed by the deadline of a statement, within a second, and by nothing else."""

WITHIN_S = 20
"""What is bounded ends long before, also on a busy machine; what hangs never does."""


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[Proxy]:
    async with Proxy.before(database.url) as proxy:
        yield proxy


@asynccontextmanager
async def opened(proxy: Proxy, settings: Settings = QUICK, *, warm: int = 0) -> AsyncIterator[Database]:
    """A database by way of the proxy, with so many connections in its pool; it must close in time also when silent."""
    database = await Database.open(proxy.url, settings=settings)
    try:
        await use_at_once(database, warm)
        yield database
    finally:
        async with asyncio.timeout(WITHIN_S):
            await database.close()


async def use_at_once(database: Database, count: int) -> None:
    meeting = asyncio.Barrier(max(1, count))

    async def use() -> None:
        async with database.transaction(None):
            await meeting.wait()

    await asyncio.gather(*(use() for _ in range(count)))


async def answer(database: Database) -> int:
    async with database.transaction(None) as connection:
        found: int = await connection.fetchval("SELECT 1")
        return found


async def until_it_answers(database: Database) -> int:
    """How many attempts failed before one succeeded."""
    failed = 0
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await answer(database)
            except (StoreError, TimeoutError):
                failed += 1
            else:
                return failed


async def test_statement_without_an_answer_ends_and_the_next_one_works(proxy: Proxy) -> None:
    async with opened(proxy, warm=1) as database:
        assert proxy.freeze() == 1
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(StoreError, match="did not answer in time"):
                await answer(database)
        assert await answer(database) == 1


async def test_silent_statement_without_a_transaction_ends_too(proxy: Proxy) -> None:
    async with opened(proxy, warm=1) as database:
        proxy.freeze()
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(StoreError, match="did not answer in time"):
                async with database.glance() as connection:
                    await connection.fetchval("SELECT 1")
        assert await answer(database) == 1


async def test_one_silent_connection_costs_one_attempt_however_many_are_idle(proxy: Proxy) -> None:
    async with opened(proxy, warm=8) as database:
        assert proxy.freeze() == 8
        assert await until_it_answers(database) == 1
        assert sum(database.connections) <= 2


async def test_every_connection_that_is_in_use_when_it_goes_silent_is_free_again(proxy: Proxy) -> None:
    settings = QUICK.replace(pool_connections_max=3, pool_wait_timeout_ms=NEVER_MS // 100)
    async with opened(proxy, settings) as database:
        together = asyncio.Barrier(4)

        async def use() -> None:
            async with database.transaction(None) as connection:
                await together.wait()
                await together.wait()
                await connection.fetchval("SELECT 1")

        using = [asyncio.create_task(use()) for _ in range(3)]
        await together.wait()
        proxy.freeze()
        await together.wait()
        async with asyncio.timeout(WITHIN_S):
            ended = await asyncio.gather(*using, return_exceptions=True)
        assert [isinstance(each, StoreError | TimeoutError) for each in ended] == [True] * 3
        await use_at_once(database, 3)


async def test_cancelling_a_caller_does_not_wait_for_a_silent_server(proxy: Proxy) -> None:
    """Whose client has gone, or whose watchdog has had enough, keeps no connection."""
    settings = QUICK.replace(statement_timeout_ms=NEVER_MS, pool_connections_max=1)
    async with opened(proxy, settings) as database:
        fault = proxy.arm(Fault("SELECT 1", moment="before", action="freeze"))
        asking = asyncio.create_task(answer(database))
        await fault.wait()
        asking.cancel()
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait({asking})
            assert await answer(database) == 1


async def test_connection_that_was_idle_is_checked_before_it_is_used(proxy: Proxy) -> None:
    """A balancer that forgets idle connections costs the next request a moment, and no error."""
    settings = QUICK.replace(statement_timeout_ms=NEVER_MS, idle_check_after_ms=0)
    async with opened(proxy, settings, warm=3) as database:
        proxy.freeze()
        async with asyncio.timeout(WITHIN_S):
            assert await answer(database) == 1


async def test_closing_does_not_wait_for_silent_connections(proxy: Proxy) -> None:
    settings = QUICK.replace(statement_timeout_ms=NEVER_MS)
    database = await Database.open(proxy.url, settings=settings)
    await use_at_once(database, 4)
    assert proxy.freeze() == 4
    async with asyncio.timeout(WITHIN_S):
        await database.close()


async def test_connections_are_replaced_after_their_lifetime(proxy: Proxy) -> None:
    async with opened(proxy, QUICK.replace(connection_lifetime_max_ms=1)) as database:
        pids = set()
        for _ in range(3):
            async with database.transaction(None) as connection:
                pids.add(connection.get_server_pid())
            await asyncio.sleep(0.002)
    assert len(pids) == 3


async def test_sockets_are_watched_by_the_kernel(proxy: Proxy) -> None:
    settings = QUICK.replace(tcp_keepalive_ms=6_000, tcp_user_timeout_ms=7_000)
    async with opened(proxy, settings) as database, database.transaction(None) as connection:
        used = connection._transport.get_extra_info("socket")
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        found = [used.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
    assert found == [6, 2, 3, 7_000]


async def test_listener_notices_silence_and_listens_again(proxy: Proxy, database: Database) -> None:
    async with opened(proxy) as silenced, silenced.listen("events") as listener:
        proxy.freeze()
        async with asyncio.timeout(WITHIN_S):
            assert await listener.wait() == {"events"}, "after a reconnect every channel counts as notified"
            async with database.transaction(None) as connection:
                await connection.execute("SELECT pg_notify('events', '')")
            assert await listener.wait() == {"events"}


async def test_leaving_a_silent_listener_ends(proxy: Proxy) -> None:
    async with opened(proxy) as silenced:
        async with asyncio.timeout(WITHIN_S):
            async with silenced.listen("events"):
                proxy.freeze()


async def test_http_server_whose_pool_is_silent_answers_again(proxy: Proxy) -> None:
    settings = QUICK.replace(pool_connections_max=4, pool_wait_timeout_ms=5_000)
    async with opened(proxy, settings, warm=4) as database:
        door = create_app(App(), database, HttpSettings())
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(door), base_url="http://localhost"
        ) as client:
            assert (await client.get("/readyz")).status_code == 200
            proxy.freeze()
            async with asyncio.timeout(WITHIN_S):
                answers = await asyncio.gather(*(client.get("/readyz") for _ in range(4)))
                assert {each.status_code for each in answers} == {503}
            assert (await client.get("/readyz")).status_code == 200


@asynccontextmanager
async def working(database: Database) -> AsyncIterator[list[DutyRun]]:
    """A worker for events and timers, which looks every 20 ms and is woken by notifications."""
    runs: list[DutyRun] = []
    place = with_options(
        completing_context(database, PATIENT),
        **{"backoff_min_ms": 1, "backoff_max_ms": 20, "events_interval_ms": 20, "timers_interval_ms": 20},
    )
    supervisor = Supervisor(database, duties(place, ["events", "timers"]), place.options, [runs.append])
    task = asyncio.create_task(supervisor.run())
    try:
        yield runs
    finally:
        supervisor.stop()
        await asyncio.wait_for(task, WITHIN_S)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - what ends it happens in another process
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("times", [1, 3])
async def test_worker_whose_connections_are_all_silent_goes_on(
    proxy: Proxy, database: Database, times: int
) -> None:
    async with opened(proxy) as silenced, working(silenced) as runs:
        for _ in range(times):
            await until(lambda: {run.duty for run in runs} == {"events", "timers"})
            assert proxy.freeze() >= 1
            runs.clear()
            async with database.transaction(None) as connection:
                await insert_event(connection)
            started_s = time.monotonic()
            await until(lambda: any(run.duty == "events" and run.done.count == 1 for run in runs))
            await until(lambda: any(run.duty == "timers" and run.error is None for run in runs))
            assert time.monotonic() - started_s < WITHIN_S
    assert {event["status"] for event in await events(database)} == {"completed"}


async def test_batch_that_went_silent_in_the_middle_is_done_once(proxy: Proxy, database: Database) -> None:
    """Frozen after its statement ran and before COMMIT: the server rolls it back, and another run does it."""
    async with database.transaction(None) as connection:
        await insert_step(connection, resume_at=database.clock.now())
    async with opened(proxy) as silenced:
        fault = proxy.arm(Fault("claim_due_steps", moment="after", action="freeze"))
        async with working(silenced):
            await fault.wait()
            async with asyncio.timeout(WITHIN_S):
                while [each["status"] for each in await events(database)] != ["completed"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
