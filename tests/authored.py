"""What authors wrote, as tests use it: files read with their positions, and compiled."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from assent.compiler import Compilation, compile_effective, compile_flow, generate_envelope
from assent.compiler.source import Source, read_source
from assent.model.contract import Contract, contract_from
from assent.model.graph import Envelope
from assent.model.workflow import Workflow

DATA = Path(__file__).parent / "data"
DESIGN = DATA / "design"


def read(file: Path) -> Source:
    source = read_source(file.read_text(encoding="utf-8"), file.name)
    assert not source.problems, source.problems
    return source


def data_of(file: Path) -> Any:
    return read(file).data


@cache
def invoice_contract() -> Contract:
    return contract_from(data_of(DESIGN / "invoice.contract.yaml"))


@cache
def invoice_envelope() -> Envelope:
    return generate_envelope(invoice_contract())


def invoice_patch() -> dict[str, Any]:
    """The design's patch, fresh each time so that a test may break it."""
    patch: dict[str, Any] = data_of(DESIGN / "invoice.patch.yaml")
    return patch


def orders_flow() -> dict[str, Any]:
    flow: dict[str, Any] = data_of(DESIGN / "orders.flow.yaml")
    return flow


def compile_slot(slot: Mapping[str, Any], slot_id: str = "slot:submitted_to_approved") -> Compilation:
    """The invoice's envelope with one slot filled."""
    base = {"entity_type": "invoice", "envelope_version": 1}
    return compile_effective(invoice_envelope(), {"patch": "test", "base": base, "slots": {slot_id: slot}})


def compile_steps(steps: list[dict[str, Any]], transitions: list[dict[str, Any]], **more: Any) -> Compilation:
    """A flow that begins with its first step."""
    flow = {"flow": "test", "version": 1, "start": steps[0]["id"], "steps": steps, "transitions": transitions}
    return compile_flow({**flow, **more})


def codes(compilation: Compilation) -> list[str]:
    return [problem.code for problem in compilation.problems]


def node(workflow: Workflow, name: str) -> str:
    """The id of the one node that its author called `name`."""
    (found,) = [node.id for node in workflow.nodes.values() if node.name == name]
    return found
