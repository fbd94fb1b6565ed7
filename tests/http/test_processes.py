"""`assent serve --processes N`: one port, and processes that are replaced, stopped and never left behind."""

import asyncio
import os
import signal

import httpx
import psutil
import pytest

from tests.http.application import CONFIRMING
from tests.http.process import ServeProcess, server, start
from tests.plain_sql import WAIT_MAX_S, wait_until_a_connection_is_blocked

TWO = ("--processes", "2")


async def pids_of(served: ServeProcess) -> list[int]:
    """The processes that serve, as the parent has them."""
    return [child.pid for child in psutil.Process(served._process.pid).children()]


async def until_gone(pids: list[int]) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while any(_runs(pid) for pid in pids):  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.05)


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _connections_of(pid: int, port: int) -> int:
    found = psutil.Process(pid).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port for each in found)


async def _are_served(served: ServeProcess, connections: int) -> list[httpx.AsyncClient]:
    """Clients with a connection each that stays open."""
    clients = [httpx.AsyncClient(base_url=served.url, timeout=WAIT_MAX_S) for _ in range(connections)]
    replies = await asyncio.gather(*(client.get("/readyz") for client in clients))
    assert [reply.json() for reply in replies] == [{"status": "ok"}] * connections
    return clients


async def test_processes_share_the_connections_of_one_port(database_url):
    async with server(database_url, *TWO) as served:
        pids = await pids_of(served)
        port = int(served.url.rpartition(":")[2])
        clients: list[httpx.AsyncClient] = []
        # The process that is awake takes all that has arrived, so a burst may go to one of them.
        async with asyncio.timeout(WAIT_MAX_S):
            while min(counts := [_connections_of(pid, port) for pid in pids]) == 0:
                assert sum(counts) == len(clients)
                clients += await _are_served(served, 2)
        for client in clients:
            await client.aclose()
        served.send(signal.SIGTERM)
        assert (await served.line("server stopped"))["finished"] is True
        assert await served.ended() == 0
    await until_gone(pids)


async def test_signal_ends_all_after_running_requests_were_answered(database_url, database):
    async with (
        server(database_url, *TWO) as served,
        served.client("alice") as alice,
        served.client("bob") as bob,
    ):
        started = await alice.post("/api/flows/orders.approval/start", json={"order_id": "ord-slow"})
        async with database.transaction(None) as gate:
            await gate.execute("SELECT pg_advisory_xact_lock($1)", CONFIRMING)
            path = f"/api/instances/{started.json()['id']}/advance"
            running = asyncio.create_task(bob.post(path, json={"event": "approved"}))
            await wait_until_a_connection_is_blocked(gate)
            served.send(signal.SIGTERM)
            await served.line("server process stopping")
            await served.line("server process stopping")
        assert (await running).json()["status"] == "completed"
        assert await served.ended() == 0
        with pytest.raises(httpx.ConnectError):
            await alice.get("/healthz")


async def test_process_that_dies_is_replaced_and_the_port_answers_meanwhile(database_url):
    async with server(database_url, *TWO) as served:
        first, second = await pids_of(served)
        os.kill(first, signal.SIGKILL)
        said = await served.line("server process died, starting another")
        assert (said["pid"], said["code"]) == (first, -signal.SIGKILL)
        for client in await _are_served(served, 3):
            await client.aclose()
        await served.line("server process started")
        pids = await pids_of(served)
        assert second in pids
        assert first not in pids
        assert len(pids) == 2
        for client in await _are_served(served, 10):
            await client.aclose()
        served.send(signal.SIGTERM)
        assert await served.ended() == 0


async def test_processes_end_with_a_parent_that_was_killed(database_url):
    async with server(database_url, *TWO) as served:
        pids = await pids_of(served)
        await served.kill()
        await until_gone(pids)


async def test_second_signal_ends_all_on_the_spot(database_url, database):
    async with (
        server(database_url, *TWO) as served,
        served.client("alice") as alice,
        served.client("bob") as bob,
    ):
        pids = await pids_of(served)
        started = await alice.post("/api/flows/orders.approval/start", json={"order_id": "ord-slow"})
        async with database.transaction(None) as gate:
            await gate.execute("SELECT pg_advisory_xact_lock($1)", CONFIRMING)
            path = f"/api/instances/{started.json()['id']}/advance"
            running = asyncio.create_task(bob.post(path, json={"event": "approved"}))
            await wait_until_a_connection_is_blocked(gate)
            served.send(signal.SIGTERM)
            await served.line("server process stopping")
            served.send(signal.SIGTERM)
            assert await served.ended() != 0
            await until_gone(pids)
        with pytest.raises(httpx.HTTPError):
            await running


async def test_processes_that_cannot_begin_say_why_once_and_end(empty_database_url):
    """A database without a schema: the parent ends with 1 instead of starting processes for ever."""
    process = await start(empty_database_url, "--app", "tests.http.application:app", "--port", "0", *TWO)
    async with asyncio.timeout(WAIT_MAX_S):
        _, said = await process.communicate()
    assert process.returncode == 1
    assert "assent migrate" in said.decode()


async def test_each_process_has_a_port_of_its_own_for_probes(database_url):
    """Counts are those of one process, and a probe asks the process that it names."""
    port = 20_000 + os.getpid() % 20_000
    async with server(database_url, *TWO, ASSENT_METRICS_PORT=str(port)) as served:
        async with httpx.AsyncClient(timeout=WAIT_MAX_S) as client:
            for number in range(2):
                assert (await client.get(f"http://127.0.0.1:{port + number}/readyz")).text == "ready\n"
        served.send(signal.SIGTERM)
        assert await served.ended() == 0
