"""What an API key may be used for. A scope narrows what its member may do; it never widens it."""

from collections.abc import Iterable
from typing import Final, Literal

Scope = Literal[
    "workflows:read",
    "workflows:write",
    "entities:read",
    "entities:write",
    "approvals:read",
    "approvals:write",
    "events:write",
    "requests:read",
    "requests:write",
    "sources:read",
    "sources:write",
    "secrets:read",
    "secrets:write",
    "definitions:read",
    "definitions:write",
    "members:read",
    "members:write",
    "keys:read",
    "keys:write",
    "tasks:read",
    "tasks:write",
    "audit:read",
    "operations:read",
    "operations:write",
]

SCOPES: Final[tuple[str, ...]] = Scope.__args__  # type: ignore[attr-defined]
EVERYTHING: Final = frozenset({"*"})
"""What somebody may be after who signed in by token: whatever they may do themselves."""


def covers(held: frozenset[str], wanted: str) -> bool:
    return not held.isdisjoint({"*", wanted, f"{wanted.partition(':')[0]}:*"})


def covers_all(held: frozenset[str], wanted: Iterable[str]) -> bool:
    """Whether whoever holds these may hand on those."""
    return all(covers(held, scope) for scope in wanted)


def unknown_scopes(scopes: Iterable[str]) -> list[str]:
    known = {"*", *SCOPES, *(f"{scope.partition(':')[0]}:*" for scope in SCOPES)}
    return [scope for scope in scopes if scope not in known]
