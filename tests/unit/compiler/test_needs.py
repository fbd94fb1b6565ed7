"""What publishing takes is said for every kind of node; a new kind cannot be forgotten."""

from typing import Literal

import pytest

from assent.model.graph import NodeKind
from assent.model.nodes import KINDS, NodeDeclaration


def test_every_kind_of_node_says_what_it_needs() -> None:
    assert [kind for kind in NodeKind if not callable(KINDS[kind].uses)] == []


def test_a_kind_is_declared_once() -> None:
    with pytest.raises(TypeError, match="declared by Condition already"):

        class AnotherCondition(NodeDeclaration):
            kind = NodeKind.CONDITION
            type: Literal["condition"]


def test_a_kind_that_does_not_say_what_it_uses_cannot_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KINDS, NodeKind.CONDITION)
    with pytest.raises(TypeError, match="does not say what its publisher must be allowed to use"):

        class SilentCondition(NodeDeclaration):
            kind = NodeKind.CONDITION
            type: Literal["condition"]
