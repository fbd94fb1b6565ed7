"""Round trips of a person's command over HTTP, counted on the wire: sign-in, BEGIN and COMMIT included."""

from typing import Any

import httpx
import pytest

from assent.store.database import Database
from tests.faults.proxy import Proxy
from tests.http.application import INVOICE_DATA, app
from tests.http.callers import CALLBACKS, People
from tests.http.callers import SETTINGS as HTTP_SETTINGS
from tests.http.doors import create_app
from tests.postgres import SETTINGS


class Counter:
    """Counts the round trips of requests, each of which must succeed."""

    def __init__(self, people: People, proxy: Proxy) -> None:
        self._people = people
        self._proxy = proxy
        self.counted: dict[str, int] = {}

    async def post(self, name: str, user: str, path: str, body: Any = None) -> httpx.Response:
        async with self._people(user) as client:
            self._proxy.clear()
            response = await client.post(path, json=body)
            self.counted[name] = self._proxy.round_trips
        assert response.is_success, response.text
        return response


async def counts_of_an_invoice(people: People, proxy: Proxy) -> dict[str, int]:
    counter = Counter(people, proxy)
    created = await counter.post("create", "alice", "/api/entities/invoice", {"data": INVOICE_DATA})
    moved = await counter.post("submit", "alice", f"{created.headers['location']}/transitions/submit")
    request = f"/api/approvals/{moved.json()['instance']['steps'][0]['request_id']}"
    await counter.post("claim", "fin", f"{request}/claim")
    decided = await counter.post("decide", "fin", f"{request}/decide", {"answer": "approved"})
    assert decided.json()["request"]["status"] == "approved"
    return counter.counted


async def counts_of_a_flow(people: People, proxy: Proxy) -> dict[str, int]:
    counter = Counter(people, proxy)
    started = await counter.post("start", "alice", "/api/flows/survey/start", {"order": "7"})
    answer = {"event": "completed", "input": {"rating": 5}}
    await counter.post("form", "alice", f"/api/instances/{started.json()['id']}/advance", answer)
    await counter.post("event", "olga", "/api/events/payment:8", {"data": {}})
    return counter.counted


@pytest.fixture
async def proxy(database_url):
    async with Proxy.before(database_url) as proxy:
        yield proxy


@pytest.fixture
async def people(furnished, proxy, clock):
    settings = SETTINGS.replace(pool_connections_max=1, plans_kept_ms=3_600_000)
    database = await Database.open(proxy.url, settings=settings, clock=clock)
    yield People(create_app(app, database, HTTP_SETTINGS, CALLBACKS), clock.now())
    await database.close()


async def test_an_invoice_costs_exactly_so_many_round_trips(people, proxy):
    await counts_of_an_invoice(people, proxy)  # from now on statements are prepared and definitions known
    counted = await counts_of_an_invoice(people, proxy)
    assert counted == {"create": 4, "submit": 10, "claim": 4, "decide": 4}


async def test_a_flow_costs_exactly_so_many_round_trips(people, proxy):
    await counts_of_a_flow(people, proxy)
    counted = await counts_of_a_flow(people, proxy)
    assert counted == {"start": 7, "form": 9, "event": 5}
