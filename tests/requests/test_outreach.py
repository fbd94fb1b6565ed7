"""The call that goes out, and a vendor on a port of this machine who calls back."""

import asyncio
import threading
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest

from assent.app import App
from assent.effects.settings import CallbackSettings, SendingSettings
from assent.http.app import create_app
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.model.problems import Invalid
from assent.worker.duty import WorkerContext
from assent.worker.effects import Effects
from assent.worker.rescue import Rescue
from tests.receiver import Receiver, ReceiverReply, wait_until_received
from tests.requests.bundles import item
from tests.settings import read_from
from tests.workers import LOCAL, EffectsWorker, ResultsWorker, run_until_done
from tests.world import ORG, publish_vendor

KEY = "a key of callbacks, longer than 32 bytes"


def effects_worker_with(results_worker: ResultsWorker, callbacks: CallbackSettings) -> EffectsWorker:
    sending = SendingSettings(LOCAL, callbacks=callbacks)
    return EffectsWorker(
        WorkerContext(results_worker.database, runtime=results_worker.runtime, sending=sending)
    )


@pytest.fixture
async def effects_worker(results_worker: ResultsWorker) -> AsyncIterator[EffectsWorker]:
    effects_worker = effects_worker_with(
        results_worker, CallbackSettings(url="https://assent.example.com", key=KEY)
    )
    yield effects_worker
    await effects_worker.close()


async def test_the_call_says_which_request_it_is_and_where_results_go(
    results_worker: ResultsWorker, effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    mine = {"Assent-Request": "forged", "assent-callback": "https://evil.example"}
    await publish_vendor(results_worker.database, url=receiver.url, headers=mine)
    await results_worker.start()
    await effects_worker.send()
    (received,) = receiver.received
    assert received.headers["assent-request"] == str((await results_worker.request())["id"])
    assert received.headers["assent-callback"].startswith("https://assent.example.com/callbacks/ey")
    assert "request" not in received.json
    assert (await results_worker.instance())["status"] == "running"  # that it arrived is no result
    assert (await results_worker.request())["status"] == "pending"


async def test_without_settings_it_says_only_which_request_it_is(
    results_worker: ResultsWorker, receiver: Receiver
) -> None:
    effects_worker = effects_worker_with(results_worker, CallbackSettings())
    mine = {"Assent-Callback": "https://evil.example"}  # nor may an author say it in our place
    await publish_vendor(results_worker.database, url=receiver.url, headers=mine)
    await results_worker.start()
    await effects_worker.send()
    await effects_worker.close()
    (received,) = receiver.received
    assert received.headers["assent-request"] == str((await results_worker.request())["id"])
    assert "assent-callback" not in received.headers


async def test_a_call_that_is_given_up_fails_the_request(
    results_worker: ResultsWorker, effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_vendor(results_worker.database, url=receiver.url)
    await results_worker.start()
    receiver.otherwise = lambda _: ReceiverReply(404)
    await effects_worker.work()
    request = await results_worker.request()
    assert (request["status"], "404" in request["error"]) == ("failed", True)
    assert await results_worker.ended_at() == "failed"
    assert await results_worker.push(request["id"]) == "late"
    assert (await results_worker.history())[1] == ("failed", "call")


async def test_a_call_that_fails_leaves_a_request_of_another_org_with_the_same_id(
    results_worker: ResultsWorker, effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_vendor(results_worker.database, url=receiver.url)
    await results_worker.start()
    async with results_worker.database.transaction(None) as connection:
        await connection.execute(
            """INSERT INTO assent.outside_requests
               SELECT (jsonb_populate_record(NULL::assent.outside_requests, to_jsonb(r) || '{"org_id": "globex"}')).*
                 FROM assent.outside_requests r WHERE r.org_id = $1""",
            ORG,
        )
    receiver.otherwise = lambda _: ReceiverReply(404)
    await effects_worker.work()
    statuses = {row["org_id"]: row["status"] for row in await results_worker.requests()}
    assert statuses == {ORG: "failed", "globex": "pending"}


async def test_a_result_may_come_before_the_call_is_marked_as_sent(
    results_worker: ResultsWorker, effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """The vendor is faster than its own answer: its result counts, and that the call is given up changes nothing."""
    patient = effects_worker.sending(read_timeout_ms=10_000, total_timeout_ms=10_000)
    await publish_vendor(results_worker.database, url=receiver.url)
    await results_worker.start()
    answered = threading.Event()
    receiver.will(ReceiverReply(404, wait_for=answered))
    sending = asyncio.create_task(patient.send())
    await wait_until_received(receiver, 1)
    await results_worker.push((await results_worker.request())["id"])
    await results_worker.work()
    answered.set()
    assert await sending == {"dead": 1}
    await patient.close()
    await results_worker.work()
    assert ((await results_worker.request())["status"], await results_worker.ended_at()) == (
        "completed",
        "end",
    )


async def test_a_call_that_was_given_up_before_its_result_was_looked_at_has_failed(
    results_worker: ResultsWorker, effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_vendor(results_worker.database, url=receiver.url)
    await results_worker.start()
    await results_worker.push((await results_worker.request())["id"])
    receiver.will(ReceiverReply(404))
    await effects_worker.send()
    assert await results_worker.work() == {"late": 1}
    assert ((await results_worker.request())["status"], await results_worker.ended_at()) == (
        "failed",
        "failed",
    )


async def test_a_call_whose_worker_died_over_it_fails_the_request(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database, on_ambiguous="give_up")
    await results_worker.start()
    worker = Effects(WorkerContext(results_worker.database, runtime=results_worker.runtime))
    assert len(await worker.claim()) == 1  # and then it is gone
    results_worker.clock.advance("11m")
    await run_until_done(Rescue(WorkerContext(results_worker.database)))
    await results_worker.work()
    assert ((await results_worker.request())["status"], await results_worker.ended_at()) == (
        "failed",
        "failed",
    )
    assert (await results_worker.request())["error"].startswith("EFFECT_LOST")


async def test_a_vendor_calls_back_over_http(results_worker: ResultsWorker, receiver: Receiver) -> None:
    """The whole way: our call to a real server, its call to ours, the fold, and the instance goes on."""
    listening = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    settings, callbacks = HttpSettings(), CallbackSettings(url=url, key=KEY)
    door = Serving(create_app(App(), results_worker.database, settings, callbacks), listening, settings)
    serving = asyncio.create_task(door.run())
    effects_worker = effects_worker_with(results_worker, callbacks)
    await publish_vendor(results_worker.database, url=receiver.url, output={"papers": "result.items"})
    await results_worker.start()
    await effects_worker.send()
    (received,) = receiver.received
    where = received.headers["assent-callback"]
    bundle = {"key": "evt_1", "items": [item(7, kind="passport")]}
    async with httpx.AsyncClient() as vendor:
        answers = [await vendor.post(where, json=bundle) for _ in range(2)]
        forged = await vendor.post(where[:-2] + "xx", json=bundle)
    assert [answer.status_code for answer in [*answers, forged]] == [202, 200, 401]
    await results_worker.work()
    door.stop()
    await serving
    await effects_worker.close()
    listening.close()
    instance = await results_worker.instance()
    assert instance["status"] == "completed"
    assert instance["context_json"]["papers"] == [{"cargo": "external://vault/7", "kind": "passport"}]
    assert UUID(received.headers["assent-request"]) == (await results_worker.request())["id"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"URL": "https://a.example"}, "ASSENT_CALLBACKS_KEY"),
        ({"KEY": KEY}, "ASSENT_CALLBACKS_URL"),
        ({"URL": "https://a.example", "KEY": "short"}, "ASSENT_CALLBACKS_KEY"),
        ({"URL": "ftp://a.example", "KEY": KEY}, "ASSENT_CALLBACKS_URL"),
        ({"URL": "https://a.example/?b=1", "KEY": KEY}, "ASSENT_CALLBACKS_URL"),
        ({"URL": "https://a.example", "KEY": KEY, "DAYS": "0"}, "ASSENT_CALLBACKS_DAYS"),
    ],
)
def test_a_bad_setting_is_told_by_its_name_and_never_with_the_key(given: dict[str, str], named: str) -> None:
    environment = {f"ASSENT_CALLBACKS_{name}": text for name, text in given.items()}
    with pytest.raises(Invalid) as caught:
        read_from(CallbackSettings, environment)
    assert [problem.path for problem in caught.value.problems] == [(named,)]
    assert "short" not in str(caught.value)


def test_good_settings_are_read_and_the_key_is_not_shown() -> None:
    found = read_from(
        CallbackSettings, {"ASSENT_CALLBACKS_URL": "https://a.example/assent/", "ASSENT_CALLBACKS_KEY": KEY}
    )
    assert (found.url, found.days) == ("https://a.example/assent", 90)
    assert KEY not in repr(found)
