"""WF-12: the same inputs give the same workflow, in any process and in whatever order they are written."""

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from assent.compiler import compile_contract, compile_effective, compile_flow, generate_envelope
from assent.model.contract import contract_from
from assent.model.workflow import Workflow
from tests.authored import DESIGN, data_of, invoice_envelope, invoice_patch, orders_flow


def shuffled(value: Any, random_: random.Random) -> Any:
    """The same declaration in another order, of keys and of lists; none of these lists means its order."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, random_)) for key, item in value.items()]
        random_.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        items_ = [shuffled(item, random_) for item in value]
        random_.shuffle(items_)
        return items_
    return value


def test_compiling_twice_gives_one_hash() -> None:
    first, second = (compile_effective(invoice_envelope(), invoice_patch()).unwrap() for _ in range(2))
    assert first == second
    assert first.hash == second.hash


@pytest.mark.parametrize("seed", range(25))
def test_the_order_of_the_source_changes_nothing(seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311
    contract = contract_from(shuffled(data_of(DESIGN / "invoice.contract.yaml"), random_))
    envelope = generate_envelope(contract)
    patched = compile_effective(envelope, shuffled(invoice_patch(), random_)).unwrap()
    assert patched.hash == compile_effective(invoice_envelope(), invoice_patch()).unwrap().hash
    flow = compile_flow(shuffled(orders_flow(), random_)).unwrap()
    assert flow.hash == compile_flow(orders_flow()).unwrap().hash


def test_nodes_and_edges_are_kept_by_id() -> None:
    workflow = compile_effective(invoice_envelope(), invoice_patch()).unwrap()
    for mapping in (workflow.nodes, workflow.edges, workflow.edit_windows, workflow.slot_map, workflow.slots):
        assert list(mapping) == sorted(mapping)


COMPILE_HERE = """
from tests.invariants.test_wf_12_deterministic import all_workflows
for workflow in all_workflows():
    print(workflow.hash, ",".join(workflow.topological_order))
"""


def all_workflows() -> list[Workflow]:
    return [
        compile_contract(data_of(DESIGN / "invoice.contract.yaml")).unwrap(),
        compile_effective(invoice_envelope(), invoice_patch()).unwrap(),
        compile_flow(orders_flow()).unwrap(),
    ]


def in_another_process(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE_HERE], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_other_processes_with_other_hash_seeds_compile_the_same() -> None:
    expected = "".join(f"{w.hash} {','.join(w.topological_order)}\n" for w in all_workflows())
    assert {in_another_process(seed) for seed in ("0", "4242")} == {expected}
