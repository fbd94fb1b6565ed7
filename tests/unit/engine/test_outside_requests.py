"""What a step asks of an outside party, with nothing running: the request is part of the decision."""

from datetime import timedelta
from typing import Any

from assent.engine.inputs import Cancel, EventArrived, Pause, RequestDecided, Resume, TimerDue
from tests.unit.engine.driving import ANN, NOW, OPS, EngineCase, flow

ENDS = [{"id": "end", "type": "terminal"}, {"id": "failed", "type": "terminal"}]


def asking(*more: dict[str, Any], **rest: Any) -> EngineCase:
    vendor = {"id": "vendor", "type": "webhook_out", "url": "https://v.example", "await": "result", **rest}
    ways = [
        {"from": "vendor", "event": "completed", "to": "end"},
        {"from": "vendor", "event": "error", "to": "failed"},
    ]
    return EngineCase(flow([vendor, *ENDS], [*ways, *more])).start(client="c-1")


def decided(case: EngineCase, status: str = "completed", **rest: Any) -> RequestDecided:
    (asked,) = case.asks
    return RequestDecided(case.id(), step_id=asked.step_id, request_id=asked.id, status=status, **rest)


def test_the_request_is_asked_with_its_call_and_has_the_nodes_time() -> None:
    case = asking(timeout="2d", expects=3, body={"client": "{workflow.client}"})
    (asked,), (effect,) = case.asks, case.effects
    assert (asked.name, asked.expected, asked.expires_at) == ("test.flow.vendor", 3, NOW + timedelta(days=2))
    assert (effect.payload["request"], effect.awaited) == (str(asked.id), True)
    assert asked.arguments == {"url": "https://v.example", "method": "POST", "body": {"client": "c-1"}}
    assert (case.resting, case.step_of("vendor").resume_at) == (["vendor"], None)


def test_results_are_the_steps_result() -> None:
    case = asking(output={"papers": "result.items"})
    result = {"items": [{"cargo": "external://v/1", "kind": None}], "received": 1, "failed": 0}
    assert case.give(decided(case, result=result)) == "accepted"
    assert (case.trace(), case.instance.context["papers"]) == (["start", "vendor", "end"], result["items"])
    assert case.step_of("vendor").output["result"] == result


def test_what_failed_or_expired_goes_along_the_error_edge() -> None:
    for status, code in (("failed", "REQUEST_FAILED"), ("expired", "REQUEST_EXPIRED")):
        case = asking()
        case.give(decided(case, status, error="no"))
        assert (case.trace()[-1], case.instance.context["_last_error"]["code"]) == ("failed", code)


def test_what_expired_goes_along_an_edge_of_its_own_where_there_is_one() -> None:
    case = asking({"from": "vendor", "event": "timeout", "to": "end"}, timeout="2d")
    case.give(decided(case, "expired"))
    assert (case.trace(), case.step_of("vendor").output["timed_out"]) == (["start", "vendor", "end"], True)


def test_only_results_answer_it() -> None:
    """Neither a timer nor the answer to the call; and nobody advances it by hand."""
    case = asking()
    step_id = case.asks[0].step_id
    for given in (TimerDue(case.id(), step_id=step_id), EventArrived(case.id(), step_id=step_id)):
        assert case.give(given) == "ignored"
    assert case.advance("completed", step="vendor").code == "INVALID_TRANSITION"
    assert case.resting == ["vendor"]


def test_results_wait_for_a_paused_instance_and_come_too_late_for_one_that_ended() -> None:
    case = asking()
    case.give(Pause(case.id(), OPS))
    assert case.give(decided(case)) == "deferred"
    case.give(Resume(case.id(), OPS))
    case.give(Cancel(case.id(), ANN, "mistaken"))
    assert case.give(decided(case)) == "ignored"
