"""The capabilities that the product asks for, collected from its source.

The source asks by `can(…)`, `require(…)`, `require_capability(…, …)` and `owner_for=…` of a route.

Whatever is asked by a constant or a literal is found by itself. Names that are put together are spelled out here, and a
new one of them turns `test_every_question_is_understood` red.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import get_args

from assent.engine.rights import Operation
from assent.model.contract import Contract

SPELLED_OUT = {
    "f'workflows:{operation}'": {f"workflows:{operation}" for operation in get_args(Operation)},
    "f'workflow:publish:run_as_{declared.run_as}'": {
        "workflow:publish:run_as_system",
        "workflow:publish:run_as_service_account",
    },
    "f'{key}:read'": {"orders.approval:read"},
    "tx.services.app.capability_to_submit(body.type)": {"tasks:submit"},
    "session.app.capability_to_submit(type)": {"tasks:submit"},
    "tx.services.app.capability_to_submit(type)": {"tasks:submit"},
    "needed": {"tasks:submit"},  # of the task of a schedule
    "_NEEDED[way.name]": {
        "workflows:retry",
        "workflows:repair",
        "workflows:cancel",
    },  # of ways out of an incident
    "one": {"definitions:read", "definitions:edit", "definitions:publish"},  # for conditions on the path
    "spec.capability": {
        *("documents:read", "documents:write", "documents:review"),
        *("requirements:manage", "requirements:waive", "results:push"),
    },  # of verbs
}
"""Capabilities whose names are put together, and what they may be."""

NAMED_BY_OTHERS = {
    "capability",  # of a contract, of an approval's people, or as the caller of a helper names it
    "edge.guard",
    "guard",
    "self.owner_for",
    "name",
    "wanted",
}
"""Capabilities that definitions and contracts name, or that the function's caller does."""


_MAY_ASK = re.compile(r"\b(can|require|require_capability)\(|\bowner_for\b|= \(?\s*\"[^\"\n]*:")
"""What a module has that asks for a capability, or names one; the others are not parsed."""


@cache
def questions() -> dict[str, set[str]]:
    """What is asked for, as it is written, and where."""
    found: dict[str, set[str]] = {}
    for path, tree in _trees():
        for node in ast.walk(tree):
            if (asked := _asked(node)) is not None:
                found.setdefault(ast.unparse(asked), set()).add(path.name)
    return found


@cache
def constants() -> dict[str, str]:
    """Constants of modules that are texts with a colon."""
    found: dict[str, str] = {}
    for _, tree in _trees():
        for node in tree.body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            value = getattr(node, "value", None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and ":" in value.value:
                found |= {target.id: value.value for target in targets if isinstance(target, ast.Name)}
    return found


def unexplained() -> set[str]:
    """Questions of which nobody knows what they ask for."""
    return {
        asked
        for asked in questions()
        if not _literal(asked)
        and asked not in constants()
        and asked not in SPELLED_OUT | dict.fromkeys(NAMED_BY_OTHERS)
    }


def all_capabilities(contracts: list[Contract]) -> list[str]:
    """Every capability that the product and these contracts know, and the wildcards above them."""
    asked = {literal for text in questions() if (literal := _literal(text))}
    asked |= {constants()[text] for text in questions() if text in constants()}
    asked |= {name for names in SPELLED_OUT.values() for name in names}
    asked |= {f"{contract.name}:{verb}" for contract in contracts for verb in contract.permissions}
    asked.discard("*")  # everything: who holds it gains nothing
    return sorted(asked | {f"{name.partition(':')[0]}:*" for name in asked})


@cache
def _trees() -> tuple[tuple[Path, ast.Module], ...]:
    root = Path(str(files("assent")))
    texts = ((path, path.read_text(encoding="utf-8")) for path in _sources(root))
    return tuple((path, ast.parse(text)) for path, text in texts if _MAY_ASK.search(text))


def _sources(root: Path) -> Iterator[Path]:
    yield from sorted(root.rglob("*.py"))


def _asked(node: ast.AST) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"can", "require"} and node.args:
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"query", "command"}:
        return next((each.value for each in node.keywords if each.arg == "owner_for"), None)
    if isinstance(node.func, ast.Name) and node.func.id == "require_capability":
        return node.args[1]
    return None


def _literal(text: str) -> str | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, str) else None
