"""docs/proof.md names tests; each of them is there."""

import ast
import re
from pathlib import Path

PAGE = Path("docs/proof.md")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+)(…)?(?:\[[^`]*)?)?`")


def functions_of(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_that_the_page_names_is_there() -> None:
    named = TEST.findall(PAGE.read_text())
    missing = [
        f"{file}::{name}"
        for file, name, is_cut in named
        if not Path(file).is_file()
        or (
            name
            and not any(
                found.startswith(name) if is_cut else found == name for found in functions_of(Path(file))
            )
        )
    ]
    assert len(named) > 100
    assert missing == []
