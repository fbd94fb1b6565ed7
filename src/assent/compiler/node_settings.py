"""From what an author writes about a node to the node: its settings before expressions are made canonical."""

from assent.model.graph import Node
from assent.model.nodes import NodeDeclaration, Timed
from assent.model.terms import seconds_of


def node_of(declared: NodeDeclaration, node_id: str, name: str) -> Node:
    timeout = declared.timeout if isinstance(declared, Timed) else None
    return Node(
        id=node_id,
        kind=declared.node_kind,
        name=name,
        label=declared.label,
        config=declared.config(),
        timeout_seconds=seconds_of(timeout) if timeout else None,
        capabilities=tuple(sorted(set(declared.capabilities))),
        waives_approval=declared.waives_approval,
    )


def on_timeout(declared: NodeDeclaration) -> str | None:
    return declared.on_timeout if isinstance(declared, Timed) else None
