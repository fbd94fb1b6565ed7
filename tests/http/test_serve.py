"""`assent serve`: starts, serves, stops in good order, and says what is missing."""

import asyncio
import signal

import httpx
import pytest

from tests.http.application import CONFIRMING
from tests.http.process import server, start
from tests.plain_sql import wait_until_a_connection_is_blocked


async def _said(process) -> tuple[int, str]:
    async with asyncio.timeout(120):
        _, error = await process.communicate()
    return process.returncode, error.decode()


async def test_a_signal_ends_it_after_running_requests_were_answered(database_url, database):
    async with server(database_url) as served, served.client("alice") as alice, served.client("bob") as bob:
        started = await alice.post("/api/flows/orders.approval/start", json={"order_id": "ord-slow"})
        async with database.transaction(None) as gate:
            await gate.execute("SELECT pg_advisory_xact_lock($1)", CONFIRMING)
            path = f"/api/instances/{started.json()['id']}/advance"
            running = asyncio.create_task(bob.post(path, json={"event": "approved"}))
            await wait_until_a_connection_is_blocked(gate)
            served.send(signal.SIGTERM)
            await served.line("server stopping")
        assert (await running).json()["status"] == "completed"
        assert (await served.line("server stopped"))["finished"] is True
        assert await served.ended() == 0
        with pytest.raises(httpx.ConnectError):
            await alice.get("/healthz")


async def test_with_a_worker_what_waits_in_the_outbox_goes_on(database_url, database):
    variables = {"ASSENT_WORKER_EVENTS_INTERVAL_MS": "50"}
    async with server(database_url, "--with-worker", **variables) as served, served.client("alice") as alice:
        started = (await alice.post("/api/flows/survey/start", json={"order": 7})).json()
        path = f"/api/instances/{started['id']}"
        await alice.post(f"{path}/advance", json={"event": "completed", "input": {"rating": 5}})
        async with served.client("olga") as olga:
            assert (await olga.post("/api/events/payment:7", json={})).status_code == 202
        async with asyncio.timeout(120):
            while (await alice.get(path)).json()["status"] != "completed":  # noqa: ASYNC110 - seen from outside
                await asyncio.sleep(0.02)
        served.send(signal.SIGTERM)
        assert await served.ended() == 0


@pytest.mark.parametrize(
    ("variables", "place"), [({}, "127.0.0.1"), ({"ASSENT_HTTP_TRUSTED_PROXIES": "127.0.0.1"}, "203.0.113.9")]
)
async def test_the_word_of_a_proxy_counts_only_where_it_is_trusted(database_url, variables, place):
    async with server(database_url, **variables) as served, served.client("alice") as alice:
        body = {"data": {"title": "Taxi", "total": 1}}
        created = await alice.post(
            "/api/entities/expense", json=body, headers={"X-Forwarded-For": "203.0.113.9"}
        )
        (audited,) = (await alice.get(f"{created.headers['location']}/audit")).json()["items"]
    assert audited["place"] == place


async def test_it_is_ready_when_it_says_so(database_url):
    async with server(database_url, ASSENT_HTTP_JWT_KEY="", ASSENT_HTTP_JWT_ISSUER="") as served:
        assert (
            "only API keys"
            in (
                await served.line(
                    "neither ASSENT_HTTP_JWT_KEY nor ASSENT_HTTP_JWKS is set: only API keys sign in"
                )
            )["message"]
        )
        async with httpx.AsyncClient(base_url=served.url, timeout=120) as client:
            assert (await client.get("/readyz")).json() == {"status": "ok"}
            assert (await client.get("/openapi.json")).json()["info"]["title"] == "Assent"
            assert "server" not in (await client.get("/healthz")).headers


async def test_a_port_that_is_taken_is_told(database_url):
    async with server(database_url) as served:
        port = served.url.rpartition(":")[2]
        taken = await start(database_url, "--app", "tests.http.application:app", ASSENT_PORT=port)
        code, error = await _said(taken)
    assert code == 1
    assert f"Cannot serve on 127.0.0.1 port {port}" in error


async def test_a_database_without_the_schema_is_told(empty_database_url):
    code, error = await _said(
        await start(empty_database_url, "--app", "tests.http.application:app", "--port", "0")
    )
    assert (code, "Run `assent migrate` first" in error) == (1, True)


async def test_settings_that_are_wrong_are_told_by_name(database_url):
    wrong = {"ASSENT_HTTP_JWT_KEY": "short", "ASSENT_HTTP_RATE_READS_PER_MINUTE": "many"}
    process = await start(database_url, "--app", "tests.http.application:app", "--port", "0", **wrong)
    code, error = await _said(process)
    assert code == 1
    assert "ASSENT_HTTP_RATE_READS_PER_MINUTE" in error
    assert "short" not in error


async def test_an_application_is_needed(database_url):
    code, error = await _said(await start(database_url, "--port", "0"))
    assert (code, "--app" in error) == (2, True)
