"""WF-07 on load: what runs is exactly what was compiled, by the compiler of today, or it does not run."""

from collections.abc import Mapping
from typing import Any

from assent.compiler import COMPILER_VERSION, is_stale
from assent.definitions.definition import Definition, Pin
from assent.model.canonical import NotCanonical, canonical_hash
from assent.model.mutation import Rejection
from assent.model.workflow import Workflow
from assent.store.rows import Row

Loaded = Definition | Rejection


def verified(row: Row) -> Loaded:
    """The definition in a row, or why it must not run."""
    if row["status"] == "draft":
        return _refused(row, "WORKFLOW_NOT_PUBLISHED", "is a draft", "publish it")
    if row["compiled_json"] is None:
        return _refused(row, "WORKFLOW_NOT_COMPILED", "was never compiled", "start what is compiled from it")
    # Asked before the content is read: another compiler may have had another form.
    if row["compiler_version"] != COMPILER_VERSION:
        return _stale(row, row["compiler_version"])
    workflow = _workflow_in(row["compiled_json"], row["compiled_hash"])
    if workflow is None:
        message = "is not what was compiled: its content and its hash do not belong together"
        return _refused(row, "WORKFLOW_HASH_MISMATCH", message, "somebody changed the row; publish it again")
    if is_stale(workflow):
        return _stale(row, workflow.compiler_version)
    return Definition(row["org_id"], row["id"], row["version"], workflow)


def held_to(pin: Pin, found: Loaded | None) -> Loaded:
    """What was found for an instance, unless it is not what the instance was pinned to."""
    if found is None:
        return Rejection(
            "NOT_FOUND", f"there is no definition {pin.id} for org {pin.org_id}", ("definition_id",)
        )
    if isinstance(found, Rejection) or (found.version, found.hash) == (pin.version, pin.hash):
        return found
    message = (
        f"the instance is pinned to version {pin.version} with hash {pin.hash}, "
        f"found version {found.version} with hash {found.hash}"
    )
    return Rejection("WORKFLOW_HASH_MISMATCH", message, ("definition_hash",))


def _workflow_in(content: Mapping[str, Any], expected_hash: str) -> Workflow | None:
    """The workflow that was compiled, or None where the content is not it."""
    try:
        hashed = canonical_hash({key: value for key, value in content.items() if key != "hash"})
        if hashed != expected_hash:
            return None
        workflow = Workflow.from_json(content)
    except (NotCanonical, AttributeError, KeyError, TypeError, ValueError):
        return None
    # Whatever the content says beside the workflow that we read from it would be hashed and never run.
    return workflow if workflow.to_json() == content else None


def _stale(row: Row, compiled_by: str) -> Rejection:
    message = f"was compiled by compiler {compiled_by}, this is {COMPILER_VERSION}"
    return _refused(row, "WORKFLOW_COMPILER_STALE", message, "run `assent definitions recompile`")


def _refused(row: Row, code: str, message: str, hint: str) -> Rejection:
    what = f"{row['definition_kind']} `{row['key']}` version {row['version']} {message}"
    return Rejection(code, what, ("definition_id",), hint=hint)
