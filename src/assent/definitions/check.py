"""Checks that need more than the sources: what an application registers, what is published, what the engine can run.

`assent check --app`, `assent definitions publish --app` and `app.run()` share them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from assent.compiler.declarations import Compiled, CompiledSources, DeclarationKind, compile_sources, kind_of
from assent.compiler.source import Source, located
from assent.definitions.publisher import SQL
from assent.definitions.sources import contract_in
from assent.engine.run import CHAIN_STEPS_MAX
from assent.language import check_verb, parse_verb
from assent.language.built_in_verbs import BUILT_IN
from assent.language.verbs import VerbRegistry
from assent.model.contract import Contract
from assent.model.graph import Node, NodeKind
from assent.model.job import openapi_name
from assent.model.nodes import KINDS
from assent.model.problems import Path, Problem
from assent.model.workflow import Workflow
from assent.store.connection import Connection
from assent.store.rows import Row

BUILT_IN_CHANNELS: Final = frozenset({"email"})
"""Sent without an adapter of the application."""


@dataclass(frozen=True, slots=True)
class RegisteredNames:
    """What an application has registered, by name."""

    operations: Collection[str]
    """With those of services, as `openapi_name` writes them."""
    tasks: Collection[str]
    channels: Collection[str]
    actions: Mapping[str, Collection[str]]
    """Entity type → everything that can be done to an entity of it."""
    verbs: VerbRegistry = BUILT_IN


def check_sources(
    sources: Iterable[Source], names: RegisteredNames | None = None, beside: Sequence[Source] = ()
) -> CompiledSources:
    """Compile sources; note the problems of each, and, with the names of an application, what that could not run.

    `beside` are contracts for patches and flows whose own contract is not among the sources.
    """
    given = list(sources)
    declared = {
        source.value(("contract",)) for source in given if kind_of(source) is DeclarationKind.CONTRACT
    }
    others = [source for source in beside if source.value(("contract",)) not in declared]
    found = compile_sources([*others, *given])
    own = {id(source) for source in given}
    compiled = tuple(one for one in found.compiled if any(id(source) in own for source in one.sources))
    problems = [problem for one in compiled for problem in _problems_of(one, names)]
    return replace(found, compiled=compiled, problems=(*found.problems, *problems))


def _problems_of(one: Compiled, names: RegisteredNames | None) -> Iterator[Problem]:
    if one.workflow is None:
        return
    for node, problem in _too_long_chains(one.workflow):
        yield _placed(problem, node, one.sources)
    if names is not None:
        for node in one.workflow.nodes.values():
            for problem in _unknown_names(node, names):
                yield _placed(problem, node, one.sources)


def _unknown_names(node: Node, names: RegisteredNames) -> Iterator[Problem]:
    """Yield what a node names and the application lacks."""
    config = node.config
    match node.kind:
        case NodeKind.SYSTEM if "sdk" in config["operation"]:
            yield from _unknown(
                "operation", config["operation"]["sdk"], names.operations, ("operation", "sdk")
            )
        case NodeKind.SYSTEM if "verb" in config["operation"]:
            yield from _verb_problems(config["operation"]["verb"], names.verbs)
        case NodeKind.SYSTEM:
            name = config["operation"]["openapi"]
            if openapi_name(name) not in names.operations:
                message = f"the application registers no service with the operation `{name}`"
                hint = f"register it: app.openapi({name.partition('.')[0]!r}, document, base_url=…)"
                yield Problem("UNKNOWN_SERVICE", message, ("operation", "openapi"), hint)
        case NodeKind.TASK:
            yield from _unknown("task", config["task"], names.tasks, ("task",))
        case NodeKind.NOTIFICATION if config["channel"] not in {*BUILT_IN_CHANNELS, *names.channels}:
            channel = config["channel"]
            message = f"the application registers no adapter for the channel `{channel}`"
            yield Problem(
                "UNKNOWN_CHANNEL", message, ("channel",), f"register one: app.adapter({channel!r}, send)"
            )
        case NodeKind.ACTION:
            entity_type, _, verb = config["action"].partition(".")
            if entity_type not in names.actions:
                message = f"the application has no contract `{entity_type}`"
                yield Problem("UNKNOWN_ENTITY_TYPE", message, ("action",))
            elif verb not in names.actions[entity_type]:
                known = {f"{entity_type}.{each}" for each in names.actions[entity_type]}
                yield from _unknown("action", config["action"], known, ("action",))


def _verb_problems(text: str, verbs: VerbRegistry) -> Iterator[Problem]:
    call, _ = parse_verb(text)
    if call is not None:
        yield from (problem.under("operation", "verb") for problem in check_verb(call, verbs))


def _unknown(noun: str, name: str, known: Collection[str], path: Path) -> Iterator[Problem]:
    if name not in known:
        close = get_close_matches(name, known, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"register it: @app.{noun}({name!r})"
        message = f"the application registers no {noun} `{name}`"
        yield Problem(f"UNKNOWN_{noun.upper()}", message, path, hint)


def _too_long_chains(workflow: Workflow) -> Iterator[tuple[Node, Problem]]:
    """Yield each node at which a chain of automatic calls, with nothing to wait for, passes the engine's limit.

    Loops are left to the engine: how often one is run depends on data.
    """
    before: dict[str, int] = dict.fromkeys(workflow.nodes, 0)
    for node_id in workflow.topological_order:
        node, kind = workflow.nodes[node_id], KINDS.get(workflow.nodes[node_id].kind)
        length = before[node_id] + (1 if kind is not None and kind.automatic else 0)
        if length == CHAIN_STEPS_MAX + 1 and before[node_id] == CHAIN_STEPS_MAX:
            message = f"more than {CHAIN_STEPS_MAX} automatic calls in a row lead here, and the instance would pause"
            hint = "put a step between them that waits, such as `wait_timer`, or join calls in one operation"
            yield node, Problem("TOO_MANY_CALLS", message, (), hint)
        ends = node.kind is NodeKind.STATE or (kind is not None and kind.waits)
        for edge in workflow.edges.values():
            if edge.source == node_id and not edge.loop:
                before[edge.target] = max(before[edge.target], 0 if ends else length)


def _placed(problem: Problem, node: Node, sources: Sequence[Source]) -> Problem:
    """Return a problem of a node at the step of its author, by the step's name."""
    for source in reversed(sources):
        path = next(_steps_named(node.name, source.data), None)
        if path is not None:
            return located([problem.under(*path)], source)[0]
    return located([problem], sources[0])[0]


def _steps_named(name: str, data: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(data, Mapping):
        if data.get("id") == name:
            yield path
        for key, value in data.items():
            yield from _steps_named(name, value, (*path, key))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from _steps_named(name, value, (*path, index))


async def compare_contracts(connection: Connection, contracts: Mapping[str, Contract]) -> list[str]:
    """Return in words how the contracts of an application differ from those that are published; none if they do not."""
    own = {name: contract for name, contract in contracts.items() if contract.workflow != "none"}
    rows = await connection.fetch(SQL.read_newest_envelopes, sorted(own))
    published = {row["key"]: row for row in rows}
    return [text for name in sorted(own) if (text := _difference(own[name], published.get(name)))]


def _difference(contract: Contract, row: Row | None) -> str | None:
    name, version = contract.name, contract.version
    if row is None:
        return f"contract `{name}`: version {version} runs here, and none is published; publish it"
    if row["version"] != version:
        return f"contract `{name}`: version {version} runs here, and version {row['version']} is published"
    if contract_in(row) != contract:
        return f"contract `{name}`: version {version} runs here with other content than was published"
    return None
