"""Limits: how much, how often, and from where."""

import pytest

from assent.http.auth.throttle import BUCKETS_MAX, Rates
from assent.http.settings import HttpSettings
from assent.people.api_keys import create_api_key
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SECRET, People, bearer, client_of, problem, token
from tests.http.doors import create_app
from tests.world import rows

TAXI = {"data": {"title": "Taxi", "total": 1000}}
EXPENSES = "/api/entities/expense"


def people_with(database, clock, **changes) -> People:
    settings = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, **changes)
    return People(create_app(app, database, settings), clock.now())


async def test_a_request_that_is_too_large_is_refused_by_what_it_says(furnished, clock):
    people = people_with(furnished, clock, request_bytes_max=2_000)
    async with people("alice") as client:
        small = {"data": {"title": "T", "total": 1, "note": "x" * 1_000}}
        assert (await client.post(EXPENSES, json=small)).status_code == 201
        large = {"data": {"title": "T", "total": 1, "note": "x" * 2_000}}
        assert problem(await client.post(EXPENSES, json=large), 413)["code"] == "REQUEST_TOO_LARGE"
    assert len(await rows(furnished, "entities")) == 1


async def test_a_request_that_does_not_say_how_large_it_is_is_counted(furnished, clock):
    people = people_with(furnished, clock, request_bytes_max=2_000)

    async def parts():
        yield b'{"data": {"title": "'
        for _ in range(100):
            yield b"x" * 100
        yield b'"}}'

    async with people("alice") as client:
        headers = {"content-type": "application/json"}
        answer = await client.post(EXPENSES, content=parts(), headers=headers)
    assert problem(answer, 413)["code"] == "REQUEST_TOO_LARGE"


async def test_commands_to_workflows_and_writes_of_entities_are_counted_apart(furnished, clock):
    people = people_with(
        furnished, clock, rate_workflows_per_minute=2, rate_entities_per_minute=3, rate_reads_per_minute=5
    )
    async with people("alice") as client:

        async def start():
            return await client.post("/api/flows/pair/start", json={})

        assert [(await start()).status_code for _ in range(2)] == [201, 201]
        refused = await start()
        assert (problem(refused, 429)["code"], refused.headers["retry-after"]) == ("TOO_MANY_REQUESTS", "30")
        assert [(await client.post(EXPENSES, json=TAXI)).status_code for _ in range(4)] == [
            201,
            201,
            201,
            429,
        ]
        assert [(await client.get(EXPENSES)).status_code for _ in range(6)] == [200] * 5 + [429]
        clock.advance("30s")
        assert [(await start()).status_code for _ in range(2)] == [201, 429]
    async with people("robot") as client:
        assert (await client.post("/api/flows/pair/start", json={})).status_code == 201
    async with people("alice", "globex") as client:
        assert (await client.post("/api/flows/pair/start", json={})).status_code == 201


async def test_keys_of_one_member_share_a_limit_with_their_token(furnished, clock):
    settings = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, rate_reads_per_minute=4)
    door = create_app(app, furnished, settings)
    async with furnished.transaction("acme") as connection:
        made = [await create_api_key(connection, "acme", "alice", "k", clock.now()) for _ in range(3)]
    texts = [token(clock.now(), "alice"), *(text for text, _ in made)]
    statuses = []
    for text in (*texts, *texts):
        async with client_of(door, bearer(text)) as client:
            statuses.append((await client.get(EXPENSES)).status_code)
    assert statuses == [200] * 4 + [429] * 4


def test_buckets_do_not_grow_without_end(clock):
    rates = Rates(HttpSettings(rate_reads_per_minute=1), clock)
    for number in range(BUCKETS_MAX + 10):
        assert rates.wait_s("acme", f"user:{number}", "reads") == 0
    assert len(rates._buckets) == BUCKETS_MAX


def test_zero_means_no_limit(clock):
    rates = Rates(HttpSettings(rate_reads_per_minute=0), clock)
    assert {rates.wait_s("acme", "user:ann", "reads") for _ in range(10_000)} == {0}


PREFLIGHT = {
    "Origin": "https://app.example.com",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,idempotency-key",
}


async def test_no_other_page_may_call_by_default(people):
    async with people("alice") as client:
        answer = await client.get("/api/instances", headers={"Origin": "https://app.example.com"})
        assert not [header for header in answer.headers if header.startswith("access-control")]
        assert (await client.options("/api/instances", headers=PREFLIGHT)).status_code == 405


@pytest.mark.parametrize(
    ("origin", "allowed"), [("https://app.example.com", True), ("https://evil.example", False)]
)
async def test_pages_that_the_settings_name_may_call(furnished, clock, origin, allowed):
    people = people_with(furnished, clock, cors_origins=("https://app.example.com",))
    async with people("alice") as client:
        answer = await client.options("/api/instances", headers={**PREFLIGHT, "Origin": origin})
        assert (answer.headers.get("access-control-allow-origin") == origin) is allowed


async def test_nobody_on_the_way_keeps_an_answer(people):
    async with people("alice") as client:
        for path in ("/api/instances", "/nowhere"):
            headers = (await client.get(path)).headers
            assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
