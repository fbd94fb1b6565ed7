"""Random patches and flows that must compile: steps, choices and blocks, nested and one after the other.

A fragment is entered at one node and left by ends that the next fragment takes up, so whatever is built is sound.
"""

from dataclasses import dataclass, field
from typing import Any

from assent.model.graph import Envelope
from tests.properties.choosing import Chooser, chance, pick, shuffled
from tests.properties.generated_asking import asking

End = dict[str, Any]
"""An edge that has no target yet."""

CONDITIONS = (
    "workflow.n > 3",
    "workflow.kind == 'a' && workflow.n <= 10",
    "workflow.list contains 'x' || !(workflow.n >= 2)",
    "actor.roles contains 'clerk'",
)


@dataclass
class Fragment:
    entry: str
    ends: list[End]


@dataclass
class GraphBuilder:
    """Collects nodes and edges; in a flow the words for them are the flow's."""

    chooser: Chooser
    is_flow: bool = False
    rejections_leave: bool = False
    """Whether an approval may leave `rejected` unanswered, as before a gate (D20)."""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    """Those outside of blocks, from which a flow may go back."""
    open_blocks: int = 0

    def node(self, kind: str, **more: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append({"id": name, "type": kind, **more})
        return name

    def end(self, source: str, label: str | None = None, condition: str | None = None) -> End:
        found: End = {"from": source}
        if label is not None:
            found["event" if self.is_flow else "on"] = label
        if condition is not None:
            found["condition" if self.is_flow else "when"] = condition
        return found

    def join(self, ends: list[End], target: str) -> None:
        for end in ends:
            edge = end | {"to": target}
            if edge not in self.edges:
                self.edges.append(edge)

    def fragment(self, depth: int) -> Fragment:
        sort = self.chooser.number(0, 5 if depth > 0 else 2)
        if sort <= 2:
            return self.step()
        return (self.sequence, self.choice, self.block)[sort - 3](depth - 1)

    def sequence(self, depth: int) -> Fragment:
        first = self.fragment(depth)
        ends = first.ends
        for _ in range(self.chooser.number(1, 2)):
            following = self.fragment(depth)
            self.join(ends, following.entry)
            ends = following.ends
        return Fragment(first.entry, ends)

    def choice(self, depth: int) -> Fragment:
        entry = self.node("condition")
        ends: list[End] = []
        for number in range(self.chooser.number(1, 2)):
            ends += self._option(entry, depth, f"workflow.n > {number}")
        ends += self._option(entry, depth, None)
        return Fragment(entry, ends)

    def _option(self, entry: str, depth: int, condition: str | None) -> list[End]:
        end = self.end(entry, condition=condition)
        if chance(self.chooser, 25):
            return [end]
        inner = self.fragment(depth)
        self.join([end], inner.entry)
        return inner.ends

    def block(self, depth: int) -> Fragment:
        split = self.node("parallel_split")
        self.open_blocks += 1
        branches = [self.fragment(depth) for _ in range(self.chooser.number(2, 3))]
        mode = pick(self.chooser, ("all", "any"))
        asks = mode == "any" and chance(self.chooser, 40)
        if mode == "any":
            branches = [self._with_one_end(branch) for branch in branches]
        self.open_blocks -= 1
        join = self.node("parallel_join", mode=mode)
        for branch in branches:
            self.join([self.end(split)], branch.entry)
            self.join([end | self._qualified() for end in branch.ends] if asks else branch.ends, join)
        return Fragment(split, [self.end(join), *([self.end(join, "none")] if asks else [])])

    def _with_one_end(self, branch: Fragment) -> Fragment:
        """Into an ANY join conditions qualify and do not choose, so a choice needs a step before it."""
        last = self._plain()
        self.join(branch.ends, last.entry)
        return Fragment(branch.entry, last.ends)

    def _qualified(self) -> dict[str, str]:
        return {"condition" if self.is_flow else "when": pick(self.chooser, CONDITIONS)}

    def step(self) -> Fragment:
        return getattr(self, f"_{pick(self.chooser, STEPS)}")()  # type: ignore[no-any-return]

    def _plain(self) -> Fragment:
        name = self.node(**pick(self.chooser, PLAIN))
        return Fragment(name, [self.end(name)])

    def _wait(self) -> Fragment:
        timed = chance(self.chooser, 50)
        name = self.node("wait_event", key="k:{workflow.id}", **({"timeout": "3d"} if timed else {}))
        return Fragment(name, [self.end(name), *([self.end(name, "timeout")] if timed else [])])

    def _form(self) -> Fragment:
        name = self.node("form", assignee={"role": "clerk"})
        if not self.open_blocks:
            self.forms.append(name)
        return Fragment(name, [self.end(name, pick(self.chooser, ("completed", "sent")))])

    def _call(self) -> Fragment:
        name = self.node("system", operation={"sdk": "a.b"}, output={"x": "result.x"})
        fails = chance(self.chooser, 30)
        return Fragment(name, [self.end(name), *([self.end(name, "error")] if fails else [])])

    def approval(self) -> Fragment:
        name = self.node("approval", **asking(self.chooser))
        answered = not self.rejections_leave or chance(self.chooser, 10)
        ends = [self.end(name, "approved")]
        return Fragment(name, [*ends, self.end(name, "rejected")] if answered else ends)

    _approval = approval

    def waiver(self) -> Fragment:
        name = self.node("script", set={"lane": "'fast'"}, waives_approval=True)
        return Fragment(name, [self.end(name)])


STEPS = ("plain", "plain", "wait", "form", "call", "approval")
PLAIN: tuple[dict[str, Any], ...] = (
    {"kind": "script", "set": {"n": "workflow.n", "k": 3}},
    {"kind": "notification", "channel": "email", "to": "{workflow.to}", "text": "Hello {actor.id}"},
    {"kind": "wait_timer", "for": "15m"},
    {"kind": "webhook_out", "url": "https://example.org/{workflow.id}", "body": {"n": ["{workflow.n}"]}},
    {"kind": "task", "task": "files.enrich", "input": {"id": "workflow.id"}},
    {"kind": "rule", "rule": "credit"},
    {"kind": "policy_gate", "capability": "orders:ship"},
    {"kind": "requirements", "requirements": [{"type": "requirement_satisfied", "doc_type": "passport"}]},
)


def patch(chooser: Chooser, envelope: Envelope) -> dict[str, Any]:
    """A patch that fills some of the envelope's slots."""
    slots = {}
    for slot in envelope.slots.values():
        if slot.enabled and chance(chooser, 60):
            slots[slot.id] = _slot(chooser, gate=slot.ends_in_gate, approval=slot.needs_approval)
    base = {"entity_type": envelope.entity_type, "envelope_version": envelope.version}
    return {"patch": "generated", "base": base, "slots": slots}


def _slot(chooser: Chooser, *, gate: bool, approval: bool) -> dict[str, Any]:
    builder = GraphBuilder(chooser, rejections_leave=gate)
    inner = builder.fragment(chooser.number(0, 2))
    builder.join([builder.end("in")], inner.entry)
    ends = inner.ends
    if approval:
        last = builder.approval() if chance(chooser, 80) else builder.waiver()
        builder.join(ends, last.entry)
        ends = last.ends
    builder.join(ends, "out")
    return {"nodes": shuffled(chooser, builder.nodes), "edges": shuffled(chooser, builder.edges)}


def flow(chooser: Chooser) -> dict[str, Any]:
    """A flow that may go back by its forms, and may expire."""
    builder = GraphBuilder(chooser, is_flow=True)
    inner = builder.sequence(chooser.number(0, 2))
    for form in builder.forms:
        if chance(chooser, 50):
            builder.join([builder.end(form, "again")], inner.entry)
    builder.join(inner.ends, "done")
    steps = [*builder.nodes, {"id": "done", "type": "terminal"}]
    made: dict[str, Any] = {"flow": "generated.flow", "version": 1, "start": inner.entry}
    if chance(chooser, 30):
        steps.append({"id": "late", "type": "terminal"})
        made |= {"timeout": "9d", "on_timeout": "late"}
    return made | {"steps": shuffled(chooser, steps), "transitions": shuffled(chooser, builder.edges)}
