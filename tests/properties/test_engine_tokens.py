"""Random flows, random inputs, no database: tokens are conserved, steps are unique, and steps tell all of it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assent.compiler import compile_flow
from assent.engine.inputs import (
    Advance,
    Cancel,
    CancelToken,
    EventArrived,
    Expired,
    ForceFail,
    Input,
    Pause,
    Poke,
    Resume,
    RetryInstance,
    Skip,
    TimerDue,
)
from assent.engine.instance import Token, parent_id
from assent.engine.plan import plan_of
from assent.engine.run import CHAIN_STEPS_MAX
from tests.properties.choosing import Chooser, Drawn, Seeded, chance, pick
from tests.properties.running_flows import flow
from tests.unit.engine.driving import ANN, OPS, EngineCase

SEEDS: Final = 2_000
CHUNKS: Final = 8
INPUTS_MAX: Final = 40
GOES_ON: Final = 70
"""Percent of inputs that somebody or something waits for."""


@dataclass
class RandomLife:
    """One instance of a random flow, and the random things that happen to it."""

    chooser: Chooser
    case: EngineCase = field(init=False)

    def __post_init__(self) -> None:
        plan = plan_of(compile_flow(flow(self.chooser)).unwrap())
        limit = CHAIN_STEPS_MAX if chance(self.chooser, 50) else None
        self.case = EngineCase(plan, {"tests.call": self._call}, limit)

    def _call(self, arguments: Any) -> Any:
        if chance(self.chooser, 25):
            raise RuntimeError("closed")

    def live(self) -> None:
        self.case.start(n=self.chooser.number(0, 4), number=1)
        self.check()
        for _ in range(INPUTS_MAX):
            if self.case.instance.has_ended:
                break
            self.case.wait(60)
            self.case.give(self._input())
            self.check()

    def _input(self) -> Input:
        resting = self._tokens("resting")
        if resting and chance(self.chooser, GOES_ON):
            return self._answer(pick(self.chooser, resting))
        return self._control()

    def _tokens(self, *states: str) -> list[Token]:
        return [token for token in self.case.instance.tokens.values() if token.state in states]

    def _answer(self, token: Token) -> Input:
        case = self.case
        node = case.plan.nodes[token.node]
        if node.kind == "wait_event" and chance(self.chooser, 60):
            return EventArrived(case.id(), step_id=token.step_id, data={"x": 1})
        if case.steps[token.step_id].resume_at is not None and chance(self.chooser, 60):
            return TimerDue(case.id(), step_id=token.step_id)
        return Advance(case.id(), ANN, pick(self.chooser, sorted(node.answers)), {}, token.node)

    def _control(self) -> Input:
        case, chooser = self.case, self.chooser
        token = pick(chooser, sorted(case.instance.tokens))
        stuck = self._tokens("resting", "failed")
        node = pick(chooser, stuck).node if stuck else "done"
        edges = [edge.id for edge in case.plan.nodes[node].everything] or ["none"]
        return pick(
            chooser,
            (
                Resume(case.id(), OPS),
                RetryInstance(case.id(), OPS),
                Resume(case.id(), OPS),
                Skip(case.id(), OPS, node, pick(chooser, edges)),
                Pause(case.id(), OPS),
                CancelToken(case.id(), OPS, token),
                Poke(case.id()),
                TimerDue(case.id(), step_id=case.id()),
                Advance(case.id(), ANN, "nonsense"),
                Expired(case.id()),
                Cancel(case.id(), ANN, "enough"),
                ForceFail(case.id(), OPS, "hopeless"),
            ),
        )

    def check(self) -> None:
        """What `Case` does not check already: that nothing runs twice, and that steps fold into what is."""
        self._check_tree()
        self._check_steps()

    def _check_tree(self) -> None:
        instance, plan = self.case.instance, self.case.plan
        roots = [token for token in instance.tokens.values() if not parent_id(token.id)]
        assert len(roots) == (0 if instance.has_ended else 1), instance.tokens
        assert not instance.has_ended or not instance.tokens
        for token in instance.tokens.values():
            assert token.node in plan.nodes
            if parent := parent_id(token.id):
                above = instance.tokens[parent]
                joining = plan.nodes[above.node].kind == "parallel_join"
                assert above.state == "split" or (above.state == "failed" and joining), (token, above)
        for token in self._tokens("split"):
            paths = [
                child.id.rpartition(".")[2].partition("~")[0] for child in instance.children_of(token.id)
            ]
            assert len(set(paths)) == len(paths) <= len(plan.nodes[token.node].everything)

    def _check_steps(self) -> None:
        steps = self.case.steps.values()
        assert set(Counter(step.key for step in steps).values()) <= {1}
        pending = {step.id for step in steps if step.status == "pending"}
        assert pending == {token.step_id for token in self._tokens("resting")}
        if self.case.instance.status == "running":
            assert not self._tokens("ready"), "whatever can go on has gone on"
            assert not self._tokens("failed"), "nothing tries a failed step of an instance that runs"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_seeded_lives(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        try:
            RandomLife(Seeded(seed)).live()
        except BaseException:
            print(f"seed {seed}")
            raise


@settings(
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_drawn_lives(data: st.DataObject) -> None:
    RandomLife(Drawn(data)).live()
