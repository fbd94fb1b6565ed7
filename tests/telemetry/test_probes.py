"""A worker answers orchestrators and Prometheus on a port, and nothing else."""

import asyncio
import socket

import httpx
import pytest

from assent.model.problems import Invalid
from assent.store.database import Database
from assent.worker.probes import Probes, ProbeSettings
from tests.processes.commands import run_worker, worker
from tests.rows import insert_step
from tests.settings import read_from
from tests.telemetry.seen import MetricCounts

ANY = ProbeSettings(port=0)


async def get(port: int, path: str, method: str = "GET") -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.request(method, f"http://127.0.0.1:{port}{path}")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def test_worker_is_alive_ready_and_counted(database: Database) -> None:
    async with database.transaction(None) as connection:
        await insert_step(connection, resume_at=database.clock.now())
    port = free_port()
    async with worker(
        database.url, "--only", "timers", ASSENT_METRICS_PORT=str(port), ASSENT_WORKER_REPORT_INTERVAL_MS="10"
    ) as process:
        report = await process.line("duty report")
        assert report["duty"] == "timers"
        assert (await get(port, "/healthz")).text == "alive\n"
        assert (await get(port, "/readyz?verbose=1")).status_code == 200
        page = await get(port, "/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=")
    lines = dict(line.rsplit(" ", 1) for line in page.text.splitlines() if not line.startswith("#"))
    assert float(lines['assent_duty_done_total{duty="timers",part="all"}']) == 1
    assert float(lines['assent_pending{queue="events"}']) == 1
    assert "process_resident_memory_bytes" in lines


async def test_without_a_port_nobody_listens(database: Database) -> None:
    assert read_from(ProbeSettings, {}).port == 0


def test_bad_port_is_told_by_its_variable() -> None:
    with pytest.raises(Invalid, match="ASSENT_METRICS_PORT"):
        read_from(ProbeSettings, {"ASSENT_METRICS_PORT": "metrics"})


async def test_port_that_is_taken_is_said_plainly(database: Database) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, error = await run_worker(database.url, "--only", "timers", ASSENT_METRICS_PORT=str(port))
    assert code == 1
    assert f"ASSENT_METRICS_PORT: cannot listen on 127.0.0.1:{port}" in error
    assert "Traceback" not in error


async def test_database_that_is_away_is_not_ready_and_yet_alive(
    database: Database, counted: MetricCounts
) -> None:
    async with Probes(database).serving(ANY) as port:
        assert (await get(port, "/readyz")).status_code == 200
        await database.close()
        assert (await get(port, "/readyz")).status_code == 503
        assert (await get(port, "/healthz")).status_code == 200
        assert "assent_database_up 0.0" in (await get(port, "/metrics")).text


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/healthz", 200)]
)
async def test_other_requests_are_refused(database: Database, method: str, path: str, status: int) -> None:
    async with Probes(database).serving(ANY) as port:
        answer = await get(port, path, method)
    assert answer.status_code == status
    assert (answer.text == "") == (method == "HEAD")


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n\r\n", b"GET /healthz HTTP/1.1\r\n" + b"x" * 20_000, b"\xff\x00\r\n\r\n"]
)
async def test_whatever_is_sent_the_next_one_is_answered(database: Database, sent: bytes) -> None:
    async with Probes(database).serving(ANY) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        assert (await get(port, "/healthz")).status_code == 200
