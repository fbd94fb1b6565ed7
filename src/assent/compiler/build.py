"""The last steps: one order of everything (WF-12, WF-13), the compiled form, and its hash (WF-07)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from assent.compiler.draft import WorkflowDraft
from assent.compiler.publish_rights import capabilities_of, required_capabilities
from assent.compiler.structure import topological_order
from assent.model.terms import seconds_of
from assent.model.workflow import Expiry, GateIntegrity, Workflow

COMPILER_VERSION: Final = "1.2.0"
"""Raise it with every change of what comes out; published workflows are stale then, until compiled again."""

V = TypeVar("V")


def put_in_order(draft: WorkflowDraft) -> WorkflowDraft:
    """Return nodes and edges by id, and the one topological order."""
    nodes = _sorted(draft.nodes)
    edges = tuple(sorted(draft.edges, key=lambda edge: edge.id))
    order = topological_order(nodes, [edge for edge in edges if not edge.loop])
    return draft.evolve(nodes=nodes, edges=edges, order=order)


def note_capabilities(draft: WorkflowDraft) -> WorkflowDraft:
    """Note the capabilities that publishing it takes (D29); see `assent.compiler.publish_rights`."""
    needs = required_capabilities(draft.nodes.values(), relaxed_here=draft.flow is not None)
    return draft.evolve(publish_capabilities=capabilities_of(needs))


def build(draft: WorkflowDraft) -> Workflow:
    """Return the workflow of a draft without problems."""
    return _effective(draft) if draft.envelope is not None else _flow(draft)


def _effective(draft: WorkflowDraft) -> Workflow:
    envelope = draft.envelope
    assert envelope is not None
    gates = tuple(sorted(envelope.nodes))
    integrity = GateIntegrity(gates, tuple(node for node in gates if node in draft.nodes))
    return hashed(
        Workflow(
            kind="effective",
            key=envelope.entity_type,
            version=envelope.version,
            name=envelope.contract.label,
            entity_type=envelope.entity_type,
            envelope_version=envelope.version,
            gate_integrity=integrity,
            amendment=envelope.amendment,
            **_graph(draft),
        )
    )


def _flow(draft: WorkflowDraft) -> Workflow:
    flow = draft.flow
    assert flow is not None
    expiry = Expiry(seconds_of(flow.timeout), flow.on_timeout) if flow.timeout else None
    return hashed(
        Workflow(
            kind="flow",
            key=flow.flow,
            version=flow.version,
            name=flow.name,
            entity_type=flow.entity,
            expiry=expiry,
            capabilities=tuple(sorted(set(flow.capabilities))),
            readers=tuple(sorted(set(flow.permissions.read))),
            **_graph(draft),
        )
    )


def _graph(draft: WorkflowDraft) -> dict[str, Any]:
    """Return what both kinds of workflow have."""
    return {
        "nodes": draft.nodes,
        "edges": {edge.id: edge for edge in draft.edges},
        "start": draft.start,
        "topological_order": draft.order,
        "edit_windows": _sorted(draft.windows),
        "stable_nodes": draft.stable,
        "slots": _sorted(draft.slots),
        "slot_map": _sorted(draft.slot_map),
        "joins": _sorted(draft.joins),
        "publish_capabilities": draft.publish_capabilities,
        "compiler_version": COMPILER_VERSION,
    }


def _sorted(mapping: Mapping[str, V]) -> dict[str, V]:
    return {key: mapping[key] for key in sorted(mapping)}


def hashed(workflow: Workflow) -> Workflow:
    return replace(workflow, hash=workflow.content_hash())


def verify_hash(workflow: Workflow) -> bool:
    """WF-07: whether the workflow is what was hashed."""
    return workflow.hash == workflow.content_hash()


def is_stale(workflow: Workflow) -> bool:
    """Return whether another version of the compiler made it; such a workflow is compiled again before it runs."""
    return workflow.compiler_version != COMPILER_VERSION
