"""A caller who tries keys must wait, by their address, and the database is not asked for them any more."""

import httpx
import pytest

from assent.http.auth.throttle import KNOWN_MAX, Rates, SignInThrottle
from assent.http.settings import HttpSettings
from assent.model.mutation import Rejection
from assent.people.api_keys import create_api_key
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SECRET, bearer, problem, token
from tests.http.doors import create_app

LIST = "/api/instances"
BAD = bearer("ak_" + "x" * 43)
WRONG = Rejection("API_KEY_REFUSED", "no")


@pytest.fixture
def narrow(furnished):
    """A door at which three failures a minute are let through."""
    settings = HttpSettings(
        jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, rate_failed_sign_ins_per_minute=3
    )
    return create_app(app, furnished, settings)


async def ask(door, headers, place="203.0.113.7") -> httpx.Response:
    transport = httpx.ASGITransport(door, client=(place, 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://assent") as client:
        return await client.get(LIST, headers=headers)


async def test_a_flood_of_bad_keys_does_not_reach_the_database(narrow, furnished, clock):
    statements = []
    with furnished.observe(lambda query: statements.append(query.query)):
        answers = [await ask(narrow, bearer(f"ak_{n:043}")) for n in range(50)]
    assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 47
    assert len(statements) == 3
    assert problem(answers[-1], 429)["code"] == "TOO_MANY_REQUESTS"
    headers = answers[-1].headers
    assert headers["retry-after"] == "20"
    assert headers["ratelimit"] == '"sign_ins";r=0;t=20'
    assert headers["ratelimit-policy"] == '"sign_ins";q=3;w=60'
    clock.advance("20s")
    assert [(await ask(narrow, BAD)).status_code for _ in range(2)] == [401, 429]


@pytest.mark.parametrize(
    "headers",
    [
        lambda now: bearer(token(now, "alice", aud="other")),
        lambda now: bearer(token(now, "alice") + "x"),
        lambda now: bearer("not a token"),
        lambda now: bearer(token(now, "mallory")),  # 403: no member
    ],
)
async def test_bad_tokens_count_too(narrow, clock, headers):
    found = [(await ask(narrow, headers(clock.now()))).status_code for _ in range(4)]
    assert found[:3] in ([401] * 3, [403] * 3)
    assert found[3] == 429


async def test_an_address_does_not_speak_for_another(narrow, clock):
    for _ in range(4):
        await ask(narrow, BAD)
    assert (await ask(narrow, BAD)).status_code == 429
    assert (await ask(narrow, BAD, "203.0.113.8")).status_code == 401
    assert (await ask(narrow, bearer(token(clock.now(), "alice")), "203.0.113.8")).status_code == 200


async def test_whoever_signed_in_before_is_not_held_up_by_others_at_their_address(narrow, furnished, clock):
    known, new = bearer(token(clock.now(), "alice")), bearer(token(clock.now(), "bob"))
    assert (await ask(narrow, known)).status_code == 200
    for _ in range(4):
        await ask(narrow, BAD)
    assert (await ask(narrow, known)).status_code == 200
    assert (await ask(narrow, new)).status_code == 429


async def test_a_key_that_was_known_and_is_revoked_is_refused_and_then_held_up(narrow, furnished, clock):
    async with furnished.transaction("acme") as connection:
        text, _ = await create_api_key(connection, "acme", "robot", "test", clock.now())
    assert (await ask(narrow, bearer(text))).status_code == 200
    for _ in range(4):
        await ask(narrow, BAD)
    async with furnished.transaction("acme") as connection:
        await connection.execute(
            "UPDATE assent.api_keys SET revoked_at = $1 WHERE org_id = 'acme'", clock.now()
        )
    assert [(await ask(narrow, bearer(text))).status_code for _ in range(2)] == [401, 429]


async def test_without_credentials_an_address_waits_like_with_wrong_ones(narrow, clock):
    known = bearer(token(clock.now(), "alice"))
    assert (await ask(narrow, known)).status_code == 200
    assert [(await ask(narrow, {})).status_code for _ in range(5)] == [401] * 3 + [429] * 2
    assert (await ask(narrow, known)).status_code == 200


def test_a_network_of_ipv6_is_one_place_and_known_credentials_are_not_kept_without_end(clock):
    entrance = SignInThrottle(Rates(HttpSettings(rate_failed_sign_ins_per_minute=1), clock))
    entrance.refused("2001:db8:1:2::1", "Bearer a", WRONG)
    assert entrance.wait_s("2001:db8:1:2:ffff::9", "Bearer b")
    assert not entrance.wait_s("2001:db8:1:3::1", "Bearer b")
    entrance.refused("::ffff:192.0.2.1", "Bearer a", WRONG)
    assert entrance.wait_s("192.0.2.1", "Bearer b")
    for number in range(KNOWN_MAX + 5):
        entrance.passed(f"Bearer {number}")
    assert len(entrance._known) == KNOWN_MAX


async def test_a_server_that_cannot_read_its_keys_counts_nothing(clock):
    entrance = SignInThrottle(Rates(HttpSettings(rate_failed_sign_ins_per_minute=1), clock))
    entrance.refused("192.0.2.1", "Bearer a", Rejection("KEYS_UNAVAILABLE", "later"))
    assert entrance.wait_s("192.0.2.1", "Bearer a") == 0
