"""Which edges of an envelope are loop edges (D3): always ones that leave a gate.

Edges are let in one by one — first all that do not leave a gate, which cannot form a circle, then the gates'
own from the start outwards, rejections and amendments last. An edge that would close a circle is a loop edge.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assent.model.graph import Edge, Outcome

_GATE: Final = "sys:gate:"
_AMENDMENT: Final = "sys:gate:amend"


def with_loops(edges: Sequence[Edge]) -> list[Edge]:
    depth = _depths(edges)
    follows: dict[str, set[str]] = {}
    loops = set()
    for edge in sorted(edges, key=lambda edge: (*_rank(edge), depth.get(edge.source, 0), edge.id)):
        if edge.source.startswith(_GATE) and _leads(follows, edge.target, edge.source):
            loops.add(edge.id)
        else:
            follows.setdefault(edge.source, set()).add(edge.target)
    return [replace(edge, loop=edge.id in loops) for edge in edges]


def _rank(edge: Edge) -> tuple[bool, bool]:
    leaves_gate = edge.source.startswith(_GATE)
    goes_back = leaves_gate and (edge.label == Outcome.REJECTED or edge.source == _AMENDMENT)
    return leaves_gate, goes_back


def _depths(edges: Sequence[Edge]) -> dict[str, int]:
    depth: dict[str, int] = {}
    layer, distance = {"sys:start"}, 0
    while layer:
        depth |= dict.fromkeys(layer, distance)
        layer = {edge.target for edge in edges if edge.source in layer} - depth.keys()
        distance += 1
    return depth


def _leads(follows: dict[str, set[str]], source: str, target: str) -> bool:
    seen, waiting = set(), [source]
    while waiting:
        node = waiting.pop()
        if node == target:
            return True
        if node not in seen:
            seen.add(node)
            waiting.extend(follows.get(node, ()))
    return False
