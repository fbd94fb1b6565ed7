"""What outside parties send back: folded once, told once, and what it does to whoever waits."""

from datetime import timedelta
from uuid import uuid4

import pytest

from assent.model.mutation import Refused
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from assent.worker.timers import Timeouts
from tests.requests.asking import Desk, publish_vendor, vendor
from tests.requests.bundles import item
from tests.runtime.flows import ANN, END, OPS, ORG, arrows, drain, publish, rows
from tests.statements import StatementCounter
from tests.worker.queues import run_until_done


async def test_a_step_asks_and_rests_until_its_results_are_there(desk: Desk) -> None:
    await publish_vendor(desk.database, output={"passport": "result.items"})
    view = await desk.start()
    assert (view.status, [waiting.name for waiting in view.waiting]) == ("running", ["vendor"])
    request = await desk.request()
    assert (request["status"], request["name"], request["expected"]) == ("pending", "kyc.vendor", 1)
    assert (request["instance_id"], request["step_id"]) == (view.id, view.waiting[0].step_id)
    assert await desk.push(request["id"], "k", item(7, kind="passport")) == "accepted"
    assert await desk.work() == {"processed": 1}
    instance = await desk.instance()
    assert instance["status"] == "completed"
    assert instance["context_json"]["passport"] == [{"cargo": "external://vault/7", "kind": "passport"}]
    assert (await desk.request())["status"] == "completed"
    assert await desk.history() == [("asked", "workflow"), ("delivered", "python"), ("completed", "results")]


async def test_what_was_asked_is_kept_without_headers(desk: Desk) -> None:
    await publish_vendor(desk.database, headers={"authorization": "Bearer {secret.vendor}"})
    await desk.start()
    (asked,) = await rows(desk.database, "outside_request_history")
    assert asked["body"] == {
        "url": "https://vendor.example/checks",
        "method": "POST",
        "body": {"client": "c-1"},
    }


async def test_a_part_of_what_is_expected_is_seen_and_waits_for_the_rest(desk: Desk) -> None:
    await publish_vendor(
        desk.database, expects=3, output={"found": "result.received", "items": "result.items"}
    )
    await desk.start()
    request_id = (await desk.request())["id"]
    await desk.push(request_id, "a", item(1), item(2, status="failed", error="blurred"))
    await desk.work()
    request = await desk.request()
    assert (request["status"], request["received"], request["failed"]) == ("partial", 1, 1)
    assert [found["status"] for found in await desk.items()] == ["completed", "failed"]
    assert (await desk.instance())["status"] == "running"
    await desk.push(request_id, "b", item(1), item(3))
    await desk.push(request_id, "c", item(4))
    await desk.work()
    assert (await desk.request())["received"] == 3
    found = (await desk.instance())["context_json"]
    assert found["found"] == 3
    assert [one["cargo"] for one in found["items"]] == [f"external://vault/{n}" for n in (1, 3, 4)]


@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        ({"status": "failed", "error": "no such client"}, "REQUEST_FAILED", "no such client"),
        ({"status": "expired"}, "REQUEST_EXPIRED", "`vendor` had no results in its time"),
    ],
)
async def test_a_sender_who_gives_up_sends_the_instance_along_its_error_edge(
    desk: Desk, rest: dict[str, str], code: str, message: str
) -> None:
    await publish_vendor(desk.database, expects=2)
    await desk.start()
    await desk.push((await desk.request())["id"], "k", **rest)
    await desk.work()
    assert await desk.ended_at() == "failed"
    error = (await desk.instance())["context_json"]["_last_error"]
    assert (error["code"], error["message"]) == (code, message)
    assert (await desk.request())["status"] == rest["status"]


async def test_items_that_all_failed_fail_the_request(desk: Desk) -> None:
    await publish_vendor(desk.database, expects=2)
    await desk.start()
    failed = [{"kind": "passport", "status": "failed", "error": "blurred"}, item(2, status="expired")]
    await desk.push((await desk.request())["id"], "k", *failed)
    await desk.work()
    assert (await desk.request())["status"] == "failed"
    assert (await desk.instance())["context_json"]["_last_error"]["message"] == "blurred"


@pytest.mark.parametrize(("timed", "end"), [(False, "failed"), (True, "late")])
async def test_the_nodes_time_is_the_requests(desk: Desk, timed: bool, end: str) -> None:
    await publish_vendor(desk.database, timeout="2d", timed=timed)
    await desk.start()
    request_id = (await desk.request())["id"]
    desk.clock.advance(timedelta(days=2) - timedelta(seconds=1))
    assert await desk.work() == {}
    desk.clock.advance(timedelta(seconds=1))
    assert await desk.work() == {"expired": 1}
    assert await desk.ended_at() == end
    assert (await desk.history())[-1] == ("expired", "clock")
    assert await desk.push(request_id) == "late"


async def test_the_same_key_again_changes_nothing(desk: Desk) -> None:
    await publish_vendor(desk.database, expects=2)
    await desk.start()
    request_id = (await desk.request())["id"]
    assert [await desk.push(request_id, "k", item(n)) for n in (1, 2)] == ["accepted", "repeated"]
    await desk.work()
    assert await desk.push(request_id, "k", item(2)) == "repeated"
    assert (await desk.request())["received"] == 1
    assert len(await desk.deliveries()) == 1


async def test_the_same_cargo_under_another_key_is_received_once(desk: Desk) -> None:
    await publish_vendor(desk.database, expects=2)
    await desk.start()
    request_id = (await desk.request())["id"]
    for key in ("a", "b"):
        await desk.push(request_id, key, item(1))
    await desk.work()
    await desk.push(request_id, "c", item(1))
    await desk.work()
    assert ((await desk.request())["received"], len(await desk.items())) == (1, 1)
    assert {row["status"] for row in await desk.deliveries()} == {"done"}


async def test_what_comes_after_the_end_is_kept_and_counts_for_nothing(desk: Desk) -> None:
    await publish_vendor(desk.database)
    await desk.start()
    request_id = (await desk.request())["id"]
    for key in ("a", "b"):  # both are in the queue before anybody looks
        await desk.push(request_id, key, item(key))
    assert await desk.work() == {"processed": 1, "late": 1}
    assert await desk.push(request_id, "c", item("c")) == "late"
    assert [row["late"] for row in await desk.deliveries()] == [False, True, True]
    assert [found["cargo"] for found in await desk.items()] == ["external://vault/a"]
    assert len(await rows(desk.database, "workflow_events_outbox")) == 1


async def test_a_cancelled_instance_asks_nobody_any_more(desk: Desk) -> None:
    await publish_vendor(desk.database)
    view = await desk.start()
    request_id = (await desk.request())["id"]
    await desk.push(request_id)
    await desk.runtime.org(ORG, ANN).instances.cancel(view.id, "mistaken")
    request = await desk.request()
    assert (request["status"], request["error"]) == ("cancelled", "mistaken")
    assert await desk.work() == {"late": 1}
    assert (await desk.items(), await desk.push(request_id, "b")) == ([], "late")
    assert (await desk.history())[-1] == ("delivered", "python")
    assert (await desk.instance())["status"] == "cancelled"


async def test_a_step_that_is_skipped_asks_nobody_any_more(desk: Desk) -> None:
    await publish_vendor(desk.database)
    view = await desk.start()
    async with desk.database.transaction(ORG) as connection:
        definition = await desk.runtime.core.definitions.for_flow(connection, ORG, "kyc")
    (edge,) = [edge.id for edge in definition.workflow.edges.values() if edge.target == "end"]
    await desk.runtime.org(ORG, OPS).instances.skip(view.id, "vendor", edge, "by phone")
    assert (await desk.request())["status"] == "cancelled"
    assert await desk.ended_at() == "end"


async def test_a_workflow_whose_time_is_over_asks_nobody_any_more(desk: Desk) -> None:
    steps = [vendor(), END]
    await publish(desk.database, "kyc", steps, arrows("vendor", "end"), timeout="3d", on_timeout="end")
    await desk.start()
    desk.clock.advance(timedelta(days=3))
    await run_until_done(Timeouts(WorkerContext(desk.database)))
    await drain(desk.runtime)
    assert await desk.ended_at() == "end"
    request = await desk.request()
    assert (request["status"], request["error"]) == ("cancelled", "timeout")


async def test_a_paused_instance_hears_of_its_results_when_it_goes_on(desk: Desk) -> None:
    await publish_vendor(desk.database)
    view = await desk.start()
    await desk.runtime.org(ORG, OPS).instances.pause(view.id)
    await desk.push((await desk.request())["id"])
    await desk.work()
    assert ((await desk.request())["status"], (await desk.instance())["status"]) == ("completed", "paused")
    await desk.runtime.org(ORG, OPS).instances.resume(view.id)
    await drain(desk.runtime)
    assert (await desk.instance())["status"] == "completed"


async def test_a_step_that_is_tried_again_asks_again(desk: Desk) -> None:
    await publish(desk.database, "kyc", [vendor(), END], arrows("vendor", "end"))
    view = await desk.start()
    first = (await desk.request())["id"]
    await desk.push(first, "k", status="failed")
    await desk.work()
    assert (await desk.instance())["status"] == "paused"
    await desk.runtime.org(ORG, OPS).instances.retry(view.id)
    (second,) = [row["id"] for row in await desk.requests() if row["id"] != first]
    await desk.push(second)
    await desk.work()
    assert (await desk.instance())["status"] == "completed"


async def test_pushing_inside_the_callers_transaction(desk: Desk) -> None:
    await publish_vendor(desk.database)
    await desk.start()
    request_id = (await desk.request())["id"]

    async def push_and(fail: bool) -> None:
        async with desk.database.transaction(None) as outer, desk.runtime.within(outer, ORG) as mine:
            assert await mine.requests.push_result(request_id, "k", [item()]) == "accepted"
            if fail:
                raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await push_and(fail=True)
    assert await desk.deliveries() == []
    await push_and(fail=False)
    assert len(await desk.deliveries()) == 1


async def test_what_cannot_be_taken_is_refused(desk: Desk) -> None:
    await publish_vendor(desk.database)
    await desk.start()
    with pytest.raises(Refused, match="NOT_FOUND"):
        await desk.push(uuid4())
    with pytest.raises(Refused, match="NOT_FOUND"):
        await desk.runtime.org("globex").requests.push_result((await desk.request())["id"], "k", [item()])
    with pytest.raises(Refused, match="BAD_CARGO"):
        await desk.push((await desk.request())["id"], "k", {"cargo": "passport.pdf"})
    assert await desk.deliveries() == []


async def _statements(desk: Desk, flow: str, counter: StatementCounter, *, requests: int, items: int) -> int:
    """How many statements it takes to fold what came for new requests of a flow."""
    known = {row["id"] for row in await desk.requests()}
    for _ in range(requests):
        await desk.start(flow)
    for request in await desk.requests():
        if request["id"] not in known:
            await desk.push(request["id"], "k", *(item(n) for n in range(items)))
    counter.clear()
    done = await Results(WorkerContext(desk.database, runtime=desk.runtime)).run_once()
    assert done.parts == {"processed": requests}
    return len(counter)


async def test_work_in_sets_stays_work_in_sets(desk: Desk, statement_counter: StatementCounter) -> None:
    await publish_vendor(desk.database, "one")
    await publish_vendor(desk.database, "many", expects=500)
    await _statements(desk, "one", statement_counter, requests=1, items=1)  # a connection's first time
    alone = await _statements(desk, "one", statement_counter, requests=1, items=1)
    assert await _statements(desk, "many", statement_counter, requests=1, items=500) == alone
    assert await _statements(desk, "one", statement_counter, requests=40, items=2) == alone
    assert {row["status"] for row in await desk.requests()} == {"completed"}
