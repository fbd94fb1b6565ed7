"""Driving the pure engine without a database: what the runtime does, minus making it true."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from assent.compiler import compile_flow
from assent.engine.apply import next_visit
from assent.engine.evolve import fold
from assent.engine.inputs import Advance, Input, Start
from assent.engine.instance import Instance, Step
from assent.engine.nodes.base import CheckEventKey, FindPeople
from assent.engine.plan import Plan, plan_of
from assent.engine.run import Offered, Run
from assent.engine.visit import World
from assent.model.actor import SYSTEM, Actor
from assent.model.approval import ApprovalRequest, Delegation, FoundGroup, FoundPeople, Person, Presence
from assent.model.form import FormRequest
from assent.model.ids import new_id
from assent.model.job import Effect
from assent.model.mutation import KeyedEvent, Rejection
from assent.model.outside_request import OutsideRequest

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
ANN = Actor("ann", roles=frozenset({"clerk"}))
OPS = Actor("ops", capabilities=frozenset({"workflows:*"}))
"""An operator."""

Functions = Mapping[str, Callable[[Mapping[str, Any]], Any]]


def flow(steps: list[dict[str, Any]], transitions: list[dict[str, Any]], **rest: Any) -> Plan:
    """The plan of a flow; ends with no transitions of their own are terminals."""
    source = {"flow": "test.flow", "version": 1, "start": steps[0]["id"], "steps": steps}
    compiled = compile_flow({**source, "transitions": transitions, **rest})
    assert compiled.workflow is not None, "\n".join(map(str, compiled.problems))
    return plan_of(compiled.workflow)


class Everybody(Presence):
    """A roll on which everybody is, as whatever they were asked, but those who have left."""

    def __init__(self, gone: Collection[str] = ()) -> None:
        object.__setattr__(self, "present", frozenset((name, None) for name in gone))

    def has(self, user_id: str, role: str | None = None) -> bool:
        return (user_id, None) not in self.present


class EngineCase:
    """One instance, its inputs and its steps."""

    def __init__(
        self, plan: Plan, functions: Functions | None = None, chain_steps_max: int | None = None
    ) -> None:
        self.plan = plan
        self.functions = functions or {}
        self.now = NOW
        self.chain_steps_max = chain_steps_max
        self.instance = Instance("acme", UUID(int=1), "ann", NOW)
        self.steps: dict[UUID, Step] = {}
        self.receipts: set[str] = set()
        self.people: dict[str, tuple[str, ...]] = {}
        """Role → who has it."""
        self.delegations: dict[str, tuple[Delegation, ...]] = {}
        self.gone: set[str] = set()
        """Who has left meanwhile."""
        self.requests: dict[UUID, ApprovalRequest] = {}
        self.forms: dict[UUID, FormRequest] = {}
        self.effects: list[Effect] = []
        self.asks: list[OutsideRequest] = []
        self.events: list[KeyedEvent] = []
        self.signed_keys: set[str] = set()
        """The keys that sources of signed events own."""
        self.times: dict[UUID | None, datetime | None] = {}

    def id(self) -> UUID:
        return new_id(self.now)

    def start(self, **data: Any) -> "EngineCase":
        assert self.give(Start(self.id(), ANN, data)) == "accepted"
        return self

    def advance(self, event: str = "completed", actor: Actor = ANN, **rest: Any) -> Offered:
        return self.give(Advance(self.id(), actor, event, **rest))

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def give(self, given: Input) -> Offered:
        asked = {"requests": self._requests(), "forms": self._forms()}
        world = World(self.now, **asked, delegations=self.delegations, roll=Everybody(self.gone))
        run = Run(self.plan, self.instance, world, deque([given]), self.chain_steps_max)
        while (visit := next_visit(run)) is not None:
            assert visit.key not in self.receipts, f"{visit.node.id} would run twice"
            self.receipts.add(visit.key)
            need = run.perform(visit)
            if need is not None:
                run.answer(visit, self._fulfil(need))
        for step in run.steps:
            self.steps[step.id] = step
        self.requests |= {request.id: request for request in world.requests.values()}
        self.forms |= world.forms
        self.effects += [effect for _, effect in run.effects]
        self.asks += run.asks
        self.events += [event for _, event in run.events]
        self.times |= {token.step_id: stay.resume_at for token, stay in run.stays}
        self.check()
        return run.outcomes[0][1]

    def _requests(self) -> dict[UUID, ApprovalRequest]:
        now = [r for r in self.requests.values() if r.generation == self.instance.generation]
        return {request.step_id: request for request in now}

    def _forms(self) -> dict[UUID, FormRequest]:
        resting = {token.step_id for token in self.instance.tokens.values()}
        return {step: form for step, form in self.forms.items() if step in resting}

    def _find(self, need: FindPeople) -> FoundPeople:
        groups = []
        for wanted in need.groups:
            names = [n for name in wanted.seek.names for n in self.people.get(name, (name,))]
            people = tuple(
                Person(name, wanted.seek.strategy, f"{name}@acme.example") for name in names if name
            )
            groups.append(FoundGroup(wanted.name, people, wanted.mode, wanted.quorum))
        return FoundPeople(tuple(groups))

    def _fulfil(self, need: Any) -> Any:
        if isinstance(need, FindPeople):
            return self._find(need)
        if isinstance(need, CheckEventKey):
            return Rejection("KEY_IS_SIGNED", need.key) if need.key in self.signed_keys else None
        try:
            return self.functions[need.name](need.arguments)
        except Exception as error:
            return Rejection("FAILED", str(error))

    def check(self) -> None:
        """WF-15: what is folded from the steps is what is."""
        rebuilt = fold(self.plan, Instance("acme", UUID(int=1), "ann", NOW), self.steps.values())
        assert rebuilt == self.instance

    @property
    def resting(self) -> list[str]:
        return sorted(
            self.plan.nodes[token.node].node.name
            for token in self.instance.tokens.values()
            if token.state == "resting"
        )

    def trace(self, status: str = "completed") -> list[str]:
        """The names of the nodes whose steps ended so, in the order in which they did."""
        ended = [
            step for step in self.steps.values() if step.status == status and step.node_type != "control"
        ]
        return [
            self.plan.nodes[step.node_id].node.name for step in sorted(ended, key=lambda s: s.output["n"])
        ]

    def step_of(self, name: str) -> Step:
        return next(s for s in self.steps.values() if s.node_id == name)


__all__ = ["ANN", "NOW", "SYSTEM", "EngineCase", "flow"]
