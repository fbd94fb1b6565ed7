"""Milliseconds per compilation: the design's examples, the templates, and workflows of a thousand nodes."""

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from time import process_time_ns
from typing import Any, Final

from assent.compiler import Compilation, compile_contract, compile_effective, compile_flow, generate_envelope
from assent.compiler.source import read_source
from assent.model.contract import contract_from
from bench.report import BenchReport, Measurement

RUNS: Final = 7
NODES: Final = 1_000
MILLISECONDS_MAX: Final = 500
"""What a workflow of a thousand nodes may take: well under a second."""


def measure() -> BenchReport:
    cases: list[tuple[str, Callable[[], Compilation]]] = [
        *_templates(),
        ("flow of 1,000 nodes", partial(compile_flow, wide_flow(NODES))),
        _patched_envelope(),
    ]
    measured = [_measured(name, run) for name, run in cases]
    largest = max(m.median for m in measured if "1,000" in m.case)
    return BenchReport(
        "compile",
        "Compiling: CPU milliseconds from plain data to a hashed workflow",
        measured,
        {"1,000 nodes within": f"{MILLISECONDS_MAX} ms: {'yes' if largest <= MILLISECONDS_MAX else 'no'}"},
    )


def _measured(name: str, run: Callable[[], Compilation]) -> Measurement:
    workflow = run().unwrap()
    runs = []
    for _ in range(RUNS):
        began = process_time_ns()
        run()
        runs.append((process_time_ns() - began) / 1e6)
    return Measurement(name, "ms", runs, {"nodes": len(workflow.nodes), "edges": len(workflow.edges)})


def _templates() -> list[tuple[str, Callable[[], Compilation]]]:
    library = Path(str(files("assent.templates")))
    contract = _data(library / "invoice_approval" / "contract.yaml")
    envelope = generate_envelope(contract_from(contract))
    patch = _data(library / "invoice_approval" / "patch.yaml")
    flow = _data(library / "settlement" / "flow.yaml")
    return [
        ("invoice approval, contract", partial(compile_contract, contract)),
        ("invoice approval, patch", partial(compile_effective, envelope, [patch])),
        ("settlement, flow", partial(compile_flow, flow)),
    ]


def _data(file: Path) -> Any:
    return read_source(file.read_text(encoding="utf-8"), file.name).data


def wide_flow(nodes: int) -> dict[str, Any]:
    """Blocks one after the other: a choice, a split into three, a join, an approval that may go back."""
    steps: list[dict[str, Any]] = []
    transitions: list[dict[str, Any]] = []
    blocks = nodes // 8
    for number in range(blocks):
        names = [f"{kind}_{number}" for kind in ("choice", "fork", "a", "b", "c", "meet", "ask", "note")]
        choice, fork, a, b, c, meet, ask, note = names
        following = f"choice_{number + 1}" if number + 1 < blocks else "done"
        steps += [{"id": choice, "type": "condition"}, {"id": fork, "type": "parallel_split"}]
        steps += [{"id": name, "type": "script", "set": {"x": "workflow.y"}} for name in (a, b, c, note)]
        steps += [
            {"id": meet, "type": "parallel_join"},
            {"id": ask, "type": "approval", "assignee": {"role": "x"}},
        ]
        condition = f"workflow.amount > {number} && workflow.kind == 'large'"
        transitions += [{"from": choice, "to": fork, "condition": condition}, {"from": choice, "to": note}]
        transitions += [{"from": fork, "to": name} for name in (a, b, c)]
        transitions += [{"from": name, "to": meet} for name in (a, b, c)]
        transitions += [{"from": meet, "to": ask}, {"from": note, "to": following}]
        transitions += [{"from": ask, "to": following}, {"from": ask, "event": "rejected", "to": choice}]
    steps.append({"id": "done", "type": "terminal"})
    return {"flow": "wide", "version": 1, "start": "choice_0", "steps": steps, "transitions": transitions}


def long_slot(nodes: int) -> dict[str, Any]:
    """A slot that is one chain of approvals."""
    names = [f"a{number}" for number in range(nodes)]
    declared = [{"id": name, "type": "approval", "approvers": {"role": "x"}} for name in names]
    ends = ["in", *names, "out"]
    edges = [{"from": first, "to": second} for first, second in pairwise(ends)]
    return {"nodes": declared, "edges": edges}


def _patched_envelope() -> tuple[str, Callable[[], Compilation]]:
    library = Path(str(files("assent.templates")))
    envelope = generate_envelope(contract_from(_data(library / "invoice_approval" / "contract.yaml")))
    base = {"entity_type": "invoice", "envelope_version": envelope.version}
    patch = {"patch": "long", "base": base, "slots": {"slot:submitted_to_approved": long_slot(NODES)}}
    return "slot of 1,000 approvals", partial(compile_effective, envelope, [patch])
