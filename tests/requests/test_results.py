"""What outside parties send back: folded once, told once, and what it does to whoever waits."""

from datetime import timedelta
from uuid import uuid4

import pytest

from assent.model.mutation import Refused
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from assent.worker.timers import Timeouts
from tests.authored import END, arrows, compile_steps
from tests.requests.bundles import item
from tests.statements import StatementCounter
from tests.workers import ResultsWorker, run_until_done
from tests.world import ANN, OPS, ORG, drain, publish_steps, publish_vendor, rows, vendor


async def test_a_step_asks_and_rests_until_its_results_are_there(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database, output={"passport": "result.items"})
    view = await results_worker.start()
    assert (view.status, [waiting.name for waiting in view.waiting]) == ("running", ["vendor"])
    request = await results_worker.request()
    assert (request["status"], request["name"], request["expected"]) == ("pending", "kyc.vendor", 1)
    assert (request["instance_id"], request["step_id"]) == (view.id, view.waiting[0].step_id)
    assert await results_worker.push(request["id"], "k", item(7, kind="passport")) == "accepted"
    assert await results_worker.work() == {"processed": 1}
    instance = await results_worker.instance()
    assert instance["status"] == "completed"
    assert instance["context_json"]["passport"] == [{"cargo": "external://vault/7", "kind": "passport"}]
    assert (await results_worker.request())["status"] == "completed"
    assert await results_worker.history() == [
        ("asked", "workflow"),
        ("delivered", "python"),
        ("completed", "results"),
    ]


async def test_what_was_asked_is_kept_without_headers(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database, headers={"authorization": "Bearer {secret.vendor}"})
    await results_worker.start()
    (asked,) = await rows(results_worker.database, "outside_request_history")
    assert asked["body"] == {
        "url": "https://vendor.example/checks",
        "method": "POST",
        "body": {"client": "c-1"},
    }


async def test_a_part_of_what_is_expected_is_seen_and_waits_for_the_rest(
    results_worker: ResultsWorker,
) -> None:
    await publish_vendor(
        results_worker.database, expects=3, output={"found": "result.received", "items": "result.items"}
    )
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    await results_worker.push(request_id, "a", item(1), item(2, status="failed", error="blurred"))
    await results_worker.work()
    request = await results_worker.request()
    assert (request["status"], request["received"], request["failed"]) == ("partial", 1, 1)
    assert [found["status"] for found in await results_worker.items()] == ["completed", "failed"]
    assert (await results_worker.instance())["status"] == "running"
    await results_worker.push(request_id, "b", item(1), item(3))
    await results_worker.push(request_id, "c", item(4))
    await results_worker.work()
    assert (await results_worker.request())["received"] == 3
    found = (await results_worker.instance())["context_json"]
    assert found["found"] == 3
    assert [one["cargo"] for one in found["items"]] == [f"external://vault/{n}" for n in (1, 3, 4)]


async def publish_partial(results_worker: ResultsWorker, when: str | None = None) -> None:
    """Publish a flow whose step goes on with a part of what it expects, at once or on a condition."""
    ways = arrows("vendor", "end") + arrows("vendor", "failed", event="error")
    ways += [{"from": "vendor", "event": "partial", "to": "some"} | ({"condition": when} if when else {})]
    ends = [{"id": name, "type": "terminal"} for name in ("failed", "some")]
    step = vendor(expects=3, output={"papers": "result.items", "lost": "result.failed"})
    await publish_steps(results_worker.database, "kyc", [step, END, *ends], ways)


async def test_part_of_what_is_expected_goes_on_where_an_edge_takes_it(results_worker: ResultsWorker) -> None:
    await publish_partial(results_worker)
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    await results_worker.push(request_id, "a", item(1), item(2, status="failed", error="blurred"))
    await results_worker.work()
    assert await results_worker.ended_at() == "some"
    context = (await results_worker.instance())["context_json"]
    assert ([one["cargo"] for one in context["papers"]], context["lost"]) == (["external://vault/1"], 1)
    request = await results_worker.request()
    assert (request["status"], request["error"]) == ("cancelled", "partial")
    assert await results_worker.push(request_id, "b", item(3)) == "late"


async def test_part_is_asked_about_again_with_each_bundle(results_worker: ResultsWorker) -> None:
    await publish_partial(results_worker, "count(workflow.papers) >= 2")
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    for key, sent in (("a", item(1)), ("b", item(1)), ("c", item(9, status="failed"))):
        await results_worker.push(request_id, key, sent)
        await results_worker.work()
        assert (await results_worker.instance())["status"] == "running", key
        assert "papers" not in (await results_worker.instance())["context_json"]
    assert (await results_worker.request())["status"] == "partial"
    await results_worker.push(request_id, "d", item(2))
    await results_worker.work()
    assert await results_worker.ended_at() == "some"


async def test_whole_wins_over_the_part_before_it(results_worker: ResultsWorker) -> None:
    await publish_partial(results_worker, "count(workflow.papers) >= 3")
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    await results_worker.push(request_id, "a", item(1), item(2))
    await results_worker.work()
    await results_worker.push(request_id, "b", item(3))
    await results_worker.work()
    assert await results_worker.ended_at() == "end"


@pytest.mark.parametrize("changes", [{"expects": None}, {"await": True, "expects": None}])
def test_edge_of_a_part_goes_with_several_results(changes: dict[str, object]) -> None:
    step = {name: value for name, value in (vendor(expects=2) | changes).items() if value is not None}
    ways = [*arrows("vendor", "end"), *arrows("vendor", "end", event="partial")]
    found = compile_steps([step, END], ways)
    assert "DANGLING_LABEL" in [problem.code for problem in found.problems]
    whole = compile_steps([vendor(expects=2), END], ways)
    assert [problem.code for problem in whole.problems] == []


@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        ({"status": "failed", "error": "no such client"}, "REQUEST_FAILED", "no such client"),
        ({"status": "expired"}, "REQUEST_EXPIRED", "`vendor` had no results in its time"),
    ],
)
async def test_a_sender_who_gives_up_sends_the_instance_along_its_error_edge(
    results_worker: ResultsWorker, rest: dict[str, str], code: str, message: str
) -> None:
    await publish_vendor(results_worker.database, expects=2)
    await results_worker.start()
    await results_worker.push((await results_worker.request())["id"], "k", **rest)
    await results_worker.work()
    assert await results_worker.ended_at() == "failed"
    error = (await results_worker.instance())["context_json"]["_last_error"]
    assert (error["code"], error["message"]) == (code, message)
    assert (await results_worker.request())["status"] == rest["status"]


async def test_items_that_all_failed_fail_the_request(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database, expects=2)
    await results_worker.start()
    failed = [{"kind": "passport", "status": "failed", "error": "blurred"}, item(2, status="expired")]
    await results_worker.push((await results_worker.request())["id"], "k", *failed)
    await results_worker.work()
    assert (await results_worker.request())["status"] == "failed"
    assert (await results_worker.instance())["context_json"]["_last_error"]["message"] == "blurred"


@pytest.mark.parametrize(("timed", "end"), [(False, "failed"), (True, "late")])
async def test_the_nodes_time_is_the_requests(results_worker: ResultsWorker, timed: bool, end: str) -> None:
    await publish_vendor(results_worker.database, timeout="2d", timed=timed)
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    results_worker.clock.advance(timedelta(days=2) - timedelta(seconds=1))
    assert await results_worker.work() == {}
    results_worker.clock.advance(timedelta(seconds=1))
    assert await results_worker.work() == {"expired": 1}
    assert await results_worker.ended_at() == end
    assert (await results_worker.history())[-1] == ("expired", "clock")
    assert await results_worker.push(request_id) == "late"


async def test_the_same_key_again_changes_nothing(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database, expects=2)
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    assert [await results_worker.push(request_id, "k", item(n)) for n in (1, 2)] == ["accepted", "repeated"]
    await results_worker.work()
    assert await results_worker.push(request_id, "k", item(2)) == "repeated"
    assert (await results_worker.request())["received"] == 1
    assert len(await results_worker.deliveries()) == 1


async def test_the_same_cargo_under_another_key_is_received_once(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database, expects=2)
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    for key in ("a", "b"):
        await results_worker.push(request_id, key, item(1))
    await results_worker.work()
    await results_worker.push(request_id, "c", item(1))
    await results_worker.work()
    assert ((await results_worker.request())["received"], len(await results_worker.items())) == (1, 1)
    assert {row["status"] for row in await results_worker.deliveries()} == {"done"}


async def test_what_comes_after_the_end_is_kept_and_counts_for_nothing(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database)
    await results_worker.start()
    request_id = (await results_worker.request())["id"]
    for key in ("a", "b"):  # both are in the queue before anybody looks
        await results_worker.push(request_id, key, item(key))
    assert await results_worker.work() == {"processed": 1, "late": 1}
    assert await results_worker.push(request_id, "c", item("c")) == "late"
    assert [row["late"] for row in await results_worker.deliveries()] == [False, True, True]
    assert [found["cargo"] for found in await results_worker.items()] == ["external://vault/a"]
    assert len(await rows(results_worker.database, "workflow_events_outbox")) == 1


async def test_a_cancelled_instance_asks_nobody_any_more(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database)
    view = await results_worker.start()
    request_id = (await results_worker.request())["id"]
    await results_worker.push(request_id)
    await results_worker.runtime.org(ORG, ANN).instances.cancel(view.id, "mistaken")
    request = await results_worker.request()
    assert (request["status"], request["error"]) == ("cancelled", "mistaken")
    assert await results_worker.work() == {"late": 1}
    assert (await results_worker.items(), await results_worker.push(request_id, "b")) == ([], "late")
    assert (await results_worker.history())[-1] == ("delivered", "python")
    assert (await results_worker.instance())["status"] == "cancelled"


async def test_a_step_that_is_skipped_asks_nobody_any_more(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database)
    view = await results_worker.start()
    async with results_worker.database.transaction(ORG) as connection:
        definition = await results_worker.runtime.core.definitions.for_flow(connection, ORG, "kyc")
    (edge,) = [edge.id for edge in definition.workflow.edges.values() if edge.target == "end"]
    await results_worker.runtime.org(ORG, OPS).instances.skip(view.id, "vendor", edge, "by phone")
    assert (await results_worker.request())["status"] == "cancelled"
    assert await results_worker.ended_at() == "end"


async def test_a_workflow_whose_time_is_over_asks_nobody_any_more(results_worker: ResultsWorker) -> None:
    steps = [vendor(), END]
    await publish_steps(
        results_worker.database, "kyc", steps, arrows("vendor", "end"), timeout="3d", on_timeout="end"
    )
    await results_worker.start()
    results_worker.clock.advance(timedelta(days=3))
    await run_until_done(Timeouts(WorkerContext(results_worker.database)))
    await drain(results_worker.runtime)
    assert await results_worker.ended_at() == "end"
    request = await results_worker.request()
    assert (request["status"], request["error"]) == ("cancelled", "timeout")


async def test_a_paused_instance_hears_of_its_results_when_it_goes_on(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database)
    view = await results_worker.start()
    await results_worker.runtime.org(ORG, OPS).instances.pause(view.id)
    await results_worker.push((await results_worker.request())["id"])
    await results_worker.work()
    assert ((await results_worker.request())["status"], (await results_worker.instance())["status"]) == (
        "completed",
        "paused",
    )
    await results_worker.runtime.org(ORG, OPS).instances.resume(view.id)
    await drain(results_worker.runtime)
    assert (await results_worker.instance())["status"] == "completed"


async def test_a_step_that_is_tried_again_asks_again(results_worker: ResultsWorker) -> None:
    await publish_steps(results_worker.database, "kyc", [vendor(), END], arrows("vendor", "end"))
    view = await results_worker.start()
    first = (await results_worker.request())["id"]
    await results_worker.push(first, "k", status="failed")
    await results_worker.work()
    assert (await results_worker.instance())["status"] == "paused"
    await results_worker.runtime.org(ORG, OPS).instances.retry(view.id)
    (second,) = [row["id"] for row in await results_worker.requests() if row["id"] != first]
    await results_worker.push(second)
    await results_worker.work()
    assert (await results_worker.instance())["status"] == "completed"


async def test_pushing_inside_the_callers_transaction(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database)
    await results_worker.start()
    request_id = (await results_worker.request())["id"]

    async def push_and(fail: bool) -> None:
        async with (
            results_worker.database.transaction(None) as outer,
            results_worker.runtime.within(outer, ORG) as mine,
        ):
            assert await mine.requests.push_result(request_id, "k", [item()]) == "accepted"
            if fail:
                raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await push_and(fail=True)
    assert await results_worker.deliveries() == []
    await push_and(fail=False)
    assert len(await results_worker.deliveries()) == 1


async def test_what_cannot_be_taken_is_refused(results_worker: ResultsWorker) -> None:
    await publish_vendor(results_worker.database)
    await results_worker.start()
    with pytest.raises(Refused, match="NOT_FOUND"):
        await results_worker.push(uuid4())
    with pytest.raises(Refused, match="NOT_FOUND"):
        await results_worker.runtime.org("globex").requests.push_result(
            (await results_worker.request())["id"], "k", [item()]
        )
    with pytest.raises(Refused, match="BAD_CARGO"):
        await results_worker.push((await results_worker.request())["id"], "k", {"cargo": "passport.pdf"})
    assert await results_worker.deliveries() == []


async def _statements(
    results_worker: ResultsWorker, flow: str, counter: StatementCounter, *, requests: int, items: int
) -> int:
    """How many statements it takes to fold what came for new requests of a flow."""
    known = {row["id"] for row in await results_worker.requests()}
    for _ in range(requests):
        await results_worker.start(flow)
    for request in await results_worker.requests():
        if request["id"] not in known:
            await results_worker.push(request["id"], "k", *(item(n) for n in range(items)))
    counter.clear()
    done = await Results(WorkerContext(results_worker.database, runtime=results_worker.runtime)).run_once()
    assert done.parts == {"processed": requests}
    return len(counter)


async def test_work_in_sets_stays_work_in_sets(
    results_worker: ResultsWorker, statement_counter: StatementCounter
) -> None:
    await publish_vendor(results_worker.database, "one")
    await publish_vendor(results_worker.database, "many", expects=500)
    await _statements(
        results_worker, "one", statement_counter, requests=1, items=1
    )  # a connection's first time
    alone = await _statements(results_worker, "one", statement_counter, requests=1, items=1)
    assert await _statements(results_worker, "many", statement_counter, requests=1, items=500) == alone
    assert await _statements(results_worker, "one", statement_counter, requests=40, items=2) == alone
    assert {row["status"] for row in await results_worker.requests()} == {"completed"}
