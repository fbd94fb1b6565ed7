"""Results over HTTP: by those who may, signed where that is asked, and by callbacks that nobody can forge."""

import json
from datetime import timedelta
from uuid import UUID, uuid4

import jwt
import pytest
from standardwebhooks import Webhook

from assent.effects.callbacks import AUDIENCE as CALLBACK_AUDIENCE
from assent.effects.callbacks import TYPE, Callbacks
from assent.effects.settings import CallbackSettings
from assent.http.settings import HttpSettings
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from tests.http.application import app
from tests.http.callers import (
    AUDIENCE,
    CALLBACKS,
    ISSUER,
    SECRET,
    SETTINGS,
    ask,
    claims,
    client_of,
    problem,
    token,
    token_of,
)
from tests.http.doors import create_app
from tests.postgres import START
from tests.requests.bundles import item
from tests.workers import run_until_done
from tests.world import drain, rows

BUNDLE = {"key": "evt_1", "items": [item(7, kind="passport")]}


@pytest.fixture
async def asked(people) -> UUID:
    """What a vendor was asked, in a workflow that waits for two items."""
    started = await ask(people, "alice", "POST", "/api/flows/screening/start", {"client": "c-1"})
    assert started.status_code == 201, started.text
    (found,) = (await ask(people, "alice", "GET", "/api/outside-requests")).json()["items"]
    return UUID(found["id"])


async def push(people, request_id, body=None, user="olga", **more):
    return await ask(
        people, user, "POST", f"/api/outside-requests/{request_id}/results", body or BUNDLE, **more
    )


async def call_back(door, text, body=None, **headers):
    async with client_of(door) as client:
        return await client.post(f"/callbacks/{text}", json=body or BUNDLE, headers=headers)


async def work(furnished) -> None:
    runtime = app.runtime(furnished)
    await run_until_done(Results(WorkerContext(furnished, runtime=runtime)))
    await drain(runtime)


async def test_a_result_is_accepted_repeated_and_late(people, furnished, asked):
    assert (await push(people, asked)).status_code == 202
    again = await push(people, asked)
    assert (again.status_code, again.json()["outcome"]) == (200, "repeated")
    await work(furnished)
    assert (await push(people, asked, {"key": "evt_2", "items": [item(8)]})).json()["outcome"] == "accepted"
    await work(furnished)
    late = await push(people, asked, {"key": "evt_3", "items": [item(9)]})
    assert (late.status_code, late.json()) == (
        200,
        {"request_id": str(asked), "key": "evt_3", "outcome": "late"},
    )
    (instance,) = await rows(furnished, "workflow_instances")
    assert instance["status"] == "completed"


async def test_whoever_hands_in_is_in_the_audit_log_and_what_changes_nothing_is_not(
    people, door, furnished, asked
):
    for _ in range(2):
        await push(people, asked)
    await call_back(door, token_of(asked), {"key": "vendor", "items": [item(8)]})
    found = [row for row in await rows(furnished, "audit_log") if row["subject_kind"] == "result"]
    (entry,) = found
    assert (entry["action"], entry["actor_id"], entry["channel"], entry["subject_id"], entry["details"]) == (
        "result.push",
        "olga",
        "http",
        str(asked),
        {"key": "evt_1"},
    )


async def test_a_request_shows_what_was_asked_and_what_came(people, furnished, asked):
    await push(people, asked, {"key": "k", "items": [item(7, kind="passport"), {"status": "failed"}]})
    await work(furnished)
    found = (await ask(people, "alice", "GET", f"/api/outside-requests/{asked}")).json()
    assert (found["name"], found["status"], found["received"], found["failed"]) == (
        "screening.vendor",
        "partial",
        1,
        1,
    )
    assert found["asked"]["body"] == {"client": "c-1"}
    (delivery,) = found["deliveries"]
    assert (delivery["source"], delivery["pushed_by"], delivery["status"]) == ("http", "olga", "done")
    assert [(one["cargo"], one["status"]) for one in found["items"]] == [
        (None, "failed"),
        ("external://vault/7", "completed"),
    ]


async def test_requests_are_listed_in_pages_and_by_what_they_are(people, asked):
    for client in ("c-2", "c-3"):
        await ask(people, "alice", "POST", "/api/flows/screening/start", {"client": client})
    first = (await ask(people, "alice", "GET", "/api/outside-requests?limit=2")).json()
    rest = (await ask(people, "alice", "GET", f"/api/outside-requests?limit=2&cursor={first['next']}")).json()
    seen = [one["id"] for one in [*first["items"], *rest["items"]]]
    assert (len(set(seen)), seen[-1], rest["next"]) == (3, str(asked), None)
    for query, number in (
        ("status=pending", 3),
        ("status=failed", 0),
        ("name=screening.vendor", 3),
        (f"instance_id={first['items'][0]['instance_id']}", 1),
    ):
        found = (await ask(people, "alice", "GET", f"/api/outside-requests?{query}")).json()["items"]
        assert len(found) == number, query


async def test_results_are_for_those_who_may(people, furnished, asked):
    refused = problem(await push(people, asked, user="alice"), 403)
    assert (refused["code"], "results:push" in refused["detail"]) == ("POLICY_DENIED", True)
    assert problem(await push(people, uuid4()), 404)["code"] == "NOT_FOUND"
    assert problem(await push(people, asked, partition_id="north"), 404)["code"] == "NOT_FOUND"
    assert await rows(furnished, "outside_request_deliveries") == []


async def test_every_problem_of_a_bundle_is_told_at_its_place(people, furnished, asked):
    bad = {"key": "k", "items": [{"cargo": "passport.pdf"}, {"kind": "passport"}], "more": 1}
    found = problem(await push(people, asked, bad), 422)
    assert {(each["code"], *each["path"]) for each in found["problems"]} == {
        ("BAD_CARGO", "items", 0, "cargo"),
        ("MISSING_KEY", "items", 1),
        ("UNKNOWN_KEY", "more"),
    }
    assert any("external://<system>/<id>" in each.get("hint", "") for each in found["problems"])
    assert await rows(furnished, "outside_request_deliveries") == []


async def test_a_callback_needs_nothing_but_its_token(door, furnished, asked):
    text = token_of(asked)
    answers = [await call_back(door, text) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 200]
    (delivery,) = await rows(furnished, "outside_request_deliveries")
    assert (delivery["source"], delivery["pushed_by"]) == ("callback", None)
    await work(furnished)
    assert (await call_back(door, text, {"key": "b", "status": "failed"})).status_code == 202
    await work(furnished)
    assert (await call_back(door, text, {"key": "c", "status": "failed"})).json()["outcome"] == "late"


def _with_key(key: str, asked: UUID) -> str:
    settings = CallbackSettings(url=CALLBACKS.url, key=key)
    return Callbacks(settings).token("acme", asked, START)


async def test_forged_callbacks_are_refused(door, furnished, asked, clock):
    good = token_of(asked)
    head, body, signature = good.split(".")
    other = token_of(uuid4()).split(".")[1]
    now = clock.now()
    named = {"aud": CALLBACK_AUDIENCE, "org": "acme", "request": str(asked), "exp": now + timedelta(days=1)}
    signed = Callbacks(CALLBACKS)._tokens._key
    forged = {
        "another key": _with_key("another key of callbacks, longer than 32", asked),
        "the key itself": jwt.encode(named, CALLBACKS.key, algorithm="HS256", headers={"typ": TYPE}),
        "another body": f"{head}.{other}.{signature}",
        "no signature": f"{head}.{body}.",
        "no algorithm": jwt.encode(named, None, algorithm="none", headers={"typ": TYPE}),
        "another type": jwt.encode(named, signed, algorithm="HS256"),
        "another audience": jwt.encode(
            named | {"aud": AUDIENCE}, signed, algorithm="HS256", headers={"typ": TYPE}
        ),
        "no end": jwt.encode(
            {name: claim for name, claim in named.items() if name != "exp"},
            signed,
            algorithm="HS256",
            headers={"typ": TYPE},
        ),
        "no request": jwt.encode(named | {"request": 7}, signed, algorithm="HS256", headers={"typ": TYPE}),
        "no org": jwt.encode(named | {"org": 7}, signed, algorithm="HS256", headers={"typ": TYPE}),
        "nonsense": "x",
    }
    for why, text in forged.items():
        assert problem(await call_back(door, text), 401)["code"] == "TOKEN_REFUSED", why
    assert await rows(furnished, "outside_request_deliveries") == []
    assert (await call_back(door, good)).status_code == 202


async def test_a_callback_of_another_org_finds_nothing(door, furnished, asked):
    assert problem(await call_back(door, token_of(asked, org="globex")), 404)["code"] == "NOT_FOUND"
    assert problem(await call_back(door, token_of(uuid4())), 404)["code"] == "NOT_FOUND"
    assert await rows(furnished, "outside_request_deliveries") == []


async def test_a_callback_expires(door, furnished, asked, clock):
    text = token_of(asked)
    clock.advance(timedelta(days=90) - timedelta(seconds=1))
    assert (await call_back(door, text)).status_code == 202
    clock.advance(timedelta(seconds=1))
    assert (
        problem(await call_back(door, text, {"key": "b", "items": [item(8)]}), 401)["code"] == "TOKEN_EXPIRED"
    )


async def test_no_token_is_good_for_what_the_other_is_for(furnished, asked, clock):
    """Even where an operator took one secret for both, and named the audiences alike."""
    same = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=CALLBACK_AUDIENCE)
    door = create_app(app, furnished, same, CallbackSettings(url=CALLBACKS.url, key=SECRET))
    text = Callbacks(CallbackSettings(url=CALLBACKS.url, key=SECRET)).token("acme", asked, clock.now())
    async with client_of(door, {"Authorization": f"Bearer {text}"}) as client:
        assert problem(await client.get("/api/outside-requests"), 401)["code"] == "TOKEN_REFUSED"
    about = {"aud": CALLBACK_AUDIENCE, "org": "acme", "request": str(asked)}
    signs_in = jwt.encode(claims(clock.now(), "olga", **about), SECRET, algorithm="HS256")
    async with client_of(door, {"Authorization": f"Bearer {signs_in}"}) as client:
        assert (await client.get("/api/outside-requests")).status_code == 200
    assert problem(await call_back(door, signs_in), 401)["code"] == "TOKEN_REFUSED"
    assert problem(await call_back(door, token(clock.now(), "olga")), 401)["code"] == "TOKEN_REFUSED"


async def test_without_settings_there_are_no_callbacks(furnished, asked):
    door = create_app(app, furnished, SETTINGS, CallbackSettings())
    assert problem(await call_back(door, token_of(asked)), 404)["code"] == "NOT_FOUND"


async def test_whoever_tries_tokens_is_counted_apart_from_whoever_has_one(furnished, asked):
    few = HttpSettings(rate_workflows_per_minute=2)
    door = create_app(app, furnished, few, CALLBACKS)
    assert [(await call_back(door, "x")).status_code for _ in range(3)] == [401, 401, 429]
    assert [(await call_back(door, token_of(asked))).status_code for _ in range(3)] == [202, 200, 429]


@pytest.fixture
async def secret(people) -> str:
    source = {"name": "vendor", "key_prefix": "result:screening."}
    made = await ask(people, "adam", "POST", "/api/event-sources", source)
    return made.json()["secret"]


def signed(secret, now, content, message="msg_1"):
    return {
        "webhook-id": message,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message, now, content),
        "content-type": "application/json",
    }


async def test_results_of_a_source_that_signs_are_taken_only_with_its_signature(
    people, door, furnished, secret, asked
):
    clock = furnished.clock
    content = json.dumps({**BUNDLE, "request_id": str(asked)})
    assert problem(await push(people, asked), 403)["code"] == "SIGNATURE_MISSING"
    assert problem(await call_back(door, token_of(asked)), 403)["code"] == "SIGNATURE_MISSING"
    good = signed(secret, clock.now(), content)
    for path, headers in (
        (f"/api/outside-requests/{asked}/results", good | {"webhook-id": "other"}),
        (f"/callbacks/{token_of(asked)}", good | {"webhook-signature": "v1,AAAA"}),
    ):
        async with people("olga") as client:
            refused = await client.post(path, content=content, headers=headers)
        assert problem(refused, 403)["code"] == "SIGNATURE_REFUSED"
    assert await rows(furnished, "outside_request_deliveries") == []
    async with client_of(door) as client:
        taken = await client.post(f"/callbacks/{token_of(asked)}", content=content, headers=good)
    assert taken.status_code == 202
    async with people("olga") as client:
        again = await client.post(f"/api/outside-requests/{asked}/results", content=content, headers=good)
    assert (again.status_code, again.json()["outcome"]) == (200, "repeated")


@pytest.mark.parametrize(
    "named", [{}, {"request_id": None}, {"request_id": "01890a5d-ac96-774b-bcce-b302099a8057"}]
)
async def test_results_that_were_signed_for_another_request_are_refused(  # noqa: PLR0913, PLR0917
    people, door, furnished, secret, asked, named
):
    content = json.dumps({**BUNDLE, **named})
    good = signed(secret, furnished.clock.now(), content)
    async with people("olga") as client:
        pushed = await client.post(f"/api/outside-requests/{asked}/results", content=content, headers=good)
    async with client_of(door) as client:
        called = await client.post(f"/callbacks/{token_of(asked)}", content=content, headers=good)
    for refused in (pushed, called):
        assert problem(refused, 403)["code"] == "SIGNATURE_REFUSED"
    assert await rows(furnished, "outside_request_deliveries") == []
