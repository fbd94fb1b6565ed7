"""D22: splits and joins nest. Gives every join the number of tokens that it waits for.

Each node is given the branches that it lies in, outermost first, walking in order. A split opens a branch for
each of its edges, a join closes all branches of one split; wherever else branches meet or end, a token would
be lost.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from assent.compiler.draft import Branches, WorkflowDraft
from assent.compiler.walk import topological_order
from assent.model.graph import Edge, Node, NodeKind
from assent.model.patch import OUT
from assent.model.problems import Problem
from assent.model.workflow import JoinRequirement


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
    """Where tokens begin: at the start, and where an expired instance goes."""
    expired = draft.flow.on_timeout if draft.flow is not None else None
    return [draft.start] if expired is None or expired not in draft.nodes else [draft.start, expired]
