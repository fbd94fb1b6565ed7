"""What publishing takes is said for every kind of node; a new kind cannot be forgotten."""

from assent.compiler.publish_rights import NEEDS
from assent.model.graph import NodeKind


def test_every_kind_of_node_says_what_it_needs() -> None:
    assert set(NEEDS) == set(NodeKind)
