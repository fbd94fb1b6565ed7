"""The structure of a graph: order, circles, what can be reached; loops (D3); splits and joins (D22).

Walks are iterative, so that a long chain costs no stack. A patch has no loop; a flow has them where a node waits for a
person, a time or an event. The loop edges of an envelope are marked when it is generated, those of a flow here. The
other edges have an order.

Splits and joins nest, and every join gets the number of tokens that it waits for. Each node is given the branches that
it lies in, outermost first, walking in order. A split opens a branch for each of its edges, a join closes all branches
of one split; wherever else branches meet or end, a token would be lost.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from assent.compiler.draft import Branches, WorkflowDraft
from assent.model.graph import Edge, Node, NodeKind
from assent.model.nodes import KINDS
from assent.model.patch import OUT
from assent.model.problems import Problem
from assent.model.workflow import JoinRequirement


def topological_order(nodes: Iterable[str], edges: Iterable[Edge]) -> tuple[str, ...]:
    """WF-13: sources before targets, by id where edges leave a choice. Nodes in a circle are left out."""
    follows: dict[str, list[str]] = {node: [] for node in nodes}
    waiting_for = dict.fromkeys(follows, 0)
    for edge in edges:
        follows[edge.source].append(edge.target)
        waiting_for[edge.target] += 1
    ready = [node for node, count in waiting_for.items() if count == 0]
    heapify(ready)
    order = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for target in follows[node]:
            waiting_for[target] -= 1
            if waiting_for[target] == 0:
                heappush(ready, target)
    return tuple(order)


def back_edges(roots: Sequence[str], outgoing: Mapping[str, Sequence[Edge]]) -> list[Edge]:
    """Return the edges that close a circle, in a walk in depth from `roots` that asks edges in their order."""
    found: list[Edge] = []
    open_nodes: set[str] = set()
    done: set[str] = set()
    for root in roots:
        stack = [] if root in done else [(root, iter(outgoing[root]))]
        open_nodes.update(node for node, _ in stack)
        while stack:
            node, edges = stack[-1]
            edge = next(edges, None)
            if edge is None:
                stack.pop()
                open_nodes.discard(node)
                done.add(node)
            elif edge.target in open_nodes:
                found.append(edge)
            elif edge.target not in done:
                open_nodes.add(edge.target)
                stack.append((edge.target, iter(outgoing[edge.target])))
    return found


def reached(roots: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    """Return everything that steps lead to from `roots`, themselves included."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(step(node))
    return found


def path_between(source: str, target: str, outgoing: Mapping[str, Sequence[Edge]]) -> list[str]:
    """Return a shortest way from `source` to `target`, both included; empty where there is none."""
    came_from = {source: source}
    layer = [source]
    while layer and target not in came_from:
        following = []
        for node in layer:
            for edge in outgoing[node]:
                if edge.target not in came_from:
                    came_from[edge.target] = node
                    following.append(edge.target)
        layer = following
    if target not in came_from:
        return []
    way = [target]
    while way[-1] != source:
        way.append(came_from[way[-1]])
    return way[::-1]


CIRCLES_SHOWN_MAX: Final = 20
"""How many circles are reported: each takes a walk through the graph."""


def refuse_circles(draft: WorkflowDraft) -> WorkflowDraft:
    """Refuse patches that close a circle."""
    outgoing = {node: [e for e in edges if not e.loop] for node, edges in draft.outgoing().items()}
    closing = back_edges(sorted(draft.nodes), outgoing)[:CIRCLES_SHOWN_MAX]
    problems = [_circle(draft, edge, outgoing, "CYCLE", "patches do not loop") for edge in closing]
    return draft.noting(problems).evolve(knotted=bool(problems))


def mark_loops(draft: WorkflowDraft) -> WorkflowDraft:
    """Marks a flow's loop edges; a circle that waits for nothing is a problem."""
    outgoing = draft.outgoing()
    loops = {edge.id for edge in back_edges((draft.start, *sorted(draft.nodes)), outgoing)}
    edges = tuple(edge.evolve(loop=edge.id in loops) for edge in draft.edges)
    return draft.noting(_check_waits(draft, outgoing)).evolve(edges=edges)


def _check_waits(draft: WorkflowDraft, outgoing: dict[str, list[Edge]]) -> Iterator[Problem]:
    busy = {node.id for node in draft.nodes.values() if not _waits(node)}
    spinning = {node: [e for e in outgoing[node] if e.target in busy] for node in sorted(busy)}
    for edge in back_edges(list(spinning), spinning)[:CIRCLES_SHOWN_MAX]:
        yield _circle(draft, edge, spinning, "ENDLESS_LOOP", "nothing in it waits for anybody")


def _waits(node: Node) -> bool:
    """Return whether a circle may pass here. Awaited effects and tasks do not count (D30): a circle of them spins."""
    return KINDS[node.kind].waits or KINDS[node.kind].by_people


def _circle(
    draft: WorkflowDraft, edge: Edge, outgoing: dict[str, list[Edge]], code: str, why: str
) -> Problem:
    way = [*path_between(edge.target, edge.source, outgoing), edge.target]
    shown = " → ".join(draft.called(node) for node in way[:12]) + (" → …" if len(way) > 12 else "")
    return Problem(code, f"this edge closes a circle, {shown}: {why}", draft.place(edge.id))


def match_joins(draft: WorkflowDraft) -> WorkflowDraft:
    if not draft.is_walkable:
        return draft
    walk = _Walk(draft)
    walk.run()
    knotted = bool(walk.problems)
    return draft.noting(walk.problems).evolve(joins=walk.joins, branches=walk.branches, knotted=knotted)


@dataclass
class _Walk:
    draft: WorkflowDraft
    branches: dict[str, Branches] = field(default_factory=dict)
    joins: dict[str, JoinRequirement] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def run(self) -> None:
        draft = self.draft
        self.outgoing, inbound = draft.outgoing(), draft.inbound()
        self.branches = dict.fromkeys((*roots(draft), *_states_behind_loops(draft)), ())
        for node_id in topological_order(draft.nodes, [edge for edge in draft.edges if not edge.loop]):
            arrivals = [edge for edge in inbound[node_id] if self._counts(edge)]
            self._visit(draft.nodes[node_id], arrivals)
        for edge in draft.edges:
            self.problems += self._check_loop(edge)

    def _counts(self, edge: Edge) -> bool:
        # A rejection on its way out of the slot cancels the other branches, so it may leave a block.
        return edge.source in self.branches and not edge.loop and not edge.leaves_slot

    def _after(self, edge: Edge) -> Branches:
        before = self.branches[edge.source]
        if self.draft.nodes[edge.source].kind is NodeKind.PARALLEL_SPLIT:
            return (*before, (edge.source, edge.id))
        return before

    def _visit(self, node: Node, arrivals: list[Edge]) -> None:
        if node.kind is NodeKind.PARALLEL_SPLIT:
            self.problems += self._check_split(node)
        if node.kind is NodeKind.PARALLEL_JOIN and arrivals:
            self._close(node, arrivals)
        elif arrivals:
            self._meet(node, arrivals)

    def _meet(self, node: Node, arrivals: list[Edge]) -> None:
        stacks = [self._after(edge) for edge in arrivals]
        expected = self.branches.setdefault(node.id, Counter(stacks).most_common(1)[0][0])
        agree = sum(stack == expected for stack in stacks)
        for edge, stack in zip(arrivals, stacks, strict=True):
            # Among equals, it is not known which one is wrong.
            if stack != expected or agree == 1 < len(stacks):
                message = f"branches of a split meet at `{node.name}`, which is not their join"
                self._note("BRANCHES_MEET", message, edge.id)
        if expected and (node.kind is NodeKind.END or _is_way_out(node)):
            split = self.draft.called(expected[-1][0])
            message = f"a branch of `{split}` ends here, before the join of its split"
            self._note("END_IN_BLOCK", message, arrivals[0].id)

    def _close(self, node: Node, arrivals: list[Edge]) -> None:
        stacks = [self._after(edge) for edge in arrivals]
        self.branches[node.id] = stacks[0][:-1]
        outside = [edge for edge, stack in zip(arrivals, stacks, strict=True) if not stack]
        if outside:
            message = f"`{node.name}` joins branches, but this edge comes from no split"
            self._note("JOIN_WITHOUT_SPLIT", message, outside[0].id)
            return
        splits = {(*stack[:-1], (stack[-1][0], "")) for stack in stacks}
        if len(splits) > 1:
            names = sorted({self.draft.called(stack[-1][0]) for stack in stacks})
            message = (
                f"`{node.name}` joins branches of different depth or of several splits: {', '.join(names)}"
            )
            self._note("JOIN_OF_SEVERAL", message, node.id)
            return
        self._require(node, arrivals, stacks)

    def _require(self, node: Node, arrivals: list[Edge], stacks: list[Branches]) -> None:
        split = stacks[0][-1][0]
        arrived = {stack[-1][1] for stack in stacks}
        for edge in self.outgoing[split]:
            if edge.id not in arrived:
                name, first = self.draft.called(split), self.draft.called(edge.target)
                message = f"the branch of `{name}` that begins with `{first}` never arrives at `{node.name}`"
                self._note("JOIN_MISSES_BRANCH", message, node.id)
        always = {
            branch
            for branch in arrived
            if all(e.qualifies is None for e, s in zip(arrivals, stacks, strict=True) if s[-1][1] == branch)
        }
        mode = node.config["mode"]
        self.joins[node.id] = JoinRequirement(split, len(self.outgoing[split]), mode, may_be_none=not always)

    def _check_split(self, node: Node) -> Iterator[Problem]:
        edges = self.outgoing[node.id]
        if len(edges) < 2:
            message = f"a split has two branches or more, `{node.name}` has {len(edges)}"
            yield Problem("NARROW_SPLIT", message, self.draft.place(node.id))
        for edge in edges:
            if not edge.is_unconditional:
                message = f"every branch of `{node.name}` is taken; this one asks for something"
                hint = "begin the branch with a condition instead"
                yield Problem("CONDITIONAL_SPLIT", message, self.draft.place(edge.id), hint)

    def _check_loop(self, edge: Edge) -> Iterator[Problem]:
        if not edge.loop or edge.source not in self.branches or edge.target not in self.branches:
            return
        target = self.draft.nodes[edge.target]
        if self._after(edge) != self.branches[target.id] or target.kind is NodeKind.PARALLEL_JOIN:
            message = (
                f"going back to `{target.name}` would leave the branches of a split, or enter them midway"
            )
            yield Problem("LOOP_OUT_OF_BLOCK", message, self.draft.place(edge.id))

    def _note(self, code: str, message: str, key: str) -> None:
        self.problems.append(Problem(code, message, self.draft.place(key)))


def _is_way_out(node: Node) -> bool:
    return node.kind is NodeKind.SLOT and node.name == OUT


def _states_behind_loops(draft: WorkflowDraft) -> list[str]:
    """States of an envelope, such as `amended`, that only a loop edge leads to; none lies within a block."""
    return [edge.target for edge in draft.edges if edge.loop and draft.envelope is not None]


def roots(draft: WorkflowDraft) -> list[str]:
    """Return where tokens begin: at the start, and where an expired instance goes."""
    expired = draft.flow.on_timeout if draft.flow is not None else None
    return [draft.start] if expired is None or expired not in draft.nodes else [draft.start, expired]
