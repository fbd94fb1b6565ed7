"""What authors wrote: checked before it is kept, and between its values and the columns that keep it.

Sources are kept in one form whether they came as data or as values, so that they can be compiled again: what says the
same is the same row. Sources are checked beside the published contracts.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from assent.compiler import COMPILER_VERSION, generate_envelope
from assent.compiler.declarations import CompiledSources, DeclarationKind, compile_sources, kind_of
from assent.compiler.source import Source
from assent.definitions.publisher import SQL
from assent.model.canonical import JsonValue, NotCanonical, require_canonical
from assent.model.contract import Contract
from assent.model.flow import Flow
from assent.model.graph import Envelope
from assent.model.parse import NAME_PATTERN, Declaration
from assent.model.patch import Patch
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow
from assent.store.connection import Connection
from assent.store.rows import Row

D = TypeVar("D", bound=Declaration)
Columns = dict[str, Any]


def declared(kind: type[D], parse: Callable[[object], tuple[D | None, list[Problem]]], given: object) -> D:
    """Return what was given, as a value of its kind; raise `Invalid` with every problem."""
    found, problems = (given, []) if isinstance(given, kind) else parse(given)
    if found is None:
        raise Invalid(problems)
    return found


def data_of(source: Declaration) -> dict[str, Any]:
    """Return a declaration as JSON; raise `Invalid` where JSON could not keep it."""
    data = source.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    try:
        require_canonical(data)
    except NotCanonical as error:
        raise Invalid([Problem(error.code, str(error), error.path)]) from None
    return data


def envelope_columns(envelope: Envelope) -> Columns:
    found = envelope.to_json()
    return {
        "nodes_json": found["nodes"],
        "edges_json": found["edges"],
        "slots_json": found["slots"],
        "source_json": {"contract": data_of(envelope.contract), "amendment": found["amendment"]},
        "compiler_version": COMPILER_VERSION,
    }


def envelope_in(row: Row) -> Envelope:
    """Return the envelope of a row; one that another compiler generated is generated again from its contract."""
    source = row["source_json"]
    if row["compiler_version"] != COMPILER_VERSION:
        return generate_envelope(contract_in(row))
    parts = {"nodes": row["nodes_json"], "edges": row["edges_json"], "slots": row["slots_json"]}
    return Envelope.from_json(source | parts)


def contract_in(row: Row) -> Contract:
    return Contract.model_validate(row["source_json"]["contract"])


def patch_columns(patch: Patch) -> Columns:
    data = data_of(patch)
    named = {"name": patch.label or patch.patch, "entity_type": patch.base.entity_type}
    return named | {"base_ref": data["base"], "body_patches_json": [data]}


def patches_in(row: Row) -> list[dict[str, Any]]:
    """Return the patches of an org's patch, which is one, or of an effective workflow."""
    return list(row["body_patches_json"] or ())


def effective_columns(envelope: Envelope, patches: list[dict[str, Any]], workflow: Workflow) -> Columns:
    compiled = compiled_columns(workflow)
    content = compiled["compiled_json"]
    return compiled | {
        "entity_type": envelope.entity_type,
        "name": workflow.name or envelope.entity_type,
        "base_ref": {"entity_type": envelope.entity_type, "envelope_version": envelope.version},
        # By name, so that publishing the same patches in another order is publishing them twice.
        "body_patches_json": sorted(patches, key=lambda patch: str(patch["patch"])),
        "nodes_json": content["nodes"],
        "edges_json": list(content["edges"].values()),
    }


def flow_columns(flow: Flow, workflow: Workflow) -> Columns:
    said = {"source_json": data_of(flow), "entity_type": flow.entity, "name": flow.name or flow.flow}
    return said | compiled_columns(workflow)


def compiled_columns(workflow: Workflow) -> Columns:
    return {
        "compiled_json": workflow.to_json(),
        "compiled_hash": workflow.hash,
        "compiler_version": workflow.compiler_version,
    }


async def published_contracts(connection: Connection, sources: Sequence[Source]) -> list[Source]:
    """Return the contracts that the sources speak of and do not bring, of every version, as they are published."""
    brought = {
        source.value(("contract",)) for source in sources if kind_of(source) is DeclarationKind.CONTRACT
    }
    wanted = {name for source in sources if _is_a_name(name := _about(source))} - brought
    rows = await connection.fetch(SQL.read_contracts, sorted(map(str, wanted)))
    return [
        Source(f"contract {row['key']} version {row['version']}, as published", row["contract"])
        for row in rows
    ]


def check_sources(sources: Sequence[Source], contracts: Sequence[Source]) -> CompiledSources:
    """Return what the sources come to beside these contracts; of the contracts alone nothing is shown."""
    found = compile_sources([*sources, *contracts])
    names = {source.name for source in sources}
    shown = tuple(one for one in found.compiled if any(source.name in names for source in one.sources))
    problems = tuple(problem for problem in found.problems if problem.source in (None, *names))
    return CompiledSources(shown, problems, found.scenarios)


def _is_a_name(found: JsonValue) -> bool:
    return isinstance(found, str) and re.fullmatch(NAME_PATTERN, found) is not None


def _about(source: Source) -> JsonValue:
    match kind_of(source):
        case DeclarationKind.PATCH:
            return source.value(("base", "entity_type"))
        case DeclarationKind.FLOW:
            return source.value(("entity",))
        case _:
            return None
