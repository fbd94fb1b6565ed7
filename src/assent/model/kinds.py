"""Declarations of graphs: nodes with their `type`, and problems that lead to it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar, Union

from pydantic import Discriminator, Tag

from assent.model.canonical import NotCanonical, require_canonical
from assent.model.nodes import NodeDeclaration
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Problem

D = TypeVar("D", bound=Declaration)


def parse_graph(kind: type[D], data: object) -> tuple[D | None, list[Problem]]:
    """`data` as a patch or a flow, or every problem of its form."""
    try:
        require_canonical(data)
    except NotCanonical as error:
        return None, [Problem(error.code, str(error), error.path)]
    declared, problems = parse_declaration(kind, data)
    return declared, [_at_type(problem) for problem in problems]


def _at_type(problem: Problem) -> Problem:
    return replace(problem, path=(*problem.path, "type")) if problem.code == "UNKNOWN_KIND" else problem


def type_of(value: Any) -> str | None:
    """The `type` of a node, of data or declared."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


def one_of(kinds: Mapping[str, type[NodeDeclaration]], kind_of: Callable[[Any], str | None] = type_of) -> Any:
    """The type of a node whose kind is a key of `kinds`."""
    # Tags stand in brackets, because `assent.model.parse` takes bracketed parts out of a problem's path.
    members = tuple(Annotated[kind, Tag(f"[{name}]")] for name, kind in kinds.items())
    discriminator = Discriminator(
        lambda value: f"[{kind_of(value)}]",
        custom_error_type="UNKNOWN_KIND",
        custom_error_message="`type` names the kind of a node, one of: {known}",
        custom_error_context={"known": ", ".join(name for name in sorted(kinds) if " " not in name)},
    )
    return Annotated[Union[members], discriminator]  # noqa: UP007 - the members are only known here
