"""Time that passes without anybody waiting: in the order in which things are due, and never by sleeping."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from assent.app import App
from assent.model.problems import Invalid, Problem
from assent.testing import Sandbox
from assent.testing.time_passing import NeverIdle, drain, length_of, read_length
from assent.worker.duty import RunResult, Schedule
from tests.authored import END, arrows, flow_of, form, line, script
from tests.world import steps_of

LENGTHS = {
    "90s": timedelta(seconds=90),
    "15m": timedelta(minutes=15),
    "24h": timedelta(days=1),
    "3d": timedelta(days=3),
    "3 days": timedelta(days=3),
    "1 day": timedelta(days=1),
    "2 weeks": timedelta(days=14),
    "90 seconds": timedelta(seconds=90),
    "5 minutes": timedelta(minutes=5),
    "1 hour": timedelta(hours=1),
}


@pytest.fixture
async def sandbox(postgres_url: str) -> AsyncIterator[Sandbox]:
    async with Sandbox(server=postgres_url) as sandbox:
        await sandbox.people(ann=["clerk"])
        yield sandbox


def flow(steps: list[dict[str, Any]], transitions: list[dict[str, Any]], **rest: Any) -> dict[str, Any]:
    return flow_of("a.b", steps, transitions, **rest)


def wait(name: str, length: str) -> dict[str, Any]:
    return {"id": name, "type": "wait", "for": length}


@pytest.mark.parametrize("text", LENGTHS)
def test_lengths_are_read_in_short_and_in_words(text: str) -> None:
    assert length_of(text) == LENGTHS[text]


@pytest.mark.parametrize("text", ["", "3", "days", "-3d", "3 fortnights", "3 days ago", "99999999 weeks"])
def test_anything_else_is_no_length(text: str) -> None:
    assert isinstance(read_length(text), Problem)
    with pytest.raises(Invalid):
        length_of(text)


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="forwards"):
        length_of(timedelta(days=-1))


async def test_each_thing_happens_at_its_own_time_however_far_the_clock_moves(sandbox: Sandbox) -> None:
    steps = [wait("one", "2h"), wait("two", "3d"), wait("three", "90s"), END]
    await sandbox.publish(flow(steps, line(*steps)))
    began = sandbox.clock.now()
    view = await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start("a.b")
    await sandbox.advance_time("30 days")
    assert sandbox.clock.now() == began + timedelta(days=30)
    ended = {s["node_id"]: s["completed_at"] - began for s in await steps_of(sandbox.database, view.id)}
    lengths = [timedelta(hours=2), timedelta(days=3, hours=2), timedelta(days=3, hours=2, seconds=90)]
    assert [ended[name] for name in ("one", "two", "three")] == lengths


async def test_what_is_due_later_does_not_happen(sandbox: Sandbox) -> None:
    steps = [wait("one", "2h"), form("fill"), END]
    await sandbox.publish(flow(steps, line(*steps)))
    view = await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start("a.b")
    await sandbox.advance_time(timedelta(hours=2) - timedelta(seconds=1))
    assert [s["status"] for s in await steps_of(sandbox.database, view.id)][-1] == "pending"
    await sandbox.advance_time("1s")
    nodes = [(s["node_id"], s["status"]) for s in await steps_of(sandbox.database, view.id)]
    assert nodes[-2:] == [("one", "completed"), ("fill", "pending")]


async def test_timeouts_of_a_step_and_of_the_whole_come_in_their_order(sandbox: Sandbox) -> None:
    first = {"id": "first", "type": "wait", "key": "never", "timeout": "1d", "on_timeout": "second"}
    steps = [first, {"id": "second", "type": "wait", "key": "nor ever"}, END, script("late")]
    transitions = [*arrows("first", "second"), *arrows("second", "end"), *arrows("late", "end")]
    await sandbox.publish(flow(steps, transitions, timeout="2d", on_timeout="late"))
    view = await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start("a.b")
    await sandbox.advance_time("1 week")
    found = [(s["node_id"], s["status"]) for s in await steps_of(sandbox.database, view.id)]
    assert ("first", "completed") in found
    assert found.index(("first", "completed")) < found.index(("second", "cancelled"))
    assert found.index(("second", "cancelled")) < found.index(("late", "completed"))


async def test_an_attempt_that_failed_is_made_again_when_its_time_comes(postgres_url: str) -> None:
    app, outcomes = App(), [RuntimeError("not yet"), RuntimeError("nor now"), None]

    @app.operation("shaky")
    def shaky(connection: Any, arguments: Any) -> dict[str, Any]:
        if (error := outcomes.pop(0)) is not None:
            raise error
        return {}

    steps = [wait("one", "1h"), {"id": "call", "type": "system", "operation": {"sdk": "shaky"}}, END]
    async with Sandbox(app, [flow(steps, line(*steps))], server=postgres_url) as sandbox:
        await sandbox.people(ann=["clerk"])
        view = await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start("a.b")
        await sandbox.advance_time("1 day")
        (call,) = [s for s in await steps_of(sandbox.database, view.id) if s["node_id"] == "call"]
    assert (outcomes, call["status"]) == ([], "completed")


class Restless:
    """A duty that always finds more to do."""

    name = "restless"
    pace = Schedule(1)

    def __init__(self, place: Any = None) -> None:
        pass

    async def run_once(self) -> RunResult:
        return RunResult(1, more=True)


async def test_duties_that_never_rest_are_told_of() -> None:
    with pytest.raises(NeverIdle, match="still something due"):
        await drain([Restless()])
