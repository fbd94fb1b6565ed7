"""Webhooks, end to end: enqueued with their step, sent by the worker, signed, tried again, and proved."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.effects.signing_secrets import retire_old_secrets, rotate_secret
from assent.model.problems import Invalid
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.effects.test_named_secrets import VALUE, keep, local
from tests.postgres import SETTINGS, START
from tests.receiver import Receiver, ReceiverReply, redirect_to, reply_json
from tests.workers import LOCAL, EffectsWorker
from tests.world import ORG, publish_webhook


async def test_step_is_done_when_the_webhook_is_enqueued_and_evidence_follows(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    view = await effects_worker.start("telling", url=f"{receiver.url}/orders", order=7)
    assert view.status == "completed"
    assert receiver.received == []
    before = (await effects_worker.step(view.id, "tell"))["output_json"]

    receiver.will(reply_json({"thanks": True}))
    assert await effects_worker.send() == {"done": 1}
    (received,) = receiver.received
    assert (received.method, received.path, received.json) == ("POST", "/orders", {"order": 7})
    effect = await effects_worker.effect()
    assert received.key == effect["key"]
    assert (effect["status"], effect["attempts"], effect["ended_at"]) == ("done", 1, START)
    evidence = effect["output"]
    assert (evidence["status"], evidence["attempt"], evidence["body"]) == (200, 1, '{"thanks": true}')
    assert evidence["headers"]["content-type"] == "application/json"
    assert evidence["took_ms"] >= 0
    after = (await effects_worker.step(view.id, "tell"))["output_json"]
    assert after == {**before, "evidence": {str(effect["id"]): {**evidence, "at": START.isoformat()}}}


async def test_failing_receiver_is_tried_again_later_and_later_under_the_same_key(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(500), ReceiverReply(502), ReceiverReply(200))
    waits = []
    for attempt in (1, 2):
        assert await effects_worker.send() == {"retrying": 1}
        effect = await effects_worker.effect()
        assert (effect["status"], effect["attempts"]) == ("retrying", attempt)
        assert await effects_worker.send() == {}, "not before its time"
        waits.append(effect["run_at"] - clock.now())
        clock.move_to(effect["run_at"])
    assert await effects_worker.send() == {"done": 1}
    assert timedelta(seconds=4) <= waits[0] <= timedelta(seconds=6)
    assert timedelta(seconds=12) <= waits[1] <= timedelta(seconds=18)
    assert list(receiver.keys.values()) == [3]
    assert (await effects_worker.effect())["error"] is None


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_obeyed(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock, status: int, form: str
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    date = (clock.now() + timedelta(seconds=120)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    receiver.will(ReceiverReply(status, headers={"Retry-After": "120" if form == "seconds" else date}))
    await effects_worker.send()
    assert (await effects_worker.effect())["run_at"] == clock.now() + timedelta(seconds=120)
    clock.advance(timedelta(seconds=119))
    assert await effects_worker.send() == {}
    clock.advance(timedelta(seconds=1))
    assert await effects_worker.send() == {"done": 1}


@pytest.mark.parametrize("said", ["soon", "-5", "99999999999999999999", "Sun, 99 Foo"])
async def test_retry_after_that_says_nothing_leaves_the_backoff(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock, said: str
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(429, headers={"Retry-After": said}))
    await effects_worker.send()
    assert (await effects_worker.effect())["run_at"] <= clock.now() + timedelta(seconds=6)


async def test_retry_after_is_capped(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(503, headers={"Retry-After": "999999999"}))
    await effects_worker.send()
    assert (await effects_worker.effect())["run_at"] == clock.now() + timedelta(hours=6)


@pytest.mark.parametrize("status", [400, 401, 404, 409, 410, 422, 300, 304])
async def test_what_the_receiver_refuses_for_good_is_a_dead_letter_at_once(
    effects_worker: EffectsWorker, receiver: Receiver, status: int
) -> None:
    await publish_webhook(effects_worker.database)
    view = await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(status, b"no such order"))
    assert await effects_worker.send() == {"dead": 1}
    effect = await effects_worker.effect()
    assert effect["error"] == f"HTTP_{status}: the receiver answered {status}"
    assert effect["ambiguous"] is False
    step = await effects_worker.step(view.id, "tell")
    assert step["status"] == "completed"
    assert step["output_json"]["evidence"][str(effect["id"])]["outcome"] == "dead"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 504])
async def test_what_may_help_later_is_tried_again(
    effects_worker: EffectsWorker, receiver: Receiver, status: int
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(status))
    assert await effects_worker.send() == {"retrying": 1}


async def test_attempts_that_are_used_up_leave_a_dead_letter(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.otherwise = lambda _: ReceiverReply(500)
    for _ in range(7):
        assert await effects_worker.send() == {"retrying": 1}
        clock.advance("2h")
    assert await effects_worker.send() == {"dead": 1}
    assert sum(receiver.keys.values()) == 8
    assert len(receiver.keys) == 1


async def test_receiver_that_is_not_there_is_no_ambiguity(effects_worker: EffectsWorker) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url="http://127.0.0.1:9/", order=7)
    assert await effects_worker.send() == {"retrying": 1}
    effect = await effects_worker.effect()
    assert (effect["ambiguous"], effect["error"].partition(":")[0]) == (False, "CONNECTION_FAILED")


@pytest.mark.parametrize("how", ["silent", "hangs up"])
async def test_sent_without_an_answer_is_ambiguous_and_sent_again_under_the_same_key(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock, how: str
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(receiver.silence() if how == "silent" else ReceiverReply(hang_up=True))
    assert await effects_worker.send() == {"retrying": 1}
    effect = await effects_worker.effect()
    assert effect["ambiguous"] is True
    assert effect["error"].endswith("(sent, and no answer came)")
    assert effect["output"]["ambiguous"] is True
    clock.advance("1m")
    assert await effects_worker.send() == {"done": 1}
    assert list(receiver.keys.values()) == [2]
    assert (await effects_worker.effect())["ambiguous"] is True, "that it may have come twice stays on record"


async def test_ambiguous_failure_is_given_up_where_the_node_says_so(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database, on_ambiguous="give_up")
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(hang_up=True))
    assert await effects_worker.send() == {"dead": 1}
    assert (await effects_worker.effect())["ambiguous"] is True
    assert len(receiver.received) == 1


async def test_other_failures_are_tried_again_also_where_ambiguous_ones_are_given_up(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_webhook(effects_worker.database, on_ambiguous="give_up")
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(500))
    assert await effects_worker.send() == {"retrying": 1}
    clock.advance("1m")
    assert await effects_worker.send() == {"done": 1}


async def test_what_must_not_come_twice_never_uses_a_connection_for_the_second_time(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """An idle connection may be lost in the moment it is used, and nobody could tell whether it arrived."""
    await publish_webhook(effects_worker.database, key="careful", on_ambiguous="give_up")
    await publish_webhook(effects_worker.database)
    for flow, connections in (("telling", 1), ("careful", 3)):
        before = receiver.connections
        for _ in range(3):
            await effects_worker.start(flow, url=receiver.url, order=7)
            await effects_worker.duty.run_once()
        assert receiver.connections - before == connections, flow


async def test_answer_that_breaks_off_was_an_answer(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """The status came: it arrived, and nobody waits for the rest."""
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(200, b"half", claim_bytes=100))
    assert await effects_worker.send() == {"done": 1}
    assert (await effects_worker.effect())["output"]["body_is_whole"] is False


async def test_evidence_is_cut_and_can_be_kept_whatever_the_receiver_says(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(
        ReceiverReply(200, b"\0\xff\xfe" + b"x" * 100_000, {"X-Request-Id": "a\xe4", "X-Secret": "s"})
    )
    assert await effects_worker.send() == {"done": 1}
    evidence = (await effects_worker.effect())["output"]
    assert len(evidence["body"]) <= 4_096
    assert evidence["body"].startswith("\N{REPLACEMENT CHARACTER}" * 3)
    assert evidence["body_is_whole"] is False
    assert "x-secret" not in evidence["headers"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/x",
        "nonsense",
        "http://",
        "http://us:pw@127.0.0.1/",
        "http://[::1",
        "file:///etc/passwd",
    ],
)
async def test_url_that_is_none_is_a_dead_letter(effects_worker: EffectsWorker, url: str) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=url, order=7)
    assert await effects_worker.send() == {"dead": 1}
    effect = await effects_worker.effect()
    assert effect["error"].startswith("BAD_URL")
    assert "pw" not in effect["error"]


async def test_empty_url_fails_the_step_itself(effects_worker: EffectsWorker) -> None:
    await publish_webhook(effects_worker.database)
    view = await effects_worker.start("telling", url="", order=7)
    assert view.status == "paused"
    assert (await effects_worker.step(view.id, "tell"))["output_json"]["error"]["code"] == "URL_MISSING"
    assert await effects_worker.effects() == []


async def test_author_sets_headers_but_not_those_that_are_ours(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    headers = {"X-Order": "{workflow.order}", "Idempotency-Key": "mine", "Host": "evil", "webhook-id": "x"}
    await publish_webhook(effects_worker.database, headers=headers, method="PUT")
    await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.send()
    (received,) = receiver.received
    assert (received.method, received.headers["x-order"]) == ("PUT", "7")
    assert received.key == (await effects_worker.effect())["key"]
    assert received.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert "webhook-id" not in received.headers


OURS = ("webhook-id", "webhook-timestamp", "webhook-signature")


async def test_signature_of_the_authors_own_is_not_published(effects_worker: EffectsWorker) -> None:
    with pytest.raises(Invalid) as raised:
        await publish_webhook(effects_worker.database, headers=dict.fromkeys(OURS, "forged"))
    assert [(found.code, found.path[-1]) for found in raised.value.problems] == [
        ("LITERAL_CREDENTIAL", "webhook-signature")
    ]


@pytest.mark.parametrize("how", ["published before", "by a secret"])
@pytest.mark.parametrize("signed", [False, True])
async def test_author_cannot_say_who_vouches_for_a_message(
    effects_worker: EffectsWorker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, signed: bool, how: str
) -> None:
    """Also where nothing is signed: a receiver takes `webhook-id` for ours, and tells repetitions by it."""
    with monkeypatch.context() as patched:
        if how == "published before":  # signatures were no credentials then
            patched.setattr("assent.compiler.credentials.is_credential", lambda _: False)
            forged = "forged"
        else:
            await keep(effects_worker.database, local(receiver))
            forged = "{secret.erp}"
        await publish_webhook(
            effects_worker.database, headers={**dict.fromkeys(OURS, forged), "X-Order": "7"}
        )
    if signed:
        await rotate(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    assert await effects_worker.send() == {"done": 1}
    (received,) = receiver.received
    assert received.headers["x-order"] == "7"
    found = {name for name in OURS if name in received.headers}
    assert found == (set(OURS) if signed else set())
    assert not {"forged", VALUE} & set(received.headers.values())


async def test_header_that_would_begin_another_is_not_sent(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database, headers={"X-Order": "{workflow.order}"})
    await effects_worker.start("telling", url=receiver.url, order="7\r\nX-Evil: 1")
    assert await effects_worker.send() == {"dead": 1}
    assert receiver.received == []
    assert (await effects_worker.effect())["error"].startswith("BAD_REQUEST")


async def test_get_has_no_body(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await publish_webhook(effects_worker.database, method="GET", body=None)
    await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.send()
    (received,) = receiver.received
    assert (received.method, received.body, "content-type" in received.headers) == ("GET", b"", False)


@pytest.fixture
async def present(database_url: str) -> AsyncIterator[EffectsWorker]:
    """A worker that goes by the machine's clock: a receiver compares the time of a signature with it."""
    database = await Database.open(database_url, settings=SETTINGS, clock=MovedClock(datetime.now(UTC)))
    effects_worker = EffectsWorker(
        WorkerContext(database, runtime=App().runtime(database), sending=SendingSettings(LOCAL))
    )
    yield effects_worker
    await effects_worker.close()
    await database.close()


async def rotate(database: Database, org_id: str = ORG) -> str:
    async with database.transaction(None) as connection:
        return await rotate_secret(connection, org_id, database.clock.now())


async def test_signature_is_verified_by_the_receiver(present: EffectsWorker, receiver: Receiver) -> None:
    secret = await rotate(present.database)
    await rotate(present.database, "globex")
    await publish_webhook(present.database)
    await present.start("telling", url=receiver.url, order="ä")
    await present.send()
    (received,) = receiver.received
    assert Webhook(secret).verify(received.body, received.headers) == {"order": "ä"}
    assert received.headers["webhook-id"] == received.key
    assert len(received.headers["webhook-signature"].split(" ")) == 1
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(received.body + b" ", received.headers)


async def test_two_secrets_sign_while_receivers_change_from_one_to_the_other(
    present: EffectsWorker, receiver: Receiver
) -> None:
    oldest, old, new = [await rotate(present.database) for _ in range(3)]
    await publish_webhook(present.database)
    await present.start("telling", url=receiver.url, order=1)
    await present.send()
    async with present.database.transaction(None) as connection:
        assert await retire_old_secrets(connection, ORG, present.database.clock.now()) == 1
    await present.start("telling", url=receiver.url, order=2)
    await present.send()
    during, after = receiver.received
    for message, secrets in ((during, {old, new}), (after, {new})):
        for secret in (oldest, old, new):
            if secret in secrets:
                Webhook(secret).verify(message.body, message.headers)
            else:
                with pytest.raises(WebhookVerificationError):
                    Webhook(secret).verify(message.body, message.headers)


async def test_without_a_secret_nothing_is_signed(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.send()
    assert not [name for name in receiver.received[0].headers if name.startswith("webhook-")]


async def test_redirect_that_keeps_the_method_is_followed(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=f"{receiver.url}/old", order=7)
    receiver.will(redirect_to("/new", 308), ReceiverReply(204, b""))
    assert await effects_worker.send() == {"done": 1}
    assert [(one.method, one.path, one.json) for one in receiver.received] == [
        ("POST", "/old", {"order": 7}),
        ("POST", "/new", {"order": 7}),
    ]
    assert (await effects_worker.effect())["output"]["redirects"] == [f"{receiver.url}/new"]


async def test_worker_that_loses_the_database_between_send_and_mark_marks_when_it_is_back(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """What is known is kept: nothing is sent twice because a mark could not be written."""
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    transaction, calls = effects_worker.database.transaction, 0

    def away(org_id: str | None, **rest: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:  # the claim was the first
            raise ConnectionError("the database is away")
        return transaction(org_id, **rest)  # type: ignore[arg-type]

    effects_worker.database.transaction = away  # type: ignore[assignment, method-assign]
    await effects_worker.duty.run_once()
    with pytest.raises(ConnectionError):
        await effects_worker.duty.run_once()
    effects_worker.database.transaction = transaction  # type: ignore[method-assign]
    assert (await effects_worker.effect())["status"] == "running"
    async with asyncio.timeout(10):
        while (await effects_worker.duty.run_once()).more:
            pass
    assert (await effects_worker.effect())["status"] == "done"
    assert len(receiver.received) == 1
