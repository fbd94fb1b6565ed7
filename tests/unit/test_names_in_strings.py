"""Names that tests keep in strings exist: modules, the imports of embedded scripts, `.sql` files and relations.

A rename finds names in code, and the type checker what it missed. Nothing finds a name in a string but this; it runs
with `make check`, so that a stale one is seen where it was made and not by the tests of another room.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from assent.store.queries import load_queries

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "assent"
OURS: Final = ("assent", "tests")

WRONG_ON_PURPOSE: Final = {
    "tests.worker.application:nothing",
    "things.sql",
    *(
        f"assent.{name}"
        for name in ("limits", "missing", "moment", "no_such_table", "nothing", "things", "x")
    ),
}
"""Names that tests invent, to see them refused or to make them themselves."""


PLACED: Final = "placed_here"
"""Stands for what an f-string puts in."""

CREATED: Final = re.compile(r"(?i)\bcreate\b[^;(]*?\bassent\.(\w+)")
USED: Final = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|ONLY) assent\.([a-z_]+[a-z])(?:_\d{4}_\d\d)?\b(?!\.)")


class Found(NamedTuple):
    """A name in a string, and where it is."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}"


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    return tuple((str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


@cache
def strings(*, f_strings: bool = True) -> tuple[tuple[str, int, str], ...]:
    """Return the strings of all tests, each with its file and line; with `PLACED` in f-strings."""
    found = []
    for file, tree in trees():
        nodes = list(ast.walk(tree))
        inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            if f_strings and isinstance(node, ast.JoinedStr):
                found.append((file, node.lineno, _joined(node)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                found.append((file, node.lineno, node.value))
    return tuple(found)


def _joined(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else PLACED for part in node.values)


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    for file, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node) in names:
                yield file, node


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def text_of(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or something in one; `module:name` names something in a module."""
    module, _, rest = name.partition(":")
    path = rest.split(".") if rest else []
    while True:
        try:
            found: object = import_module(module)
        except ModuleNotFoundError:
            if rest or "." not in module:
                return False
            module, _, last = module.rpartition(".")
            path.insert(0, last)
        else:
            return _reaches(found, path)


def _reaches(found: object, path: list[str]) -> bool:
    for name in path:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def stale(found: Iterator[Found]) -> list[str]:
    return sorted({str(one) for one in found if one.name not in WRONG_ON_PURPOSE and not resolves(one.name)})


def applications() -> Iterator[Found]:
    """Names as `--app` takes them: `module:name`."""
    for file, line, text in strings():
        for name in re.findall(r"(?<![\w.])(?:assent|tests)(?:\.\w+)+:[a-zA-Z_]\w*", text):
            yield Found(file, line, name)


def programs() -> Iterator[Found]:
    """Modules that are run: `python -m module`."""
    for file, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.List | ast.Tuple):
                continue
            words = [text_of(word) for word in node.elts]
            for before, word in pairwise(words):
                if before == "-m" and word and word.split(".")[0] in OURS:
                    yield Found(file, node.lineno, word)


def patched() -> Iterator[Found]:
    """Names that are replaced or imported by string."""
    for file, call in calls("setattr", "delattr", "import_module", "patch"):
        name = text_of(call.args[0]) if call.args else None
        if name and name.split(".")[0] in OURS:
            yield Found(file, call.lineno, name)


def scripts() -> Iterator[tuple[str, int, ast.Module]]:
    """Python in strings: what imports something of ours, on lines of its own."""
    for file, line, text in strings():
        if re.search(r"^\s*(?:from|import) (?:assent|tests)\b(?!.*;\s*$)", text, re.MULTILINE):
            try:
                yield file, line, ast.parse(_dedented(text))
            except SyntaxError:
                if "def " in text or "\nimport " in text:
                    raise AssertionError(f"{file}:{line}: expected Python, found {text[:200]!r}") from None


def _dedented(text: str) -> str:
    lines = text.strip("\n").splitlines()
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[depth:] for line in lines)


def imports_of_scripts() -> Iterator[Found]:
    for file, line, tree in scripts():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}".removesuffix(".*") for alias in node.names]
            else:
                continue
            yield from (Found(file, line, name) for name in names if name.split(".")[0] in OURS)


@pytest.mark.parametrize(
    "kind", [applications, programs, patched, imports_of_scripts], ids=lambda kind: kind.__name__
)
def test_names_of_modules_exist(kind):
    found = list(kind())
    assert found, "the search finds nothing any more"
    assert stale(iter(found)) == []


def test_sql_files_exist():
    folders = (SOURCE, ROOT / "tests", ROOT / "examples")
    there = {path.name for folder in folders for path in folder.rglob("*.sql")}
    named = {
        Found(file, line, text)
        for file, line, text in strings(f_strings=False)
        if re.fullmatch(r"[a-z][a-z_]*\.sql", text)
    }
    assert sorted(str(one) for one in named if one.name not in there | WRONG_ON_PURPOSE) == []


def test_statements_exist_in_the_files_that_are_loaded():
    """`load_queries("room", "file.sql").name`, and the same through a constant of the module."""
    missing = []
    for file, tree in trees():
        loaded = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign) and _is_load(node.value)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                call = loaded.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
                if _is_load(call) and not _has_statement(call, node.attr):
                    missing.append(f"{file}:{node.lineno}: {node.attr}")
    assert missing == []


def _is_load(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and _called(node) == "load_queries" and all(map(text_of, node.args))


def _has_statement(call: ast.Call, name: str) -> bool:
    room, file = (str(text_of(argument)) for argument in call.args)
    if not (files(room) / file).is_file():
        return False
    return name in {statement.name for statement in load_queries(room, file)}


def test_relations_exist():
    """What tests read and write with SQL of their own is in the schema; columns are seen when a test runs."""
    created = set(
        CREATED.findall("\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.sql")))
    )
    assert {"members", "now"} <= created, "the search finds nothing any more"
    made_by_tests = {(file, name) for file, _, text in strings() for name in CREATED.findall(text)}
    gone = {
        Found(file, line, f"assent.{name}")
        for file, line, text in strings()
        for name in USED.findall(text)
        if name not in created and (file, name) not in made_by_tests and PLACED not in name
    }
    assert sorted(str(one) for one in gone if one.name not in WRONG_ON_PURPOSE) == []
