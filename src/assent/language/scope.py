"""Scopes: which variables an expression may name, and of what type they are.

`entity` and `actor` are closed: a name that was not declared is a problem. `org` and `workflow` are open,
because an org's settings and earlier steps fill them; what is declared of them is still checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from assent.language.types import (
    DATETIME,
    INTEGER,
    TEXT,
    Type,
    choice,
    list_of,
    object_of,
    types_of_fields,
)
from assent.model.contract import Contract, FieldSpec

Fields = Mapping[str, FieldSpec]


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that exist, by the first part of their name."""

    roots: Mapping[str, Type]
    open: bool = False
    """Whether other first parts are let in, with unknown type."""

    def with_roots(self, **roots: Type) -> "Scope":
        return replace(self, roots={**self.roots, **roots})


OPEN: Final = Scope({"now": DATETIME}, open=True)
"""Where nothing is declared."""

ACTOR: Final = object_of(
    {
        "id": TEXT,
        "roles": list_of(TEXT),
        "capabilities": list_of(TEXT),
        "kind": choice("user", "service_account", "system"),
    }
)

_RESERVED_IN_WORKFLOW: Final = {"tenant_id": TEXT, "subject_id": TEXT, "partition_id": TEXT}


def scope_of(
    contract: Contract | None = None, *, org: Fields | None = None, workflow: Fields | None = None
) -> Scope:
    """The scope of a workflow's expressions; without a contract there is no `entity`."""
    roots = {
        "actor": ACTOR,
        "org": object_of({"id": TEXT, **types_of_fields(org or {})}, open=True),
        "workflow": object_of({**types_of_fields(workflow or {}), **_RESERVED_IN_WORKFLOW}, open=True),
        "now": DATETIME,
    }
    return Scope(roots if contract is None else {"entity": entity_type(contract), **roots})


def entity_type(contract: Contract) -> Type:
    """An entity as expressions see it: its fields, and what is the entity's own."""
    own = {
        "id": TEXT,
        "type": choice(contract.name),
        "version": INTEGER,
        "state": choice(*contract.lifecycle.states),
    }
    return object_of({**types_of_fields(contract.fields), **own})


def event_scope(fields: Fields | None = None) -> Scope:
    """The scope of a trigger's match: the event's fields by their bare names, and all of it as `event`.

    A field whose name is taken (`now`, `actor`, `context` …) is reached as `event.<name>`.
    """
    if fields is None:
        return OPEN.with_roots(event=object_of({}, open=True))
    types = types_of_fields(fields)
    return Scope({**types, "event": object_of(types), "now": DATETIME})
