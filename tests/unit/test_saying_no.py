"""One way to say no, as CONTRIBUTING.md has it: parsers return problems, commands raise, sets return values."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "assent"
SIGN_IN = SOURCE / "http" / "auth"
"""Sign-in is not a command: the throttle, the access log and the event stream each go on with why it was refused."""


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
                yield path, node, ast.unparse(node.returns)


def named(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{path.relative_to(SOURCE)}:{function.lineno} {function.name}"


def test_what_is_parsed_comes_beside_its_problems_and_never_in_their_place() -> None:
    found = [
        (named(path, function), returns) for path, function, returns in functions() if "Problem]" in returns
    ]
    assert len(found) > 30
    assert [
        name for name, returns in found if "| list[Problem]" in returns or "list[Problem] |" in returns
    ] == []
    parsers = [(name, returns) for name, returns in found if " parse" in name]
    assert len(parsers) > 5
    assert [name for name, returns in parsers if not returns.endswith(" | None, list[Problem]]")] == []


def test_command_returns_no_rejection() -> None:
    asynchronous = [
        (path, function, returns)
        for path, function, returns in functions()
        if isinstance(function, ast.AsyncFunctionDef) and not function.name.startswith("_")
    ]
    assert len(asynchronous) > 200
    assert [
        named(path, function)
        for path, function, returns in asynchronous
        if re.search(r"\bRejection\b", returns) and "Mapping[" not in returns and "list[" not in returns
        if not path.is_relative_to(SIGN_IN)
    ] == []
