"""WF-13: the topological order is one and the same; where edges leave a choice, ids decide."""

import random
from itertools import pairwise

import pytest

from assent.compiler import compile_effective
from assent.compiler.structure import topological_order
from assent.model.graph import Edge
from tests.authored import compile_steps, invoice_envelope, invoice_patch


def edge(source: str, target: str) -> Edge:
    return Edge(f"{source}->{target}", source, target, "completed", 0)


DIAMOND = [edge("a", "c"), edge("a", "b"), edge("b", "d"), edge("c", "d")]


def test_equal_nodes_are_ordered_by_id() -> None:
    assert topological_order("dcba", DIAMOND) == ("a", "b", "c", "d")


def test_ids_decide_among_all_nodes_that_are_ready() -> None:
    """A node that becomes ready late goes before one that was ready early, if its id is lower."""
    assert topological_order("azbc", [edge("a", "b")]) == ("a", "b", "c", "z")


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_nodes_and_edges_in_the_input_does_not_matter(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311
    nodes = [f"n{number}" for number in range(30)]
    edges = [edge(f"n{a}", f"n{b}") for a in range(30) for b in range(a + 1, 30) if random_.random() < 0.1]
    expected = topological_order(nodes, edges)
    random_.shuffle(nodes)
    random_.shuffle(edges)
    assert topological_order(nodes, edges) == expected


def test_every_edge_but_a_loop_goes_forward() -> None:
    workflow = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    rank = {node: number for number, node in enumerate(workflow.topological_order)}
    assert set(rank) == set(workflow.nodes)
    for found in workflow.edges.values():
        assert found.loop or rank[found.source] < rank[found.target]


def test_the_order_is_the_smallest_that_the_edges_allow() -> None:
    steps = [{"id": name, "type": "action"} for name in ("m", "z", "b", "a")]
    steps.append({"id": "done", "type": "terminal"})
    transitions = [
        {"from": "m", "to": "z", "event": "left"},
        {"from": "m", "to": "b", "event": "right"},
        {"from": "b", "to": "a"},
        {"from": "z", "to": "done"},
        {"from": "a", "to": "done"},
    ]
    workflow = compile_steps(steps, transitions).unwrap()
    assert workflow.topological_order == ("sys:start", "m", "b", "a", "z", "done")


def test_a_long_chain_is_ordered_without_recursion() -> None:
    nodes = [f"n{number:05}" for number in range(20_000)]
    edges = [edge(first, second) for first, second in pairwise(nodes)]
    assert topological_order(nodes, edges) == tuple(nodes)
