"""What authors wrote, as tests use it: files read with their positions, flows of a few steps, and both compiled."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

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


END: Final = {"id": "end", "type": "terminal"}


def script(name: str, **sets: Any) -> dict[str, Any]:
    return {"id": name, "type": "script", "set": sets or {name: "true"}}


def form(name: str, **rest: Any) -> dict[str, Any]:
    return {"id": name, "type": "action", **rest}


def call(name: str, operation: str, **rest: Any) -> dict[str, Any]:
    return {"id": name, "type": "system", "operation": {"sdk": operation}, **rest}


def arrows(*names: str, event: str = "completed") -> list[dict[str, Any]]:
    """Return the transitions from each of these steps to the next."""
    return [{"from": a, "event": event, "to": b} for a, b in pairwise(names)]


def line(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return arrows(*[step["id"] for step in steps])


def flow_of(
    key: str, steps: list[dict[str, Any]], transitions: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return a flow that begins with the first of these steps."""
    flow = {"flow": key, "version": 1, "start": steps[0]["id"], "steps": steps, "transitions": transitions}
    return {**flow, **more}


def compile_slot(slot: Mapping[str, Any], slot_id: str = "slot:submitted_to_approved") -> Compilation:
    """The invoice's envelope with one slot filled."""
    base = {"entity_type": "invoice", "envelope_version": 1}
    return compile_effective(invoice_envelope(), {"patch": "test", "base": base, "slots": {slot_id: slot}})


def compile_steps(steps: list[dict[str, Any]], transitions: list[dict[str, Any]], **more: Any) -> Compilation:
    """Compile a flow that begins with the first of these steps."""
    return compile_flow(flow_of("test", steps, transitions, **more))


def codes(compilation: Compilation) -> list[str]:
    return [problem.code for problem in compilation.problems]


def node(workflow: Workflow, name: str) -> str:
    """The id of the one node that its author called `name`."""
    (found,) = [node.id for node in workflow.nodes.values() if node.name == name]
    return found
