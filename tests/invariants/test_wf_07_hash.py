"""WF-07, the compiler's part: a workflow is what was hashed, and knows which compiler made it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from assent.compiler import COMPILER_VERSION, compile_effective, compile_flow, is_stale, verify_hash
from assent.model.workflow import Workflow
from tests.authored import DATA, invoice_envelope, invoice_patch, orders_flow
from tests.golden import assert_golden

SLOT = "slot:submitted_to_approved"


def invoice() -> Workflow:
    return compile_effective(invoice_envelope(), invoice_patch()).unwrap()


def workflows() -> dict[str, Workflow]:
    return {
        "bare invoice": compile_effective(invoice_envelope()).unwrap(),
        "invoice": invoice(),
        "orders.approval": compile_flow(orders_flow()).unwrap(),
    }


def test_the_design_s_examples_compile_to_their_golden_hashes() -> None:
    hashes = {name: workflow.hash for name, workflow in workflows().items()}
    assert_golden(DATA / "golden_hashes.json", json.dumps(hashes, indent=2) + "\n")


def test_a_workflow_that_went_through_json_still_has_its_hash() -> None:
    for workflow in workflows().values():
        again = Workflow.from_json(json.loads(json.dumps(workflow.to_json())))
        assert verify_hash(again)
        assert again == workflow


def _alterations(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every leaf of a JSON value."""
    if isinstance(data, dict | list) and data:
        items = data.items() if isinstance(data, dict) else enumerate(data)
        return [found for key, value in items for found in _alterations(value, (*path, key))]
    return [path]


DERIVED = (("adjacency",), ("reverse_adjacency",), ("gate_integrity", "valid"))
"""Not read back but derived from the rest, so altering them alters nothing that runs."""


def test_altering_any_leaf_of_a_stored_workflow_is_seen() -> None:
    stored = json.dumps(invoice().to_json())
    for path in _alterations(json.loads(stored)):
        if any(path[: len(derived)] == derived for derived in DERIVED):
            continue
        data = json.loads(stored)
        _alter(data, path)
        assert not _verifies(data), path


def _alter(data: Any, path: tuple[Any, ...]) -> None:
    for key in path[:-1]:
        data = data[key]
    value = data[path[-1]]
    data[path[-1]] = (
        (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int) else "altered"
    )


def _verifies(data: Any) -> bool:
    try:
        return verify_hash(Workflow.from_json(data))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def test_altering_the_workflow_itself_is_seen() -> None:
    workflow = invoice()
    assert not verify_hash(replace(workflow, version=2))
    assert not verify_hash(replace(workflow, stable_nodes=frozenset()))
    assert not verify_hash(replace(workflow, hash="0" * 64))


@pytest.mark.parametrize("version", ["0.9.0", "1.0.1", "", f"{COMPILER_VERSION} "])
def test_a_workflow_of_another_compiler_is_stale(version: str) -> None:
    assert is_stale(replace(invoice(), compiler_version=version))
    assert not is_stale(invoice())


def test_the_compiler_s_version_is_part_of_what_is_hashed() -> None:
    assert not verify_hash(replace(invoice(), compiler_version="0.9.0"))


def test_different_inputs_have_different_hashes() -> None:
    patch = invoice_patch()
    patch["slots"][SLOT]["nodes"][2]["due"] = "25h"
    other = compile_effective(invoice_envelope(), patch).unwrap()
    assert len({invoice().hash, other.hash, *(workflow.hash for workflow in workflows().values())}) == 4
