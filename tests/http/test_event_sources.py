"""Events that must be signed: taken with a good signature, refused with every other, and told once."""

import json
from datetime import timedelta

import pytest
from standardwebhooks import Webhook

from tests.http.application import app
from tests.http.callers import ask, problem
from tests.world import drain, rows

OTHER = "whsec_" + "b" * 43 + "="


@pytest.fixture
async def secret(people) -> str:
    made = await ask(people, "adam", "POST", "/api/event-sources", {"name": "bank", "key_prefix": "payment:"})
    assert made.status_code == 201, made.text
    return made.json()["secret"]


PAID = {"data": {"paid": 100}}


async def deliver(people, secret, now, key="payment:7", **changes):
    """As a sender does: sign what is sent, `body` under the id `message`; other `changes` are headers."""
    content = json.dumps(changes.pop("body", {"key": key, **PAID}))
    message = changes.pop("message", "msg_1")
    signed = {
        "webhook-id": message,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message, now, content),
        "content-type": "application/json",
    }
    given = signed | {name.replace("_", "-"): text for name, text in changes.items()}
    async with people("olga") as client:
        return await client.post(
            f"/api/events/{key}",
            content=content,
            headers={name: text for name, text in given.items() if text is not None},
        )


async def test_a_signed_event_is_taken_and_told_once(people, furnished, secret, clock):
    for new in (True, False):
        answer = await deliver(people, secret, clock.now())
        assert (answer.status_code, answer.json()["new"]) == (202, new)
    assert len(await rows(furnished, "workflow_events_outbox")) == 1
    assert (await deliver(people, secret, clock.now(), message="msg_2")).json()["new"] is True
    await drain(app.runtime(furnished))


async def test_the_senders_own_secret_is_taken(people, clock):
    body = {"name": "shop", "key_prefix": "order:", "secret": OTHER}
    assert (await ask(people, "adam", "POST", "/api/event-sources", body)).json()["secret"] == OTHER
    assert (await deliver(people, OTHER, clock.now(), key="order:1")).status_code == 202


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"webhook_signature": None}, "SIGNATURE_MISSING"),
        ({"webhook_id": None}, "SIGNATURE_MISSING"),
        ({"webhook_timestamp": None}, "SIGNATURE_MISSING"),
        ({"webhook_id": "msg_2"}, "SIGNATURE_REFUSED"),
        ({"webhook_timestamp": "1772441999"}, "SIGNATURE_REFUSED"),
        ({"webhook_timestamp": "soon"}, "SIGNATURE_REFUSED"),
        ({"webhook_timestamp": "99999999999"}, "SIGNATURE_REFUSED"),
        ({"webhook_signature": "v1,AAAA"}, "SIGNATURE_REFUSED"),
        ({"webhook_signature": "v2,AAAA nonsense"}, "SIGNATURE_REFUSED"),
    ],
)
async def test_whatever_is_not_signed_right_is_refused(people, furnished, secret, headers, code):
    assert problem(await deliver(people, secret, furnished.clock.now(), **headers), 403)["code"] == code
    assert await rows(furnished, "workflow_events_outbox") == []


async def test_another_body_or_another_secret_is_refused(people, furnished, secret, clock):
    paid = {"key": "payment:7", "data": {"paid": 100}}
    signed = Webhook(secret).sign("msg_1", clock.now(), json.dumps(paid))
    less = {**paid, "data": {"paid": 1}}
    changed = await deliver(people, secret, clock.now(), body=less, webhook_signature=signed)
    assert problem(changed, 403)["code"] == "SIGNATURE_REFUSED"
    assert problem(await deliver(people, OTHER, clock.now()), 403)["code"] == "SIGNATURE_REFUSED"
    assert await rows(furnished, "workflow_events_outbox") == []


@pytest.mark.parametrize(("minutes", "status"), [(-6, 403), (-4, 202), (4, 202), (6, 403)])
async def test_a_signature_holds_for_five_minutes(people, secret, clock, minutes, status):
    signed_at = clock.now() + timedelta(minutes=minutes)
    assert (await deliver(people, secret, signed_at)).status_code == status


async def test_what_was_signed_for_one_key_is_not_taken_for_another(people, furnished, secret, clock):
    signed = {"key": "payment:1", **PAID}
    assert (await deliver(people, secret, clock.now(), key="payment:1", body=signed)).status_code == 202
    for key in ("payment:2", "payment:3", "payment:10"):
        refused = problem(await deliver(people, secret, clock.now(), key=key, body=signed), 403)
        assert refused["code"] == "SIGNATURE_REFUSED"
    unnamed = problem(await deliver(people, secret, clock.now(), body=PAID, message="msg_2"), 403)
    assert unnamed["code"] == "SIGNATURE_REFUSED"
    (event,) = await rows(furnished, "workflow_events_outbox")
    assert event["payload_json"]["key"] == "payment:1"


async def test_delivery_is_taken_once_of_its_source_whatever_its_key_and_cause(
    people, furnished, secret, clock
):
    first = await deliver(people, secret, clock.now(), body={"key": "payment:7", "cause": "a", **PAID})
    assert first.json()["new"] is True
    clock.move_to(clock.now() + timedelta(minutes=1))
    for key, cause in (("payment:7", "b"), ("payment:8", "a"), ("payment:8", "c")):
        body = {"key": key, "cause": cause, **PAID}
        again = await deliver(people, secret, clock.now(), key=key, body=body)
        assert (again.status_code, again.json()["new"]) == (202, False)
    assert len(await rows(furnished, "workflow_events_outbox")) == 1


async def test_delivery_that_was_refused_may_come_again(people, secret, clock):
    broken = await deliver(people, secret, clock.now(), body={"key": "payment:7", "data": "\ud800"})
    assert broken.status_code >= 400
    assert (await deliver(people, secret, clock.now())).json()["new"] is True


async def test_two_sources_with_one_id_do_not_silence_each_other(people, furnished, secret, clock):
    body = {"name": "cards", "key_prefix": "payment:card:", "secret": OTHER}
    await ask(people, "adam", "POST", "/api/event-sources", body)
    assert (await deliver(people, secret, clock.now(), key="payment:1")).json()["new"] is True
    assert (await deliver(people, OTHER, clock.now(), key="payment:card:1")).json()["new"] is True
    causes = {row["payload_json"]["cause"] for row in await rows(furnished, "workflow_events_outbox")}
    assert causes == {"bank:msg_1", "cards:msg_1"}


async def test_same_id_of_another_org_is_another_delivery(people, secret, clock):
    source = {"name": "bank", "key_prefix": "payment:", "secret": secret}
    await ask(people, "adam", "POST", "/api/event-sources", source, org="globex")
    assert (await deliver(people, secret, clock.now())).json()["new"] is True
    content = json.dumps({"key": "payment:7", **PAID})
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(clock.now().timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", clock.now(), content),
        "content-type": "application/json",
    }
    async with people("olga", org="globex") as client:
        answer = await client.post("/api/events/payment:7", content=content, headers=headers)
    assert answer.json()["new"] is True


async def test_other_keys_and_other_orgs_need_no_signature(people, secret):
    assert (await ask(people, "olga", "POST", "/api/events/delivery:7", {})).status_code == 202
    assert (await ask(people, "olga", "POST", "/api/events/payment:7", {}, org="globex")).status_code == 202


async def test_of_two_sources_the_one_with_the_longer_prefix_is_meant(people, secret, clock):
    body = {"name": "cards", "key_prefix": "payment:card:", "secret": OTHER}
    await ask(people, "adam", "POST", "/api/event-sources", body)
    assert (await deliver(people, OTHER, clock.now(), key="payment:card:1")).status_code == 202
    assert (await deliver(people, secret, clock.now(), key="payment:card:1")).status_code == 403
    assert (await deliver(people, secret, clock.now(), key="payment:cash:1")).status_code == 202


async def test_two_secrets_hold_until_the_former_is_retired(people, secret, clock):
    turned = (await ask(people, "adam", "POST", "/api/event-sources/bank/rotate", {})).json()
    assert turned["two_secrets"] is True
    assert turned["secret"] != secret
    for number, known in enumerate((secret, turned["secret"])):
        assert (await deliver(people, known, clock.now(), message=f"m{number}")).status_code == 202
    retired = (await ask(people, "adam", "POST", "/api/event-sources/bank/retire")).json()
    assert retired["two_secrets"] is False
    assert (await deliver(people, secret, clock.now(), message="m3")).status_code == 403
    assert (await deliver(people, turned["secret"], clock.now(), message="m4")).status_code == 202


async def test_a_secret_is_shown_once(people, furnished, secret):
    listed = await ask(people, "adam", "GET", "/api/event-sources")
    assert [source["name"] for source in listed.json()["items"]] == ["bank"]
    assert secret not in listed.text
    assert await rows(furnished, "http_replies") == []


async def test_a_source_that_is_gone_asks_for_no_signature(people, secret):
    assert (await ask(people, "adam", "DELETE", "/api/event-sources/bank")).json()["name"] == "bank"
    assert (await ask(people, "olga", "POST", "/api/events/payment:7", {})).status_code == 202
    for method, path in (("DELETE", ""), ("POST", "/retire")):
        assert problem(await ask(people, "adam", method, f"/api/event-sources/bank{path}"), 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "bank", "key_prefix": "other:"}, 409),
        ({"name": "other", "key_prefix": "payment:"}, 409),
        ({"name": "other", "key_prefix": ""}, 422),
        ({"name": "other", "key_prefix": "x", "secret": "hunter2"}, 422),
    ],
)
async def test_a_source_that_cannot_be_is_told(people, furnished, secret, body, status):
    before = await rows(furnished, "event_sources")
    assert problem(await ask(people, "adam", "POST", "/api/event-sources", body), status)
    assert await rows(furnished, "event_sources") == before


@pytest.mark.usefixtures("secret")
async def test_sources_are_for_those_who_may(people, furnished):
    before = await rows(furnished, "event_sources")
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", {"name": "x", "key_prefix": "x"}),
        ("POST", "/bank/rotate", {}),
        ("POST", "/bank/retire", None),
        ("DELETE", "/bank", None),
    ):
        refused = await ask(people, "olga", method, f"/api/event-sources{path}", body)
        assert problem(refused, 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "event_sources") == before
