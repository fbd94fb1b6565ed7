"""Approvals for the engine's tests: a flow that asks, people who answer, and what came of it."""

from typing import Any

from assent.engine.inputs import Decide
from assent.engine.run import Offered
from assent.model.actor import Actor
from assent.model.approval import ApprovalRequest
from assent.model.mutation import Rejection
from tests.unit.engine.driving import EngineCase, flow

ENDS = [{"id": "yes", "type": "terminal"}, {"id": "no", "type": "terminal"}]
WAYS = [{"from": "ask", "event": "approved", "to": "yes"}, {"from": "ask", "event": "rejected", "to": "no"}]
BOSSES = ("bea", "bob", "cid")


def asking(*, ways: Any = (), flow_keys: Any = None, **node: Any) -> EngineCase:
    ask = {
        "id": "ask",
        "type": "approval",
        **({} if "groups" in node else {"assignee": {"role": "boss"}}),
        **node,
    }
    case = EngineCase(flow([ask, *ENDS], [*WAYS, *ways], **(flow_keys or {})))
    case.people = {"boss": BOSSES, "finance": ("fin", "fay", "bea"), "legal": ("lea",), "cfo": ("cfo",)}
    return case


def decide(case: EngineCase, who: str, answer: str = "approved", **rest: Any) -> Offered:
    request = rest.pop("request", None) or request_of(case)
    return case.give(Decide(case.id(), Actor(who), request.id, answer, **rest))


def request_of(case: EngineCase) -> ApprovalRequest:
    return list(case.requests.values())[-1]


def code(outcome: Offered) -> str:
    assert isinstance(outcome, Rejection), outcome
    return outcome.code


def end_of(case: EngineCase) -> str | None:
    return case.trace()[-1] if case.instance.status == "completed" else None


def play(case: EngineCase, *answers: tuple[str, str]) -> str | None:
    for who, answer in answers:
        assert decide(case, who, answer) == "accepted"
    return end_of(case)


def request_at(case: EngineCase, node: str) -> ApprovalRequest:
    return next(r for r in case.requests.values() if r.node_id == node)
