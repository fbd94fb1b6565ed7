"""Trying again, cancelling and joining: every step has a key of its own, and the steps still tell all of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from assent.engine.inputs import Cancel, CancelToken, Resume, RetryInstance, Skip
from tests.authored import END, arrows, form, script
from tests.unit.engine.driving import ANN, OPS, EngineCase, flow
from tests.unit.engine.test_flows import code


def call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "system", "operation": {"sdk": "x.y"}}


def answering(answers: Iterable[bool]) -> Any:
    """A function that fails where the answers say so."""
    given = iter(answers)

    def function(arguments: Any) -> None:
        if not next(given):
            raise RuntimeError("closed")

    return {"x.y": function}


def keys_are_unique(case: EngineCase) -> bool:
    return max(Counter(step.key for step in case.steps.values()).values()) == 1


BROKEN = flow([call("call"), END], arrows("call", "end"))


def test_what_fails_again_can_be_tried_again() -> None:
    case = EngineCase(BROKEN, answering([False, False, False, True])).start()
    for _ in range(3):
        assert case.instance.status == "paused"
        assert case.give(RetryInstance(case.id(), OPS)) == "accepted"
    assert case.instance.status == "completed"
    tokens = [step.token_id for step in case.steps.values() if step.node_id == "call"]
    assert tokens == ["0", "0!1", "0!2", "0!3"]


def test_attempts_begin_anew_at_the_next_node() -> None:
    plan = flow([call("one"), call("two"), END], arrows("one", "two", "end"))
    case = EngineCase(plan, answering([False, True, False, True])).start()
    for _ in range(2):
        case.give(RetryInstance(case.id(), OPS))
    assert [s.token_id for s in case.steps.values() if s.node_id == "two"] == ["0", "0!1"]


def test_cancelling_what_failed_is_a_step_of_its_own() -> None:
    case = EngineCase(BROKEN, answering([False, False])).start()
    case.give(RetryInstance(case.id(), OPS))
    case.give(Cancel(case.id(), ANN, "enough"))
    assert [s.token_id for s in case.steps.values() if s.node_id == "call"] == ["0", "0!1", "0!2"]
    assert keys_are_unique(case)


def test_skipping_what_failed_twice_is_a_step_of_its_own() -> None:
    case = EngineCase(BROKEN, answering([False, False])).start()
    case.give(RetryInstance(case.id(), OPS))
    case.give(Skip(case.id(), OPS, "call", "call->end", "by hand"))
    assert case.instance.status == "completed"
    assert keys_are_unique(case)


NESTED = flow(
    [
        {"id": "fork", "type": "parallel_split"},
        form("left"),
        {"id": "inner", "type": "parallel_split"},
        form("up"),
        form("down"),
        {"id": "meet", "type": "parallel_join", "mode": "all"},
        {"id": "join", "type": "parallel_join", "mode": "all"},
        END,
    ],
    [
        *arrows("fork", "left"),
        *arrows("fork", "inner", "up"),
        *arrows("inner", "down"),
        *arrows("up", "meet", event="done"),
        *arrows("down", "meet", event="done"),
        *arrows("left", "join", event="done"),
        *arrows("meet", "join", "end"),
    ],
)


def token_at(case: EngineCase, node: str) -> str:
    return next(token.id for token in case.instance.tokens.values() if token.node == node)


def test_cancelling_a_branch_that_was_split_ends_all_of_it() -> None:
    case = EngineCase(NESTED).start()
    assert case.give(CancelToken(case.id(), OPS, token_at(case, "inner"), "not needed")) == "accepted"
    assert case.resting == ["left"]
    assert sorted(case.trace("cancelled")) == ["down", "inner", "up"]
    assert keys_are_unique(case)
    case.advance("done", step="left")
    assert case.instance.status == "completed"


def test_branch_that_is_left_alone_by_a_pause_joins_after_it() -> None:
    """One token fails in the same run in which another's join became complete."""
    plan = flow(
        [
            {"id": "fork", "type": "parallel_split"},
            call("fails"),
            {"id": "inner", "type": "parallel_split"},
            script("up"),
            script("down"),
            {"id": "meet", "type": "parallel_join", "mode": "all"},
            {"id": "join", "type": "parallel_join", "mode": "all"},
            END,
        ],
        [
            *arrows("fork", "fails", "join"),
            *arrows("fork", "inner", "up", "meet", "join", "end"),
            *arrows("inner", "down", "meet"),
        ],
    )
    case = EngineCase(plan, answering([False, True])).start()
    assert case.instance.status == "paused"
    case.give(RetryInstance(case.id(), OPS))
    assert case.instance.status == "completed"
    assert case.trace().count("meet") == case.trace().count("join") == 1


def test_chain_that_is_too_long_beside_a_complete_join_is_paused_and_goes_on() -> None:
    """The first branch reaches its limit while the second one's join is complete."""
    calls = [call(f"c{number}") for number in range(12)]
    plan = flow(
        [
            {"id": "fork", "type": "parallel_split"},
            *calls,
            form("ask"),
            {"id": "inner", "type": "parallel_split"},
            form("up"),
            script("down"),
            {"id": "meet", "type": "parallel_join", "mode": "any"},
            {"id": "join", "type": "parallel_join", "mode": "all"},
            END,
        ],
        [
            *arrows("fork", "ask"),
            *arrows("ask", *[step["id"] for step in calls][:1], event="done"),
            *arrows(*[step["id"] for step in calls], "join", "end"),
            *arrows("fork", "inner", "down", "meet", "join"),
            *arrows("inner", "up"),
            *arrows("up", "meet", event="done"),
        ],
    )
    case = EngineCase(plan, answering([True] * 12), chain_steps_max=10).start()
    case.advance("done", step="ask")
    assert case.instance.status == "paused"
    assert case.give(Resume(case.id(), OPS)) == "accepted"
    assert case.instance.status == "completed"


ANY = flow(
    [
        {"id": "fork", "type": "parallel_split"},
        form("left"),
        form("right"),
        {"id": "join", "type": "parallel_join", "mode": "all"},
        END,
    ],
    [
        *arrows("fork", "left"),
        *arrows("fork", "right"),
        *arrows("left", "join", event="done"),
        *arrows("right", "join", event="done"),
        *arrows("join", "end"),
    ],
)


def test_join_that_nobody_reaches_any_more_fails_and_can_be_skipped() -> None:
    case = EngineCase(ANY).start()
    for name in ("left", "right"):
        case.give(CancelToken(case.id(), OPS, token_at(case, name), "not needed"))
    assert case.instance.incident is not None
    assert (case.instance.status, case.instance.incident["code"]) == ("paused", "NO_EDGE_MATCHES")
    assert case.give(RetryInstance(case.id(), OPS)) == "accepted"
    assert case.instance.status == "paused", "nobody came in the meantime"
    assert code(case.give(Skip(case.id(), OPS, "join", "nowhere"))) == "EDGE_NOT_FOUND"
    assert case.give(Skip(case.id(), OPS, "join", "join->end")) == "accepted"
    assert case.instance.status == "completed"
    assert keys_are_unique(case)


def test_a_loop_inside_a_branch_runs_its_steps_again_under_keys_of_their_own() -> None:
    fork = {"id": "fork", "type": "parallel_split"}
    join = {"id": "join", "type": "parallel_join", "mode": "all"}
    ways = [
        {"from": "fork", "to": "left"},
        {"from": "fork", "to": "right"},
        *arrows("left", "note", event="again"),
        *arrows("note", "left"),
        *arrows("left", "join", event="submitted"),
        *arrows("right", "join", event="submitted"),
        {"from": "join", "to": "end"},
    ]
    case = EngineCase(flow([fork, form("left"), form("right"), script("note"), join, END], ways)).start()
    for _ in range(2):
        assert case.advance("again", step="left") == "accepted"
    assert case.advance("submitted", step="left") == "accepted"
    assert case.advance("submitted", step="right") == "accepted"
    assert (case.instance.status, case.trace().count("note")) == ("completed", 2)
    assert keys_are_unique(case)
