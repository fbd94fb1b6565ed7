"""Large and hostile graphs: compiled or refused in bounded time, without recursion."""

from time import process_time
from typing import Any

import pytest

from assent.compiler import compile_contract, compile_flow
from assent.model.contract import contract_from
from bench.compile import long_slot, wide_flow
from tests.authored import codes, compile_slot

SECONDS_MAX = 3.0
"""Ten times what it takes here, so that only a change of the order of growth is seen."""


def test_a_flow_of_a_thousand_nodes_compiles_well_under_a_second() -> None:
    flow = wide_flow(1_000)
    began = process_time()
    workflow = compile_flow(flow).unwrap()
    assert process_time() - began < SECONDS_MAX
    assert len(workflow.nodes) > 1_000


def test_a_slot_of_a_thousand_nodes_in_a_row_compiles() -> None:
    began = process_time()
    assert compile_slot(long_slot(1_000)).workflow is not None
    assert process_time() - began < SECONDS_MAX


def test_more_nodes_than_anybody_draws_are_refused() -> None:
    assert "WRONG_TYPE" in codes(compile_slot(long_slot(2_001)))


def nested(levels: int) -> dict[str, Any]:
    """Splits within splits, closed from the inside out."""
    steps: list[dict[str, Any]] = [
        {"id": "done", "type": "terminal"},
        {"id": "core", "type": "script", "set": {"x": 1}},
    ]
    transitions = []
    for level in range(levels):
        steps += [{"id": f"s{level}", "type": "parallel_split"}, {"id": f"j{level}", "type": "parallel_join"}]
        steps.append({"id": f"x{level}", "type": "script", "set": {"x": 1}})
        inner = f"s{level + 1}" if level + 1 < levels else "core"
        after = f"j{level - 1}" if level else "done"
        transitions += [{"from": f"s{level}", "to": inner}, {"from": f"s{level}", "to": f"x{level}"}]
        transitions += [{"from": f"x{level}", "to": f"j{level}"}, {"from": f"j{level}", "to": after}]
    transitions.append({"from": "core", "to": f"j{levels - 1}"})
    return {"flow": "nested", "version": 1, "start": "s0", "steps": steps, "transitions": transitions}


def test_blocks_may_nest_deeply() -> None:
    began = process_time()
    assert len(compile_flow(nested(300)).unwrap().joins) == 300
    assert process_time() - began < SECONDS_MAX


def tangled(nodes: int) -> dict[str, Any]:
    """Every node leads back to many others, and nothing waits."""
    steps = [{"id": f"n{number}", "type": "condition"} for number in range(nodes)]
    transitions = [
        {"from": f"n{a}", "to": f"n{b}", "condition": f"workflow.n > {b}"}
        for a in range(nodes)
        for b in range(0, nodes, 8)
    ]
    return {"flow": "tangled", "version": 1, "start": "n0", "steps": steps, "transitions": transitions}


def test_a_tangle_is_refused_quickly_with_a_bounded_list_of_circles() -> None:
    began = process_time()
    found = codes(compile_flow(tangled(120)))
    assert process_time() - began < 2 * SECONDS_MAX
    assert 0 < found.count("ENDLESS_LOOP") <= 20


@pytest.mark.parametrize("states", [100])
def test_a_long_lifecycle_has_its_envelope_in_time(states: int) -> None:
    names = [f"s{number}" for number in range(states)]
    lifecycle = {
        "initial": "s0",
        "states": {name: {"edit": "editable"} for name in names},
        "transitions": {
            **{f"t{n}": {"from": names[n], "to": names[n + 1]} for n in range(states - 1)},
            **{f"b{n}": {"from": names[n + 1], "to": names[n]} for n in range(states - 1)},
            "cancel": {"from": names[:-1], "to": names[-1]},
        },
    }
    lifecycle["states"][names[-1]] = {"edit": "locked"}  # type: ignore[index]
    declared = contract_from({"contract": "long", "version": 1, "lifecycle": lifecycle})
    began = process_time()
    assert compile_contract(declared).workflow is not None
    assert process_time() - began < SECONDS_MAX
