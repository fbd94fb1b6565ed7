"""A walk of tokens through a workflow, written against the compiled form alone and without the engine.

Whatever the tokens choose, they must all come to an end, no join may be left waiting, and no gate that needs approval
may be passed without one. Both kinds of join are played as ALL, which asks more of the graph than ANY does.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from assent.model.graph import Edge, NodeKind, Outcome
from assent.model.workflow import Workflow
from tests.properties.choosing import Chooser, pick

MOVES_MAX = 5_000
LOOPS_MAX = 3
PASS_ON = frozenset({NodeKind.SLOT, NodeKind.LIFECYCLE_GATE})
"""Kinds that do not choose: a rejection that enters leaves as a rejection."""

Token = tuple[str, bool]
"""Where it is, and whether it carries a rejection."""


@dataclass
class Game:
    workflow: Workflow
    chooser: Chooser
    tokens: list[Token] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    loops: int = 0
    approved: set[str] = field(default_factory=set)
    """The slots in which somebody approved, or nobody had to, since they were entered."""

    def play(self) -> str:
        """The end that the last token reached."""
        self.tokens = [(self.workflow.start, False)]
        for _ in range(MOVES_MAX):
            token = self.tokens.pop(self.chooser.number(0, len(self.tokens) - 1))
            node = self.workflow.nodes[token[0]]
            if node.kind is NodeKind.END:
                assert not self.tokens, f"{node.id} was reached while tokens were at {self.tokens}"
                assert not any(self.waiting.values()), f"joins were left waiting: {dict(self.waiting)}"
                return node.id
            if node.kind is NodeKind.PARALLEL_SPLIT:
                self.tokens += [(edge.target, False) for edge in self.workflow.outgoing(node.id)]
            elif node.kind is not NodeKind.PARALLEL_JOIN or self._complete(node.id):
                self._take_one(*token)
        raise AssertionError(f"no end after {MOVES_MAX} moves; tokens are at {self.tokens}")

    def _complete(self, join: str) -> bool:
        self.waiting[join] += 1
        if self.waiting[join] < self.workflow.joins[join].token_count:
            return False
        self.waiting[join] = 0
        return True

    def _take_one(self, node_id: str, rejected: bool) -> None:
        edge = self._choose(node_id, rejected)
        self.loops += edge.loop
        slot = self.workflow.slot_map[node_id]
        if edge.label == Outcome.APPROVED or self.workflow.nodes[node_id].waives_approval:
            self.approved.add(slot)
        if edge.leaves_slot:
            self._leave(slot)
        self._check_gate(edge)
        if self.workflow.nodes[edge.target].kind is NodeKind.STATE:
            self.approved.clear()
        self.tokens.append((edge.target, edge.label == Outcome.REJECTED))

    def _choose(self, node_id: str, rejected: bool) -> Edge:
        edges = self.workflow.outgoing(node_id)
        if self.workflow.nodes[node_id].kind in PASS_ON:
            edges = tuple(edge for edge in edges if (edge.label == Outcome.REJECTED) == rejected)
        assert edges, f"{node_id} leads nowhere"
        # Somebody who edits again and again is asked again and again: after some rounds nobody edits any more.
        forward = tuple(edge for edge in edges if not edge.loop and edge.label != Outcome.DRIFT)
        return pick(self.chooser, forward if self.loops >= LOOPS_MAX and forward else edges)

    def _leave(self, slot: str) -> None:
        self.tokens = [token for token in self.tokens if self.workflow.slot_map[token[0]] != slot]
        for join in self.waiting:
            if self.workflow.slot_map[join] == slot:
                self.waiting[join] = 0

    def _check_gate(self, edge: Edge) -> None:
        gate = self.workflow.nodes[edge.target]
        slot = self.workflow.slots.get(self.workflow.slot_map[edge.source])
        if gate.kind is NodeKind.LIFECYCLE_GATE and slot is not None and slot.needs_approval:
            passed = edge.label != Outcome.REJECTED
            assert not passed or slot.id in self.approved, f"{gate.id} was passed without an approval"
