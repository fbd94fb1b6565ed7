"""What authors wrote, between its values and the columns that keep it, so that it can be compiled again.

Sources are kept in one form whether they came as data or as values: what says the same is the same row.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from assent.compiler import COMPILER_VERSION, generate_envelope
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.contract import Contract
from assent.model.flow import Flow
from assent.model.graph import Envelope
from assent.model.parse import Declaration
from assent.model.patch import Patch
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow
from assent.store.rows import Row

D = TypeVar("D", bound=Declaration)
Columns = dict[str, Any]


def declared(kind: type[D], parse: Callable[[object], tuple[D | None, list[Problem]]], given: object) -> D:
    """What was given, as a value of its kind; raises `Invalid` with every problem."""
    found, problems = (given, []) if isinstance(given, kind) else parse(given)
    if found is None:
        raise Invalid(problems)
    return found


def data_of(source: Declaration) -> dict[str, Any]:
    """A declaration as JSON; raises `Invalid` where JSON could not keep it."""
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
    """The envelope of a row; one that another compiler generated is generated again from its contract."""
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
    """The patches of an org's patch, which is one, or of an effective workflow."""
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
