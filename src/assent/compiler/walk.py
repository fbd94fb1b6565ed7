"""Walking graphs: order, circles, what can be reached. Iterative, so that a long chain costs no stack."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from assent.model.graph import Edge


def topological_order(nodes: Iterable[str], edges: Iterable[Edge]) -> tuple[str, ...]:
    """WF-13: sources before targets, by id where edges leave a choice. Nodes in a circle are left out."""
    follows: dict[str, list[str]] = {node: [] for node in nodes}
    waiting_for = dict.fromkeys(follows, 0)
    for edge in edges:
        follows[edge.source].append(edge.target)
        waiting_for[edge.target] += 1
    ready = [node for node, count in waiting_for.items() if count == 0]
    heapify(ready)
    order = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for target in follows[node]:
            waiting_for[target] -= 1
            if waiting_for[target] == 0:
                heappush(ready, target)
    return tuple(order)


def back_edges(roots: Sequence[str], outgoing: Mapping[str, Sequence[Edge]]) -> list[Edge]:
    """The edges that close a circle, in a walk in depth from `roots` that asks edges in their order."""
    found: list[Edge] = []
    open_nodes: set[str] = set()
    done: set[str] = set()
    for root in roots:
        stack = [] if root in done else [(root, iter(outgoing[root]))]
        open_nodes.update(node for node, _ in stack)
        while stack:
            node, edges = stack[-1]
            edge = next(edges, None)
            if edge is None:
                stack.pop()
                open_nodes.discard(node)
                done.add(node)
            elif edge.target in open_nodes:
                found.append(edge)
            elif edge.target not in done:
                open_nodes.add(edge.target)
                stack.append((edge.target, iter(outgoing[edge.target])))
    return found


def reached(roots: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    """Everything that steps lead to from `roots`, themselves included."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(step(node))
    return found


def path_between(source: str, target: str, outgoing: Mapping[str, Sequence[Edge]]) -> list[str]:
    """A shortest way from `source` to `target`, both included; empty where there is none."""
    came_from = {source: source}
    layer = [source]
    while layer and target not in came_from:
        following = []
        for node in layer:
            for edge in outgoing[node]:
                if edge.target not in came_from:
                    came_from[edge.target] = node
                    following.append(edge.target)
        layer = following
    if target not in came_from:
        return []
    way = [target]
    while way[-1] != source:
        way.append(came_from[way[-1]])
    return way[::-1]
