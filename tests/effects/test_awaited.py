"""Steps that await an effect: services over HTTP, functions that leave the transaction, webhooks with `await`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from assent.app import App
from assent.effects.outlets import CannotBeSent, NotAnswered, TryLater
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid
from assent.store.clock import MovedClock
from assent.worker.rescue import Rescue
from tests.authored import END, arrows
from tests.receiver import Receiver, ReceiverReply, redirect_to, reply_json
from tests.workers import EffectsWorker, open_effects_worker, run_until_done
from tests.world import (
    ANN,
    OPS,
    ORG,
    drain,
    publish_step,
    publish_steps,
    publish_webhook,
    rows,
    steps_of,
    webhook,
)

BILLING: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/customers/{customer}/invoices": {
            "parameters": [{"$ref": "#/components/parameters/customer"}],
            "get": {
                "operationId": "listInvoices",
                "parameters": [
                    {"name": "state", "in": "query"},
                    {"name": "page", "in": "query", "required": True},
                    {"name": "X-Region", "in": "header"},
                ],
            },
            "post": {"operationId": "createInvoice", "requestBody": {"content": {"application/json": {}}}},
        },
    },
    "components": {"parameters": {"customer": {"name": "customer", "in": "path", "required": True}}},
}

CREATE = {
    "id": "bill",
    "type": "system",
    "operation": {"openapi": "billing.createInvoice"},
    "input": {"customer": "workflow.customer", "amount": "workflow.amount"},
    "output": {"invoice": "result.id"},
}
LIST = {
    "id": "bill",
    "type": "system",
    "operation": {"openapi": "billing.listInvoices"},
    "input": {"customer": "workflow.customer", "page": "2", "state": "workflow.states", "X-Region": "'eu'"},
    "output": {"found": "result"},
}


@pytest.fixture
def app(receiver: Receiver) -> App:
    app = App()
    app.openapi("billing", BILLING, base_url=f"{receiver.url}/v1", headers={"Authorization": "Bearer token"})
    return app


async def test_service_is_called_by_the_worker_and_its_response_is_the_result(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="a/b c", amount=900)
    assert (view.status, [waiting.name for waiting in view.waiting]) == ("running", ["bill"])
    assert receiver.received == []
    receiver.will(reply_json({"id": "inv-1"}, 201))
    await effects_worker.work()
    (received,) = receiver.received
    assert (received.method, received.path) == ("POST", "/v1/customers/a%2Fb%20c/invoices")
    assert received.json == {"amount": 900}
    assert received.headers["authorization"] == "Bearer token"
    assert received.key == (await effects_worker.effect())["key"]
    assert await effects_worker.status(view.id) == "completed"
    assert (await effects_worker.context(view.id))["invoice"] == "inv-1"
    step = await effects_worker.step(view.id, "bill")
    assert (step["status"], step["output_json"]["result"]) == ("completed", {"id": "inv-1"})
    (evidence,) = step["output_json"]["evidence"].values()
    assert (evidence["status"], evidence["outcome"]) == (201, "done")


async def test_credentials_are_never_written_down(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await publish_step(effects_worker.database, CREATE)
    await effects_worker.start("telling", customer="c", amount=1)
    await effects_worker.work()
    for table in ("effects", "workflow_step_executions", "workflow_events_outbox"):
        assert "Bearer" not in str(await rows(effects_worker.database, table))


async def test_parameters_go_where_the_document_says(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, LIST)
    view = await effects_worker.start("telling", customer="ä", states=["open", "late & due"])
    receiver.will(reply_json([1, 2]))
    await effects_worker.work()
    (received,) = receiver.received
    assert received.method == "GET"
    assert received.path == "/v1/customers/%C3%A4/invoices?state=open&state=late+%26+due&page=2"
    assert (received.headers["x-region"], received.body) == ("eu", b"")
    assert (await effects_worker.context(view.id))["found"] == [1, 2]


async def test_error_of_the_service_takes_the_error_edge_with_what_it_said(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=-1)
    receiver.will(reply_json({"problem": "negative"}, 422))
    await effects_worker.work()
    step = await effects_worker.step(view.id, "bill")
    assert (step["status"], step["output_json"]["error"]["code"]) == ("failed", "HTTP_422")
    (evidence,) = step["output_json"]["evidence"].values()
    assert "negative" in evidence["body"]
    assert await effects_worker.status(view.id) == "completed"
    assert (await steps_of(effects_worker.database, view.id))[-1]["node_id"] == "failed"


async def test_without_an_error_edge_the_instance_pauses_and_its_retry_asks_again(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_steps(effects_worker.database, "telling", [CREATE, END], arrows("bill", "end"))
    view = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(ReceiverReply(400))
    await effects_worker.work()
    assert await effects_worker.status(view.id) == "paused"
    (dead,) = await effects_worker.runtime.org(ORG).dead_letters.list("effect")
    with pytest.raises(Refused, match="EFFECT_WAS_AWAITED"):
        await effects_worker.runtime.org(ORG).dead_letters.retry(dead.id, "effect")
    assert await effects_worker.runtime.org(ORG).dead_letters.retry_all("effect") == 0
    receiver.will(reply_json({"id": "inv-2"}))
    await effects_worker.runtime.org(ORG, OPS).instances.retry(view.id)
    await effects_worker.work()
    assert await effects_worker.status(view.id) == "completed"
    assert len(receiver.keys) == 2, "another step is another contract"


async def test_failures_that_may_pass_are_tried_again_and_the_step_rests_meanwhile(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(ReceiverReply(503, headers={"Retry-After": "30"}), reply_json({"id": "inv-3"}))
    await effects_worker.work()
    assert await effects_worker.status(view.id) == "running"
    clock.advance("30s")
    await effects_worker.work()
    assert await effects_worker.status(view.id) == "completed"
    assert list(receiver.keys.values()) == [2]


async def test_step_that_runs_out_of_time_goes_its_own_way_and_a_late_answer_is_ignored(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_step(effects_worker.database, {**CREATE, "timeout": "1h"})
    view = await effects_worker.start("telling", customer="c", amount=1)
    clock.advance("2h")
    await effects_worker.timers()
    assert (await steps_of(effects_worker.database, view.id))[-1]["node_id"] == "late"
    receiver.will(reply_json({"id": "too late"}))
    await effects_worker.work()
    assert len(receiver.received) == 1, "effects that were enqueued still go out (D24)"
    step = await effects_worker.step(view.id, "bill")
    assert step["output_json"]["outcome"] == "timeout"
    assert "invoice" not in await effects_worker.context(view.id)
    told = [
        row
        for row in await rows(effects_worker.database, "workflow_events_outbox")
        if row["event_type"] == "on_event"
    ]
    assert [(row["status"], row["error"]) for row in told] == [("completed", "ignored")]


async def test_timeout_is_distinct_from_an_empty_answer(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, {**CREATE, "output": {"invoice": "result"}, "timeout": "1h"})
    view = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(ReceiverReply(204, b""))
    await effects_worker.work()
    step = await effects_worker.step(view.id, "bill")
    assert (step["output_json"]["outcome"], step["output_json"]["result"]) == ("completed", None)
    assert "timed_out" not in step["output_json"]


@pytest.mark.parametrize(
    ("step", "said", "attempts"),
    [
        (CREATE, None, 1),  # a POST may do harm when it is repeated
        (CREATE, "retry", 2),
        (LIST, None, 2),  # a GET does not
        (LIST, "give_up", 1),
    ],
    ids=["POST", "POST that may", "GET", "GET that must not"],
)
async def test_ambiguous_calls_are_repeated_where_their_nature_or_the_node_allows_it(  # noqa: PLR0913, PLR0917
    effects_worker: EffectsWorker,
    receiver: Receiver,
    clock: MovedClock,
    step: dict[str, Any],
    said: str | None,
    attempts: int,
) -> None:
    await publish_step(effects_worker.database, {**step, **({"on_ambiguous": said} if said else {})})
    view = await effects_worker.start("telling", customer="c", amount=1, states=[])
    receiver.will(ReceiverReply(hang_up=True), reply_json({"id": 1}))
    await effects_worker.work()
    clock.advance("1m")
    await effects_worker.work()
    assert len(receiver.received) == attempts
    step_row = await effects_worker.step(view.id, "bill")
    assert step_row["status"] == ("completed" if attempts == 2 else "failed")
    if attempts == 1:
        assert "sent, and no answer came" in step_row["output_json"]["error"]["message"]


async def test_answer_that_breaks_off_is_no_answer(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(ReceiverReply(200, b'{"id": "half', {"Content-Type": "application/json"}, claim_bytes=100))
    await effects_worker.work()
    step = await effects_worker.step(view.id, "bill")
    assert step["output_json"]["error"]["code"] == "ANSWER_LOST"


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'"' + b"x" * 2_000 + b'"', "ANSWER_TOO_LARGE"), (b'"\\u0000"', "ANSWER_NOT_KEPT"), (b"[1e400]", None)],
    ids=["large", "NUL", "number"],
)
async def test_answer_that_cannot_be_kept_is_an_error_of_the_step(
    effects_worker: EffectsWorker, receiver: Receiver, body: bytes, code: str | None
) -> None:
    effects_worker = effects_worker.sending(answer_bytes_max=1_024)
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(ReceiverReply(200, body, {"Content-Type": "application/json"}))
    await effects_worker.work()
    step = await effects_worker.step(view.id, "bill")
    assert step["output_json"].get("error", {}).get("code") == code
    assert await effects_worker.status(view.id) == "completed"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"amount": "1"}, "needs customer"),
        ({"customer": "'..'", "amount": "1"}, "cannot be a part of a path"),
        ({"customer": "''", "amount": "1"}, "cannot be a part of a path"),
    ],
)
async def test_input_that_does_not_fit_fails_at_once_and_sends_nothing(
    effects_worker: EffectsWorker, given: dict[str, str], says: str
) -> None:
    await publish_step(effects_worker.database, {**CREATE, "input": given})
    view = await effects_worker.start("telling", customer="c", amount=1)
    step = await effects_worker.step(view.id, "bill")
    assert says in step["output_json"]["error"]["message"]
    assert await effects_worker.effects() == []


async def test_operation_that_nobody_registered_fails_at_once(effects_worker: EffectsWorker) -> None:
    await publish_step(effects_worker.database, {**CREATE, "operation": {"openapi": "billing.payEverybody"}})
    view = await effects_worker.start("telling", customer="c", amount=1)
    assert (await effects_worker.step(view.id, "bill"))["output_json"]["error"]["code"] == "UNKNOWN_OPERATION"


async def test_service_may_be_inside_but_what_it_redirects_to_is_judged(
    app: App, effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """The application's own code names the service; nobody else names where it leads."""
    effects_worker = effects_worker.sending(allow=type(effects_worker.place.sending.effects.allow)())
    await publish_step(effects_worker.database, CREATE)
    first = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(reply_json({"id": 1}))
    await effects_worker.work()
    assert (await effects_worker.step(first.id, "bill"))["status"] == "completed"
    second = await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(redirect_to("http://[::1]:1/"))
    await effects_worker.work()
    assert (await effects_worker.step(second.id, "bill"))["output_json"]["error"]["code"] == "ADDRESS_REFUSED"


async def test_headers_of_a_service_may_be_asked_for_at_each_attempt(
    database: Any, receiver: Receiver, clock: MovedClock
) -> None:
    app, tokens = App(), iter(["one", "two"])

    async def headers() -> Mapping[str, str]:
        return {"Authorization": next(tokens)}

    app.openapi("billing", BILLING, base_url=receiver.url, headers=headers)
    effects_worker = open_effects_worker(app, database)
    await publish_step(database, CREATE)
    await effects_worker.start("telling", customer="c", amount=1)
    receiver.will(ReceiverReply(500))
    await effects_worker.work()
    clock.advance("1m")
    await effects_worker.work()
    assert [one.headers["authorization"] for one in receiver.received] == ["one", "two"]


@pytest.mark.parametrize(
    "document",
    [{}, {"paths": {"/x": {"get": {}}}}, {"paths": {"/x": {"$ref": "other.yaml#/x"}}}],
    ids=["nothing", "no ids", "elsewhere"],
)
def test_document_that_describes_nothing_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        App().openapi("billing", document, base_url="https://billing.example")


def test_base_url_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="BAD_URL"):
        App().openapi("billing", BILLING, base_url="billing.example")


OUTSIDE = {
    "id": "charge",
    "type": "system",
    "operation": {"sdk": "payments.charge"},
    "input": {"amount": "workflow.amount"},
    "output": {"payment": "result.id"},
}


async def test_function_that_leaves_the_transaction_is_run_by_the_worker(
    app: App, effects_worker: EffectsWorker
) -> None:
    called: list[tuple[Any, str]] = []

    @app.operation("payments.charge", outside=True)
    async def charge(arguments: Mapping[str, Any], key: str) -> Any:
        called.append((arguments["amount"], key))
        return {"id": "pay-1"}

    effects_worker = open_effects_worker(app, effects_worker.database)
    await publish_step(effects_worker.database, OUTSIDE)
    view = await effects_worker.start("telling", amount=5)
    assert (view.status, called) == ("running", [])
    await effects_worker.work()
    assert called == [(5, (await effects_worker.effect())["key"])]
    assert (await effects_worker.context(view.id))["payment"] == "pay-1"


async def test_function_inside_the_transaction_does_not_rest_also_with_await(
    app: App, effects_worker: EffectsWorker
) -> None:
    @app.operation("payments.charge")
    async def charge(connection: object, arguments: Mapping[str, Any]) -> Any:
        return {"id": "pay-2"}

    effects_worker = open_effects_worker(app, effects_worker.database)
    await publish_step(effects_worker.database, {**OUTSIDE, "await": True})
    view = await effects_worker.start("telling", amount=5)
    assert view.status == "completed"
    assert await effects_worker.effects() == []


def _refuse() -> None:
    raise Refused(Rejection("NO_FUNDS", "the account is empty"))


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("fails", "status", "code"),
    [
        (_refuse, "dead", "NO_FUNDS"),
        (lambda: _raise(CannotBeSent("never")), "dead", "CANNOT_BE_SENT"),
        (lambda: _raise(ValueError("oops")), "retrying", "FAILED"),
        (lambda: _raise(NotAnswered("hm")), "retrying", "NO_ANSWER"),
        (lambda: _raise(TryLater("busy", timedelta(minutes=7))), "retrying", "TRY_LATER"),
        (object, "dead", "CANNOT_BE_SENT"),
    ],
    ids=["refused", "never", "raises", "ambiguous", "later", "not JSON"],
)
async def test_function_says_how_it_failed(
    app: App, effects_worker: EffectsWorker, fails: Any, status: str, code: str
) -> None:
    app.operation("payments.charge", outside=True)(lambda arguments, key: fails())
    effects_worker = open_effects_worker(app, effects_worker.database)
    await publish_step(effects_worker.database, OUTSIDE)
    await effects_worker.start("telling", amount=5)
    await effects_worker.work()
    effect = await effects_worker.effect()
    assert (effect["status"], effect["error"].partition(":")[0]) == (status, code)
    assert effect["ambiguous"] is (code == "NO_ANSWER")
    if code == "TRY_LATER":
        assert effect["run_at"] == effects_worker.database.clock.now() + timedelta(minutes=7)


async def test_webhook_may_be_awaited_too(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await publish_step(
        effects_worker.database, {**webhook(), "await": True, "output": {"answer": "result.ok"}}
    )
    view = await effects_worker.start("telling", url=receiver.url, order=7)
    assert view.status == "running"
    receiver.will(reply_json({"ok": "yes"}))
    await effects_worker.work()
    assert (await effects_worker.context(view.id))["answer"] == "yes"
    refused = await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(403))
    await effects_worker.work()
    assert (await effects_worker.step(refused.id, "tell"))["output_json"]["error"]["code"] == "HTTP_403"


async def test_awaited_effect_whose_worker_died_and_that_may_not_be_repeated_takes_the_error_edge(
    effects_worker: EffectsWorker, clock: MovedClock
) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=1)
    await effects_worker.duty.claim()  # and then it is gone
    clock.advance("11m")
    await run_until_done(Rescue(effects_worker.place))
    await drain(effects_worker.runtime)
    effect = await effects_worker.effect()
    assert (effect["status"], effect["ambiguous"]) == ("dead", True)
    step = await effects_worker.step(view.id, "bill")
    assert (step["status"], step["output_json"]["error"]["code"]) == ("failed", "EFFECT_LOST")


async def test_branches_that_await_go_on_each_when_its_own_answer_is_there(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    one, two = {**CREATE, "id": "one"}, {**CREATE, "id": "two"}
    fork, join = (
        {"id": "fork", "type": "parallel_split"},
        {"id": "join", "type": "parallel_join", "mode": "all"},
    )
    transitions = [{"from": "fork", "to": "one"}, {"from": "fork", "to": "two"}]
    transitions += [{"from": name, "event": "completed", "to": "join"} for name in ("one", "two")]
    transitions += [{"from": "join", "to": "end"}]
    await publish_steps(effects_worker.database, "both", [fork, one, two, join, END], transitions)
    view = await effects_worker.start("both", customer="c", amount=1)
    await effects_worker.work()
    assert await effects_worker.status(view.id) == "completed"
    assert len(receiver.keys) == 2


async def test_answer_of_a_paused_instance_waits_for_it(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=1)
    await effects_worker.runtime.org(ORG, OPS).instances.pause(view.id, "stop")
    receiver.will(reply_json({"id": "inv-9"}))
    await effects_worker.work()
    assert await effects_worker.status(view.id) == "paused"
    await effects_worker.runtime.org(ORG, OPS).instances.resume(view.id)
    await drain(effects_worker.runtime)
    assert (await effects_worker.context(view.id))["invoice"] == "inv-9"


async def test_nobody_answers_an_awaited_step_by_hand(effects_worker: EffectsWorker) -> None:
    await publish_step(effects_worker.database, CREATE)
    view = await effects_worker.start("telling", customer="c", amount=1)
    with pytest.raises(Refused, match="INVALID_TRANSITION"):
        await effects_worker.runtime.org(ORG, ANN).instances.advance(view.id, "completed")


async def test_webhook_that_is_not_awaited_never_tells_its_instance(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.work()
    assert [row["event_type"] for row in await rows(effects_worker.database, "workflow_events_outbox")] == []
