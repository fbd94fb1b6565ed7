"""Ways to break something that compiles, each with what the compiler must answer and whom it must name."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from assent.model.problems import Path, Problem
from tests.properties.choosing import Chooser, pick


@dataclass
class Graph:
    """The nodes and edges of a patch's slot or of a flow, whichever words they are written in."""

    data: dict[str, Any]
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    path: Path
    is_flow: bool

    @property
    def nodes_path(self) -> Path:
        return (*self.path, "steps" if self.is_flow else "nodes")

    @property
    def edges_path(self) -> Path:
        return (*self.path, "transitions" if self.is_flow else "edges")

    @property
    def label(self) -> str:
        return "event" if self.is_flow else "on"

    @property
    def condition(self) -> str:
        return "condition" if self.is_flow else "when"

    def kind_of(self, name: str) -> str:
        return next((node["type"] for node in self.nodes if node["id"] == name), "slot")


@dataclass
class Broken:
    data: dict[str, Any]
    codes: set[str]
    culprit: str | Path
    """A word that must stand in the problem, or the path that it must lead to."""

    def is_named_by(self, problems: tuple[Problem, ...]) -> bool:
        return any(self._names(problem) for problem in problems if problem.code in self.codes)

    def _names(self, problem: Problem) -> bool:
        if isinstance(self.culprit, str):
            return self.culprit in str(problem)
        return problem.path[: len(self.culprit)] == self.culprit


Breaker = Callable[[Chooser, Graph], Broken | None]


def graph_of_flow(flow: dict[str, Any]) -> Graph:
    data = deepcopy(flow)
    return Graph(data, data["steps"], data["transitions"], (), is_flow=True)


def graph_of_slot(patch: dict[str, Any], slot_id: str) -> Graph:
    data = deepcopy(patch)
    slot = data["slots"][slot_id]
    return Graph(data, slot["nodes"], slot["edges"], ("slots", slot_id), is_flow=False)


def _at(graph: Graph, chooser: Chooser, items: list[dict[str, Any]]) -> tuple[dict[str, Any], Path]:
    index = chooser.number(0, len(items) - 1)
    return items[index], (*(graph.nodes_path if items is graph.nodes else graph.edges_path), index)


def lead_nowhere(chooser: Chooser, graph: Graph) -> Broken:
    edge, path = _at(graph, chooser, graph.edges)
    edge["to"] = "ghost"
    return Broken(graph.data, {"UNKNOWN_NODE"}, (*path, "to"))


def lead_into_the_system(chooser: Chooser, graph: Graph) -> Broken:
    edge, path = _at(graph, chooser, graph.edges)
    edge["to"] = "sys:gate:t0"
    return Broken(graph.data, {"SYSTEM_NODE", "UNKNOWN_NODE"}, (*path, "to"))


def repeat_a_node(chooser: Chooser, graph: Graph) -> Broken:
    node, _ = _at(graph, chooser, graph.nodes)
    graph.nodes.append(deepcopy(node))
    return Broken(graph.data, {"DUPLICATE_ID"}, (*graph.nodes_path, len(graph.nodes) - 1, "id"))


def repeat_an_edge(chooser: Chooser, graph: Graph) -> Broken:
    edge, _ = _at(graph, chooser, graph.edges)
    graph.edges.append(deepcopy(edge))
    return Broken(graph.data, {"DUPLICATE_EDGE"}, graph.edges_path)


def mistype_a_kind(chooser: Chooser, graph: Graph) -> Broken:
    node, path = _at(graph, chooser, graph.nodes)
    node["type"] = "teleport"
    return Broken(graph.data, {"UNKNOWN_KIND"}, (*path, "type"))


def add_a_key(chooser: Chooser, graph: Graph) -> Broken:
    item, path = _at(graph, chooser, pick(chooser, (graph.nodes, graph.edges)))
    item["colour"] = "red"
    return Broken(graph.data, {"UNKNOWN_KEY"}, (*path, "colour"))


def break_a_condition(chooser: Chooser, graph: Graph) -> Broken:
    edge, path = _at(graph, chooser, graph.edges)
    edge[graph.condition] = pick(chooser, ("workflow.n >", "1 +", "'open", "workflow.n >> 3"))
    return Broken(graph.data, {"EXPRESSION_SYNTAX"}, (*path, graph.condition))


def ask_for_a_stranger(chooser: Chooser, graph: Graph) -> Broken:
    edge, path = _at(graph, chooser, graph.edges)
    edge[graph.condition] = "entity.stranger == 1"
    return Broken(graph.data, {"UNKNOWN_VARIABLE"}, (*path, graph.condition))


def mistype_a_capability(chooser: Chooser, graph: Graph) -> Broken:
    edge, path = _at(graph, chooser, graph.edges)
    edge["guard"] = "may do this"
    return Broken(graph.data, {"BAD_CAPABILITY"}, (*path, "guard"))


def leave_a_node_alone(chooser: Chooser, graph: Graph) -> Broken:
    graph.nodes.append({"id": "lonely", "type": "script", "set": {"x": 1}})
    return Broken(graph.data, {"UNREACHABLE", "DEAD_END"}, "lonely")


def cut_a_node_off(chooser: Chooser, graph: Graph) -> Broken | None:
    inner = [node for node in graph.nodes if node["type"] not in ("terminal", "form")]
    if not inner:
        return None
    name = pick(chooser, inner)["id"]
    graph.edges[:] = [edge for edge in graph.edges if edge["from"] != name]
    return Broken(graph.data, {"DEAD_END", "UNMATCHED_OUTCOME", "NARROW_SPLIT"}, f"`{name}`")


def turn_a_join_into_a_script(chooser: Chooser, graph: Graph) -> Broken | None:
    joins = [node for node in graph.nodes if node["type"] == "parallel_join"]
    if not joins:
        return None
    node = pick(chooser, joins)
    name = node["id"]
    node.clear()
    node |= {"id": name, "type": "script", "set": {"x": 1}}
    return Broken(graph.data, {"BRANCHES_MEET"}, f"`{name}`")


def turn_a_split_into_a_choice(chooser: Chooser, graph: Graph) -> Broken | None:
    splits = [node for node in graph.nodes if node["type"] == "parallel_split"]
    if not splits:
        return None
    joins = sum(node["type"] == "parallel_join" for node in graph.nodes)
    node = pick(chooser, splits)
    node["type"] = "condition"
    # Its join then stands alone, or is taken for the join of a split around it.
    codes = {"JOIN_WITHOUT_SPLIT"} | (
        {"JOIN_MISSES_BRANCH", "JOIN_OF_SEVERAL", "BRANCHES_MEET"} if joins > 1 else set()
    )
    return Broken(graph.data, codes, graph.path)


def mistype_a_label(chooser: Chooser, graph: Graph) -> Broken | None:
    closed = [e for e in graph.edges if graph.kind_of(e["from"]) not in ("form", "terminal")]
    if not closed:
        return None
    edge = pick(chooser, closed)
    edge[graph.label] = "aproved"
    return Broken(graph.data, {"DANGLING_LABEL"}, (*graph.edges_path, graph.edges.index(edge)))


def go_round(chooser: Chooser, graph: Graph) -> Broken | None:
    busy = [n for n in graph.nodes if n["type"] in ("script", "condition", "system", "task", "notification")]
    if not busy:
        return None
    name = pick(chooser, busy)["id"]
    graph.edges.append({"from": name, "to": name, graph.condition: "workflow.n > 99", "priority": 0})
    return Broken(graph.data, {"CYCLE", "ENDLESS_LOOP"}, (*graph.edges_path, len(graph.edges) - 1))


def narrow_a_split(chooser: Chooser, graph: Graph) -> Broken | None:
    splits = [node["id"] for node in graph.nodes if node["type"] == "parallel_split"]
    if not splits:
        return None
    name = pick(chooser, splits)
    branches = [edge for edge in graph.edges if edge["from"] == name]
    graph.edges[:] = [edge for edge in graph.edges if edge not in branches[1:]]
    return Broken(graph.data, {"NARROW_SPLIT"}, f"`{name}`")


def strip_the_approvals(chooser: Chooser, graph: Graph) -> Broken | None:
    """Whatever approves or waives becomes a script, its edges with it."""
    if graph.is_flow:
        return None
    asking = {node["id"] for node in graph.nodes if node["type"] == "approval"}
    graph.edges[:] = [e for e in graph.edges if e["from"] not in asking or e.get("on") != "rejected"]
    for edge in graph.edges:
        if edge["from"] in asking:
            edge.pop("on", None)
    for node in graph.nodes:
        node.pop("waives_approval", None)
        if node["id"] in asking:
            name = node["id"]
            node.clear()
            node |= {"id": name, "type": "script", "set": {"x": 1}}
    return Broken(graph.data, {"MISSING_APPROVAL"}, graph.path)


GRAPH_BREAKERS: tuple[Breaker, ...] = (
    lead_nowhere,
    lead_into_the_system,
    repeat_a_node,
    repeat_an_edge,
    mistype_a_kind,
    add_a_key,
    break_a_condition,
    ask_for_a_stranger,
    mistype_a_capability,
    leave_a_node_alone,
    cut_a_node_off,
    turn_a_join_into_a_script,
    turn_a_split_into_a_choice,
    mistype_a_label,
    go_round,
    narrow_a_split,
)
