"""What a workflow may write: to its own entity (D4, D19), and to its variables.

Gates alone change the state, and where the entity rests an action writes only fields declared `system`.
"""

from collections.abc import Iterator

from assent.compiler.draft import WorkflowDraft
from assent.model.contract import Contract, check_fields
from assent.model.nodes import Action, Approval, Form, NodeDeclaration
from assent.model.problems import Path, Problem
from assent.model.terms import RESERVED_VARIABLES


def check_writes(draft: WorkflowDraft) -> WorkflowDraft:
    problems: list[Problem] = []
    for node_id, declared in draft.declared.items():
        found = list(_check_variables(declared))
        if isinstance(declared, Action):
            found += _check_action(declared, draft.contract, stable=node_id in draft.stable)
        problems += (problem.under(*draft.place(node_id)) for problem in found)
    return draft.noting(problems)


def _check_variables(declared: NodeDeclaration) -> Iterator[Problem]:
    for key in ("set", "output", "form"):
        for name in getattr(declared, key, ()):
            if name in RESERVED_VARIABLES:
                yield Problem(
                    "RESERVED_NAME", f"`{name}` is the instance's own; no step sets it", (key, name)
                )
    if isinstance(declared, Approval | Form):
        yield from check_fields(declared.form, ("form",))


def _check_action(action: Action, contract: Contract | None, *, stable: bool) -> Iterator[Problem]:
    entity_type, _, verb = action.action.rpartition(".")
    if not entity_type:
        message = f"`{action.action}` does not say whose action it is"
        yield Problem("BAD_NAME", message, ("action",), hint="write `<entity type>.<action>`")
    elif verb == "create" or (action.entity is not None and action.entity.strip() != "entity.id"):
        return
    elif contract is None or entity_type != contract.name:
        message = f"`{action.action}` does not say which {entity_type} it is about"
        yield Problem("MISSING_KEY", message, ("action",), hint="add `entity: <expression of its id>`")
    elif verb in contract.lifecycle.transitions or verb in ("transition", "amend"):
        message = (
            f"`{action.action}` would change the state of the workflow's own {entity_type}; gates do that"
        )
        yield Problem("GATE_ONLY", message, ("action",))
    else:
        yield from _check_fields(action, verb, contract, stable=stable)


def _check_fields(action: Action, verb: str, contract: Contract, *, stable: bool) -> Iterator[Problem]:
    for field, path in _written_fields(action, verb):
        spec = contract.fields.get(field)
        if spec is None:
            yield Problem("UNKNOWN_FIELD", f"{contract.name} has no field `{field}`", path)
        elif stable and not spec.system:
            message = f"`{field}` cannot be written while approvals of this version are open"
            yield Problem("OWN_WRITE", message, path, hint="only fields with `system: true` can")
    if stable and verb != "update" and action.writes is None:
        message = f"`{action.action}` must say which fields it writes while approvals are open"
        yield Problem("OWN_WRITE", message, ("action",), hint="add `writes: [<field>, …]`")


def _written_fields(action: Action, verb: str) -> Iterator[tuple[str, Path]]:
    if verb == "update":
        for field in action.payload:
            yield field, ("payload", field)
    for index, field in enumerate(action.writes or ()):
        yield field, ("writes", index)
