"""What an edge is where its author does not say: which outcome it answers, when it is asked, its id."""

from typing import Final

from assent.model.graph import NodeKind
from assent.model.nodes import KINDS

PRIORITY_CONDITIONAL: Final = 100
PRIORITY_UNCONDITIONAL: Final = 1_000
"""An edge without a condition is asked last, so that it does not hide the others."""


def success_of(kind: NodeKind) -> str:
    """Return the outcome that an edge answers if its author names none."""
    return KINDS[kind].success


def default_priority(*, conditional: bool) -> int:
    return PRIORITY_CONDITIONAL if conditional else PRIORITY_UNCONDITIONAL


def stem_of(source: str, target: str, label: str, kind: NodeKind) -> str:
    """`review->process`, with the label where it is not the obvious one."""
    return f"{source}->{target}" if label == success_of(kind) else f"{source}->{target}:{label}"
