"""The engine without a database: tokens go where the graph says, once, and steps say all of it."""

from typing import Any

import pytest

from assent.engine.inputs import (
    Cancel,
    CancelToken,
    EventArrived,
    Expired,
    ForceFail,
    Pause,
    Resume,
    RetryInstance,
    Skip,
    TimerDue,
)
from assent.model.actor import Actor
from assent.model.mutation import KeyedEvent, Rejection
from tests.authored import END, arrows, form, script
from tests.unit.engine.driving import ANN, OPS, EngineCase, flow


def code(offered: Any) -> str:
    assert isinstance(offered, Rejection)
    return offered.code


def test_automatic_steps_run_to_the_end() -> None:
    plan = flow([script("a"), script("b", x="1"), END], arrows("a", "b", "end"))
    case = EngineCase(plan).start(order="o-1")
    assert case.trace() == ["start", "a", "b", "end"]
    assert case.instance.status == "completed"
    assert case.instance.context == {"order": "o-1", "a": True, "x": 1}


def test_a_form_rests_until_somebody_answers_it() -> None:
    plan = flow([form("ask"), END], arrows("ask", "end", event="submitted"))
    case = EngineCase(plan).start()
    assert (case.resting, case.instance.status) == (["ask"], "running")
    assert case.advance("submitted", data={"name": "Ann"}) == "accepted"
    assert (case.instance.status, case.instance.context) == ("completed", {"name": "Ann"})


def test_an_edge_with_a_guard_is_taken_by_those_who_hold_it_only() -> None:
    ways = [
        {"from": "ask", "event": "submitted", "to": "fast", "guard": "orders:fast", "priority": 1},
        {"from": "ask", "event": "submitted", "to": "slow", "priority": 2},
    ]
    plan = flow(
        [form("ask"), script("fast"), script("slow"), END],
        [*ways, *arrows("fast", "end"), *arrows("slow", "end")],
    )
    for capabilities, way in ((frozenset[str](), "slow"), (frozenset({"orders:fast"}), "fast")):
        case = EngineCase(plan).start()
        assert case.advance("submitted", Actor("ann", capabilities=capabilities)) == "accepted"
        assert case.trace()[-2] == way


def test_a_policy_gate_tells_those_who_may_from_those_who_may_not() -> None:
    gate = {"id": "gate", "type": "policy_gate", "capability": "orders:ship"}
    ways = [
        *arrows("ask", "gate", event="submitted"),
        *arrows("gate", "ship", "end"),
        *arrows("gate", "stop", event="denied"),
        *arrows("stop", "end"),
    ]
    plan = flow([form("ask"), gate, script("ship"), script("stop"), END], ways)
    for capabilities, way in ((frozenset[str](), "stop"), (frozenset({"orders:ship"}), "ship")):
        case = EngineCase(plan).start()
        assert case.advance("submitted", Actor("ann", capabilities=capabilities)) == "accepted"
        assert case.trace()[-2] == way


def test_an_answer_that_no_edge_knows_is_refused_and_changes_nothing() -> None:
    case = EngineCase(flow([form("ask"), END], arrows("ask", "end", event="submitted"))).start()
    version = case.instance.version
    assert code(case.advance("eaten")) == "INVALID_TRANSITION"
    assert case.instance.version == version


def test_a_form_checks_what_is_filled_in() -> None:
    fields = {"total": {"type": "integer", "required": True}}
    case = EngineCase(flow([form("ask", form=fields), END], arrows("ask", "end", event="submitted"))).start()
    refused = case.advance("submitted", data={"total": "x"})
    assert (code(refused), refused.path) == ("WRONG_TYPE", ("data", "total"))
    assert case.advance("submitted", data={"total": 5}) == "accepted"


def test_a_form_of_a_role_is_not_everybodys() -> None:
    plan = flow([form("ask", assignee={"role": "boss"}), END], arrows("ask", "end", event="submitted"))
    case = EngineCase(plan).start()
    assert code(case.advance("submitted")) == "POLICY_DENIED"
    boss = Actor("bea", roles=frozenset({"boss"}))
    assert case.advance("submitted", boss) == "accepted"


CHOICE = flow(
    [script("a"), {"id": "size", "type": "condition"}, script("large"), script("small"), END],
    [
        *arrows("a", "size"),
        {
            "from": "size",
            "event": "completed",
            "to": "large",
            "condition": "workflow.total > 100",
            "priority": 1,
        },
        {"from": "size", "event": "completed", "to": "small", "priority": 2},
        *arrows("large", "end"),
        *arrows("small", "end"),
    ],
)


@pytest.mark.parametrize(("total", "way"), [(500, "large"), (5, "small")])
def test_the_first_edge_whose_condition_holds_is_taken_and_explained(total: int, way: str) -> None:
    case = EngineCase(CHOICE).start(total=total)
    assert case.trace() == ["start", "a", "size", way, "end"]
    output = case.step_of("size").output
    assert output["chosen_edge_ids"] == [f"size->{way}"]
    assert output["evaluations"][0] == {
        "edge": "size->large",
        "expression": "workflow.total > 100",
        "variables": {"workflow.total": total},
        "result": total > 100,
    }


def parallel(mode: str, *, qualifies: str | None = None) -> Any:
    into = {"condition": qualifies} if qualifies else {}
    return flow(
        [
            {"id": "fork", "type": "parallel_split"},
            form("left"),
            form("right"),
            {"id": "join", "type": "parallel_join", "mode": mode},
            script("after"),
            END,
        ],
        [
            *arrows("fork", "left"),
            *arrows("fork", "right"),
            {"from": "left", "event": "done", "to": "join", **into},
            {"from": "right", "event": "done", "to": "join", **into},
            *arrows("join", "after", "end"),
            *([{"from": "join", "event": "none", "to": "end"}] if qualifies else []),
        ],
    )


def test_an_all_join_waits_for_everybody_and_fires_once() -> None:
    case = EngineCase(parallel("all")).start()
    assert case.resting == ["left", "right"]
    case.advance("done", step="right")
    assert (case.resting, case.instance.status) == (["left"], "running")
    case.advance("done", step="left")
    assert case.trace() == ["start", "fork", "right", "left", "join", "after", "end"]


def test_an_any_join_goes_on_with_the_first_and_cancels_the_others() -> None:
    case = EngineCase(parallel("any")).start()
    case.advance("done", step="right")
    assert case.instance.status == "completed"
    assert case.trace() == ["start", "fork", "right", "join", "after", "end"]
    assert case.trace("cancelled") == ["left"]


def test_an_arrival_that_does_not_count_is_absorbed() -> None:
    case = EngineCase(parallel("any", qualifies="workflow.good == true")).start()
    case.advance("done", step="left", data={"good": False})
    assert (case.resting, case.instance.status) == (["right"], "running")
    case.advance("done", step="right", data={"good": True})
    assert case.trace()[-2:] == ["after", "end"]


def test_a_join_that_nobody_qualified_for_leaves_by_none() -> None:
    case = EngineCase(parallel("any", qualifies="workflow.good == true")).start()
    for step in ("left", "right"):
        case.advance("done", step=step, data={"good": False})
    assert case.trace() == ["start", "fork", "left", "right", "join", "end"]


def test_two_steps_that_could_be_meant_are_ambiguous() -> None:
    case = EngineCase(parallel("all")).start()
    assert code(case.advance("done")) == "AMBIGUOUS_STEP"


def test_cancelling_one_token_leaves_the_join_to_the_others() -> None:
    case = EngineCase(parallel("all")).start()
    token = next(t.id for t in case.instance.tokens.values() if t.node == "left")
    assert case.give(CancelToken(case.id(), OPS, token, "not needed")) == "accepted"
    case.advance("done", step="right")
    assert case.instance.status == "completed"
    assert case.trace("cancelled") == ["left"]


LOOP = flow(
    [form("write"), form("review"), END],
    [
        *arrows("write", "review", event="done"),
        {"from": "review", "event": "again", "to": "write"},
        {"from": "review", "event": "fine", "to": "end"},
    ],
)


def test_a_second_visit_is_a_new_generation_and_a_new_step() -> None:
    case = EngineCase(LOOP).start()
    for event in ("done", "again", "done", "again", "done", "fine"):
        assert case.advance(event) == "accepted"
    assert case.trace() == ["start", *["write", "review"] * 3, "end"]
    tokens = [step.token_id for step in case.steps.values() if step.node_id == "write"]
    assert tokens == ["0", "1", "2"]


TIMED = flow(
    [form("ask", timeout="24h", on_timeout="late"), script("late"), END],
    [*arrows("ask", "end", event="submitted"), *arrows("late", "end")],
)


def test_a_step_that_runs_out_of_time_takes_its_timeout() -> None:
    case = EngineCase(TIMED).start()
    step = case.step_of("ask")
    assert step.resume_at is not None
    case.wait(86_400)
    assert step.resume_at == case.now
    assert case.give(TimerDue(case.id(), step_id=step.id)) == "accepted"
    assert case.trace()[-2:] == ["late", "end"]


def test_a_timer_that_comes_too_late_is_ignored() -> None:
    case = EngineCase(TIMED).start()
    step = case.step_of("ask")
    case.advance("submitted")
    assert case.give(TimerDue(case.id(), step_id=step.id)) == "ignored"


def test_the_workflows_own_time_ends_every_token() -> None:
    plan = flow(
        [form("ask"), END, {"id": "expired", "type": "terminal"}],
        arrows("ask", "end", event="submitted"),
        timeout="72h",
        on_timeout="expired",
    )
    case = EngineCase(plan).start()
    assert case.give(Expired(case.id())) == "accepted"
    assert case.trace("cancelled") == ["ask"]
    assert case.trace()[-1] == "expired"
    assert case.instance.status == "completed"


def test_a_workflow_without_a_way_out_of_its_time_fails() -> None:
    plan = flow([form("ask"), END], arrows("ask", "end", event="submitted"), timeout="72h")
    case = EngineCase(plan).start()
    case.give(Expired(case.id()))
    assert case.instance.status == "failed"
    assert case.instance.incident is not None
    assert case.instance.incident["code"] == "WORKFLOW_TIMEOUT"


WAITING = flow(
    [
        {"id": "delay", "type": "wait", "for": "2h"},
        {
            "id": "paid",
            "type": "wait",
            "key": "payment:{workflow.order}",
            "output": {"amount": "result.amount"},
        },
        END,
    ],
    arrows("delay", "paid", "end"),
)


def test_timers_and_events_are_waited_for() -> None:
    case = EngineCase(WAITING).start(order="o-7")
    timer = case.step_of("delay")
    case.give(TimerDue(case.id(), step_id=timer.id))
    waiting = case.step_of("paid")
    assert waiting.event_key == "payment:o-7"
    case.give(EventArrived(case.id(), step_id=waiting.id, data={"amount": 12}))
    assert (case.instance.status, case.instance.context["amount"]) == ("completed", 12)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("workflow.day", "2026-03-10T00:00:00+00:00"),
        ("workflow.day - '2d'", "2026-03-08T00:00:00+00:00"),
        ("workflow.day + '36h'", "2026-03-11T12:00:00+00:00"),
        ("now + '3h'", "2026-03-02T12:00:00+00:00"),
    ],
)
def test_a_timer_waits_for_a_date_or_a_computed_time(until: str, expected: str) -> None:
    waiting = flow([{"id": "delay", "type": "wait", "until": until}, END], arrows("delay", "end"))
    due = EngineCase(waiting).start(day="2026-03-10").step_of("delay").resume_at
    assert due is not None
    assert due.isoformat() == expected


EMITTING = flow(
    [
        {
            "id": "tell",
            "type": "emit",
            "key": "order:paid:{workflow.order}",
            "data": {"order": "{workflow.order}", "amount": "{workflow.amount}", "by": "card"},
        },
        form("repair"),
        END,
    ],
    [
        *arrows("tell", "end"),
        {"from": "tell", "event": "error", "to": "repair"},
        {"from": "repair", "event": "done", "to": "end"},
    ],
)


def test_an_emit_step_creates_an_event_under_its_key_and_goes_on() -> None:
    case = EngineCase(EMITTING).start(order="o-7", amount=12)
    assert case.events == [KeyedEvent("order:paid:o-7", {"order": "o-7", "amount": 12, "by": "card"})]
    assert (case.instance.status, case.step_of("tell").output["event_key"]) == ("completed", "order:paid:o-7")


@pytest.mark.parametrize(
    ("key", "code"),
    [("{workflow.missing}", "KEY_MISSING"), ("{workflow.order}", "KEY_UNUSABLE")],
    ids=["blank", "too long"],
)
def test_an_event_without_a_usable_key_is_a_failure_of_the_step(key: str, code: str) -> None:
    plan = flow([{"id": "tell", "type": "emit", "key": key}, END], arrows("tell", "end"))
    case = EngineCase(plan).start(order="o" * 201)
    assert (case.instance.status, case.events) == ("paused", [])
    assert case.instance.incident is not None
    assert case.instance.incident["code"] == code


def test_an_event_under_a_key_of_a_signing_source_is_a_failure_of_the_step() -> None:
    case = EngineCase(EMITTING)
    case.signed_keys.add("order:paid:o-7")
    case.start(order="o-7", amount=12)
    assert (case.resting, case.events) == (["repair"], [])


def test_too_many_events_in_a_row_pause_the_instance() -> None:
    names = [f"tell{number}" for number in range(4)]
    steps = [{"id": name, "type": "emit", "key": "k"} for name in names]
    case = EngineCase(flow([*steps, END], arrows(*names, "end")), chain_steps_max=3).start()
    assert (case.instance.status, len(case.events)) == ("paused", 3)


SYSTEM_FLOW = flow(
    [
        {
            "id": "call",
            "type": "system",
            "operation": {"sdk": "shop.confirm"},
            "input": {"order": "workflow.order"},
            "output": {"at": "result.at"},
        },
        form("repair"),
        END,
    ],
    [
        *arrows("call", "end"),
        {"from": "call", "event": "error", "to": "repair"},
        {"from": "repair", "event": "done", "to": "end"},
    ],
)


def test_a_call_gets_its_input_and_gives_its_output() -> None:
    case = EngineCase(SYSTEM_FLOW, {"shop.confirm": lambda given: {"at": f"now-{given['order']}"}}).start(
        order="o-1"
    )
    assert case.instance.context["at"] == "now-o-1"


def test_a_call_that_fails_takes_its_error_edge() -> None:
    def confirm(given: Any) -> Any:
        raise RuntimeError("shop is closed")

    case = EngineCase(SYSTEM_FLOW, {"shop.confirm": confirm}).start()
    assert case.resting == ["repair"]
    assert case.instance.context["_last_error"]["message"] == "shop is closed"
    assert case.step_of("call").status == "failed"


BROKEN = flow(
    [{"id": "call", "type": "system", "operation": {"sdk": "shop.confirm"}}, END], arrows("call", "end")
)


def test_a_failure_without_an_error_edge_pauses_and_can_be_tried_again() -> None:
    answers = iter([RuntimeError("closed"), {"ok": True}])

    def confirm(given: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    case = EngineCase(BROKEN, {"shop.confirm": confirm}).start()
    assert case.instance.status == "paused"
    assert case.instance.incident is not None
    assert case.instance.incident["message"] == "closed"
    assert code(case.advance("completed")) == "WORKFLOW_NOT_ACTIVE"
    assert case.give(RetryInstance(case.id(), OPS)) == "accepted"
    assert case.instance.status == "completed"
    assert [s.token_id for s in case.steps.values() if s.node_id == "call"] == ["0", "0!1"]


def test_an_admin_skips_a_failed_step_by_naming_the_edge() -> None:
    case = EngineCase(BROKEN).start()
    assert code(case.give(Skip(case.id(), OPS, "call", "nowhere"))) == "EDGE_NOT_FOUND"
    assert case.give(Skip(case.id(), OPS, "call", "call->end", "done by hand")) == "accepted"
    assert (case.instance.status, case.trace("skipped")) == ("completed", ["call"])


def test_pause_holds_everything_and_resume_goes_on() -> None:
    case = EngineCase(TIMED).start()
    step = case.step_of("ask")
    assert case.give(Pause(case.id(), OPS, "holidays")) == "accepted"
    assert code(case.advance("submitted")) == "WORKFLOW_NOT_ACTIVE"
    assert case.give(TimerDue(case.id(), step_id=step.id)) == "deferred"
    assert code(case.give(RetryInstance(case.id(), OPS))) == "NOTHING_FAILED"
    assert case.give(Resume(case.id(), OPS)) == "accepted"
    assert [step.node_id for step in case.steps.values()][-1] == "ctl:resume"
    assert case.advance("submitted") == "accepted"


def test_resume_after_an_incident_tries_the_failed_step_again() -> None:
    case = EngineCase(BROKEN).start()
    assert case.give(Resume(case.id(), OPS)) == "accepted"
    assert [s.token_id for s in case.steps.values() if s.node_id == "call"] == ["0", "0!1"]
    assert (case.instance.status, case.instance.incident is not None) == ("paused", True)


def test_retry_goes_on_after_too_many_calls_in_a_row() -> None:
    calls = [{"id": f"c{i}", "type": "system", "operation": {"sdk": "x.y"}} for i in range(12)]
    plan = flow([*calls, END], arrows(*[c["id"] for c in calls], "end"))
    case = EngineCase(plan, {"x.y": lambda given: None}, chain_steps_max=10).start()
    assert case.give(RetryInstance(case.id(), OPS)) == "accepted"
    assert case.instance.status == "completed"


def test_skip_beside_a_failed_step_leaves_the_instance_paused() -> None:
    fork = {"id": "fork", "type": "parallel_split"}
    call = {"id": "call", "type": "system", "operation": {"sdk": "x.y"}}
    join = {"id": "join", "type": "parallel_join", "mode": "all"}
    ways = [*arrows("fork", "ask"), *arrows("fork", "call", "join", "end")]
    plan = flow([fork, form("ask"), call, join, END], [*ways, *arrows("ask", "join", event="submitted")])
    case = EngineCase(plan).start()
    assert case.instance.status == "paused"
    assert case.give(Skip(case.id(), OPS, "ask", "ask->join:submitted", "by hand")) == "accepted"
    assert case.instance.status == "paused"
    assert case.instance.incident is not None
    assert case.give(Skip(case.id(), OPS, "call", "call->join", "by hand")) == "accepted"
    assert case.instance.status == "completed"


def test_pausing_twice_is_two_steps() -> None:
    case = EngineCase(TIMED).start()
    for _ in range(2):
        case.give(Pause(case.id(), OPS))
        case.give(Resume(case.id(), OPS))
    assert len([s for s in case.steps.values() if s.node_id == "ctl:pause"]) == 2


def test_cancel_ends_every_token_with_a_step_and_is_final() -> None:
    case = EngineCase(parallel("all")).start()
    case.advance("done", step="left")
    assert case.give(Cancel(case.id(), ANN, "customer left")) == "accepted"
    assert case.instance.status == "cancelled"
    assert case.instance.tokens == {}
    assert case.instance.context["cancel_reason"] == "customer left"
    assert sorted(case.trace("cancelled")) == ["join", "right"]
    assert code(case.advance("done", step="right")) == "WORKFLOW_NOT_ACTIVE"
    assert case.give(TimerDue(case.id(), step_id=case.id())) == "ignored"


def test_an_admin_can_fail_what_is_paused() -> None:
    case = EngineCase(BROKEN).start()
    assert case.give(ForceFail(case.id(), OPS, "hopeless")) == "accepted"
    assert case.instance.status == "failed"


def test_too_many_calls_in_a_row_pause_the_instance() -> None:
    calls = [{"id": f"c{i}", "type": "system", "operation": {"sdk": "x.y"}} for i in range(12)]
    plan = flow([*calls, END], arrows(*[c["id"] for c in calls], "end"))
    case = EngineCase(plan, {"x.y": lambda given: None}, chain_steps_max=10).start()
    assert (case.instance.status, len(case.trace())) == ("paused", 11)
    assert case.instance.incident is not None
    assert case.instance.incident["code"] == "WORKFLOW_CHAIN_LIMIT"
    case.give(Resume(case.id(), OPS))
    assert case.instance.status == "completed"


def test_a_guard_lets_only_those_pass_who_hold_it() -> None:
    plan = flow(
        [form("ask"), END],
        [{"from": "ask", "event": "done", "to": "end", "guard": "orders:approve"}],
    )
    case = EngineCase(plan).start()
    refused = case.advance("done")
    assert isinstance(refused, Rejection)
    assert (refused.code, case.instance.status, case.resting) == ("POLICY_DENIED", "running", ["ask"])
    case.advance("done", Actor("ann", capabilities=frozenset({"orders:approve"})))
    assert case.instance.status == "completed"


def test_a_time_that_is_set_is_kept_as_text() -> None:
    case = EngineCase(flow([script("a", at="now", seen="workflow.list"), END], arrows("a", "end"))).start(
        list=[1]
    )
    assert case.instance.context["at"] == case.now.isoformat()
    assert case.instance.context["seen"] == [1]
