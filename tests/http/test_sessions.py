"""Sessions of browsers: a cookie that no other page can use, renewed, revoked, and no more than its key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from assent.http.context import DemoPerson
from assent.people.api_keys import create_api_key, revoke_api_key
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.http.application import app
from tests.http.callers import CALLBACKS, SETTINGS, bearer, client_of, problem
from tests.http.doors import create_app
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.world import fetch, rows

OWN_PAGE = {"Assent-Client": "web", "Origin": "http://assent"}


async def key_of(database: Database, user: str = "fin", **terms: Any) -> str:
    async with database.transaction("acme") as connection:
        terms.setdefault("scopes", ("*",))
        return (await create_api_key(connection, "acme", user, "browser", database.clock.now(), **terms))[0]


@asynccontextmanager
async def signed_in(
    door: FastAPI, database: Database, user: str = "fin", **terms: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser with the cookie of a session."""
    async with client_of(door, OWN_PAGE) as client:
        key = await key_of(database, user, **terms)
        reply = await client.post("/api/session", json={"key": key})
        assert reply.status_code == 201, reply.text
        assert key not in reply.text
        yield client


async def test_a_session_is_the_member_who_signed_in(door, furnished):
    async with signed_in(door, furnished, "olga") as client:
        found = (await client.get("/api/session")).json()
        assert (found["user_id"], found["org_id"], found["org_name"]) == ("olga", "acme", "Acme")
        assert "workflows:*" in found["capabilities"]
        assert found["session_id"] is not None
        body = {"data": {"title": "Taxi", "total": 1}}
        assert (await client.post("/api/entities/expense", json=body)).status_code == 403  # her own rights
    async with signed_in(door, furnished, "alice") as client:
        assert (await client.post("/api/entities/expense", json=body)).status_code == 201


async def test_the_cookie_is_no_scripts_and_of_this_server_alone(door, furnished):
    client = client_of(door, OWN_PAGE)
    async with client:
        reply = await client.post("/api/session", json={"key": await key_of(furnished)})
    plain = reply.headers["set-cookie"]
    assert plain.startswith("assent=")
    assert plain.endswith("; Path=/; Max-Age=3600; HttpOnly; SameSite=Strict")
    secure = httpx.AsyncClient(
        transport=httpx.ASGITransport(door),
        base_url="https://assent",
        headers=OWN_PAGE | {"Origin": "https://assent"},
    )
    async with secure:
        reply = await secure.post("/api/session", json={"key": await key_of(furnished)})
        cookie = reply.headers["set-cookie"]
        assert cookie.startswith("__Host-assent=")  # which no other host of the domain can set
        assert cookie.endswith("; HttpOnly; SameSite=Strict; Secure")
        assert (await secure.get("/api/session")).status_code == 200
        # The cookie of http, which another host of the domain may have set, counts for nothing here.
        secure.cookies.clear()
        token = plain.partition(";")[0]
        assert (await secure.get("/api/session", headers={"cookie": token})).status_code == 401


async def test_only_hashes_are_kept(door, furnished):
    async with signed_in(door, furnished) as client:
        token = client.cookies["assent"]
        await client.post("/api/session/renew", headers={"Idempotency-Key": "k"})
        kept = repr([await rows(furnished, table) for table in ("sessions", "http_replies", "audit_log")])
        assert token not in kept
        assert client.cookies["assent"] not in kept


STRANGE = {
    "without the header": {"Origin": "http://assent"},
    "another origin": {**OWN_PAGE, "Origin": "http://evil.example"},
    "another port": {**OWN_PAGE, "Origin": "http://assent:81"},
    "another scheme": {**OWN_PAGE, "Origin": "https://assent"},
    "an opaque origin": {**OWN_PAGE, "Origin": "null"},
    "no origin": {"Assent-Client": "web"},
    "the same site only": {**OWN_PAGE, "Sec-Fetch-Site": "same-site"},
    "cross site": {**OWN_PAGE, "Sec-Fetch-Site": "cross-site"},
    "typed by hand": {**OWN_PAGE, "Sec-Fetch-Site": "none"},
}


async def test_what_another_page_sends_with_the_cookie_is_refused(door, furnished):
    async with signed_in(door, furnished, "alice") as client:
        cookie = {"cookie": f"assent={client.cookies['assent']}"}
    made = {"data": {"title": "Taxi", "total": 1}}
    for headers in STRANGE.values():
        async with client_of(door, headers | cookie) as other:
            attempts = [
                await other.post("/api/entities/expense", json=made),
                await other.delete("/api/session"),
                await other.post("/api/session", json={"key": "k"}),
            ]
            assert [problem(reply, 403)["code"] for reply in attempts] == ["ORIGIN_REFUSED"] * 3, headers
            assert (await other.get("/api/session")).status_code == 200  # its page cannot read that
    assert await rows(furnished, "entities") == []


async def test_a_proxy_may_change_the_name_of_the_server(door, furnished):
    """The browser says itself that the page is of the same origin, whatever the proxy makes of `Host`."""
    async with signed_in(door, furnished, "alice") as client:
        behind = {"Sec-Fetch-Site": "same-origin", "Origin": "https://assent.example.com"}
        reply = await client.post(
            "/api/entities/expense", json={"data": {"title": "Taxi", "total": 1}}, headers=behind
        )
        assert reply.status_code == 201


async def test_programs_with_a_key_need_none_of_it_and_count_before_the_cookie(door, furnished):
    async with signed_in(door, furnished, "fin") as client:
        cookie = {"cookie": f"assent={client.cookies['assent']}"}
    async with client_of(door, bearer(await key_of(furnished, "alice")) | cookie) as program:
        reply = await program.post("/api/entities/expense", json={"data": {"title": "Taxi", "total": 1}})
        assert reply.status_code == 201
        assert (await program.get("/api/session")).json()["user_id"] == "alice"
        assert problem(await program.delete("/api/session"), 404)["code"] == "NOT_FOUND"


async def test_a_renewal_replaces_the_token_and_the_former_one_lives_for_a_minute(door, furnished, clock):
    async with signed_in(door, furnished) as client:
        former = client.cookies["assent"]
        assert (await client.post("/api/session/renew")).status_code == 200
        present = client.cookies["assent"]
        assert present != former

        async def status(token: str) -> int:
            async with client_of(door, {"cookie": f"assent={token}"}) as other:
                return (await other.get("/api/session")).status_code

        assert (await status(former), await status(present)) == (200, 200)
        # Another request that was on its way renews nothing, and its page goes on with the new token.
        async with client_of(door, OWN_PAGE | {"cookie": f"assent={former}"}) as late:
            reply = await late.post("/api/session/renew")
            assert (reply.status_code, "set-cookie" in reply.headers) == (200, False)
        clock.advance(timedelta(seconds=60))
        assert await status(present) == 200
        assert await status(former) == 401


async def test_a_session_that_a_thief_renews_ends_when_its_member_comes_back(door, furnished, clock):
    """One of the two sends a token that was replaced, and nobody can say which one is the member."""
    async with signed_in(door, furnished) as client:
        stolen = client.cookies["assent"]
        async with client_of(door, OWN_PAGE | {"cookie": f"assent={stolen}"}) as thief:
            renewed = (await thief.post("/api/session/renew")).cookies["assent"]
        clock.advance(timedelta(seconds=61))
        async with client_of(door, {"cookie": f"assent={renewed}"}) as thief:
            assert (await thief.get("/api/session")).status_code == 200
            assert (await client.get("/api/session")).status_code == 401
            assert (await thief.get("/api/session")).status_code == 401
    ended = await fetch(furnished, "SELECT revoked_at FROM assent.sessions WHERE org_id = 'acme'")
    assert [row["revoked_at"] for row in ended] == [clock.now()]


async def test_a_session_ends_when_nothing_renews_it_and_in_the_end_always(
    door, furnished, clock: MovedClock
):
    async with signed_in(door, furnished) as client:
        for _ in range(15):  # 12.5 hours
            clock.advance(timedelta(minutes=50))
            last = await client.post("/api/session/renew")
        assert problem(last, 401)["code"] == "SESSION_REFUSED"
    async with signed_in(door, furnished) as client:
        clock.advance(timedelta(minutes=61))
        assert problem(await client.get("/api/session"), 401)["code"] == "SESSION_REFUSED"


async def test_signing_out_ends_the_session_for_who_has_kept_its_token(door, furnished):
    async with signed_in(door, furnished) as client:
        token = client.cookies["assent"]
        reply = await client.delete("/api/session")
        assert reply.headers["set-cookie"].startswith("assent=; Path=/; Max-Age=0")
    async with client_of(door, {"cookie": f"assent={token}"}) as kept:
        assert problem(await kept.get("/api/session"), 401)["code"] == "SESSION_REFUSED"


async def test_beginning_and_end_of_a_session_are_in_the_audit_log(door, furnished):
    async with signed_in(door, furnished) as client:
        await client.post("/api/session/renew")
        await client.delete("/api/session")
    noted = {
        (row["action"], row["actor_id"], row["channel"])
        for row in await rows(furnished, "audit_log")
        if row["subject_kind"] == "session"
    }
    assert noted == {("session.create", "fin", "http"), ("session.revoke", "fin", "http")}


async def test_a_deactivated_member_loses_every_session_for_good(door, furnished, people):
    async with signed_in(door, furnished, "bob") as client, people("adam") as admin:
        # Deactivated and called back within the hour: the key and the session of before stay dead.
        assert (await admin.post("/api/members/bob/deactivate")).status_code == 200
        assert (await client.get("/api/inbox")).status_code == 401
        back = await admin.patch("/api/members/bob", json={"active": True})
        assert back.status_code == 200, back.text
        assert (await client.get("/api/inbox")).status_code == 401


async def test_no_session_begins_while_its_member_is_deactivated(door, furnished):
    key = await key_of(furnished, "bob")
    async with client_of(door, OWN_PAGE) as client:
        async with furnished.transaction(None) as deactivating:
            await deactivating.execute(
                "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'bob'"
            )
            signing_in = asyncio.create_task(client.post("/api/session", json={"key": key}))
            await wait_until_a_connection_is_blocked(deactivating)
        reply = await signing_in
    assert reply.status_code in (401, 403), reply.text
    assert (
        await fetch(furnished, "SELECT id FROM assent.sessions WHERE org_id = 'acme' AND user_id = 'bob'")
        == []
    )


async def test_a_session_has_the_scopes_and_the_partition_of_its_key_and_ends_with_it(door, furnished):
    terms = {"scopes": ("members:read", "approvals:read"), "partition_id": "north"}
    async with signed_in(door, furnished, "bob", **terms) as client:
        found = (await client.get("/api/session")).json()
        assert (found["scopes"], found["partition_id"]) == (["approvals:read", "members:read"], "north")
        assert problem(await client.get("/api/instances"), 403)["code"] == "SCOPE_MISSING"
        assert (await client.get("/api/inbox")).status_code == 200
        (session,) = [row for row in await rows(furnished, "sessions") if row["user_id"] == "bob"]
        async with furnished.transaction("acme") as connection:
            await revoke_api_key(connection, "acme", session["key_id"], furnished.clock.now())
        assert problem(await client.get("/api/inbox"), 401)["code"] == "SESSION_REFUSED"


async def test_a_session_makes_no_key_that_outlives_it(door, furnished):
    async with signed_in(door, furnished, "alice") as client:
        made = await client.post("/api/keys", json={"name": "for good"})
        assert made.status_code == 201, made.text
        (session,) = [row for row in await rows(furnished, "sessions") if row["user_id"] == "alice"]
        (key,) = [row for row in await rows(furnished, "api_keys") if row["name"] == "for good"]
        assert (key["expires_at"], key["parent_id"]) == (session["expires_at"], session["key_id"])


async def test_sign_ins_that_fail_are_counted_and_refused(furnished):
    settings = SETTINGS.replace(rate_failed_sign_ins_per_minute=2)
    async with client_of(create_app(app, furnished, settings, CALLBACKS), OWN_PAGE) as client:
        statuses = [(await client.post("/api/session", json={"key": "ak_no"})).status_code for _ in range(3)]
        assert statuses == [401, 401, 429]


@pytest.mark.parametrize("body", [{}, {"user": "fin"}, {"key": "k", "user": "fin"}, {"key": "no-mark"}])
async def test_what_is_no_key_signs_nobody_in(door, body):
    async with client_of(door, OWN_PAGE) as client:
        reply = await client.post("/api/session", json=body)
        assert (reply.status_code, "set-cookie" in reply.headers) == (401, False)


async def test_what_cannot_be_read_begins_no_session(door, furnished, clock):
    async with client_of(door, OWN_PAGE | {"content-type": "application/json"}) as client:
        for content, status in ((b"{", 400), (b"[]", 422), (b'{"kye": "k"}', 422), (b"x" * 3_000_000, 413)):
            assert problem(await client.post("/api/session", content=content), status), content
        await furnished.close()
        assert problem(await client.post("/api/session", json={"key": "ak_k"}), 503)


async def test_the_demo_signs_in_whom_it_offers(furnished):
    demo = create_app(app, furnished, SETTINGS, CALLBACKS, None, [DemoPerson("acme", "fin", "Finley")])
    async with client_of(demo, OWN_PAGE) as client:
        offered = (await client.get("/api/session/ways")).json()
        assert offered == {"people": [{"user_id": "fin", "name": "Finley"}]}
        assert (await client.post("/api/session", json={"user": "adam"})).status_code == 401
        assert (await client.post("/api/session", json={"user": "fin"})).status_code == 201
        assert (await client.get("/api/session")).json()["user_id"] == "fin"
        # Without a key, so its rights are its member's, now.
        assert (await client.get("/api/inbox")).status_code == 200


async def test_an_ended_session_ends_its_streams(door, furnished):
    async with signed_in(door, furnished) as client:
        assert "event: inbox" in (await client.get("/api/inbox/events")).text
        await client.delete("/api/session")
        assert (await client.get("/api/inbox/events")).status_code == 401
