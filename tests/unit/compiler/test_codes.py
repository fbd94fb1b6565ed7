"""Every code that the compiler gives is explained in docs/compiler.md, and nothing else is; its files are there."""

import re
from pathlib import Path

import assent.compiler
import assent.model

ROOT = Path(__file__).parents[3]
COMPILER = Path(str(assent.compiler.__file__)).parent
MODEL = Path(str(assent.model.__file__)).parent
DECLARATIONS = ("contract", "patch", "flow", "terms", "people", "requirements", "parse", "timing")
NOT_OF_GRAPHS = frozenset({"EMPTY_ROLES", "NEEDS_WORKFLOW", "TOO_LARGE"})
"""Of a contract's other parts; the kernel's guide explains them."""

GIVEN = (
    re.compile(r'(?:Problem|refuse|_note|marked)\(\s*(?:code=)?"([A-Z_]+)"'),
    re.compile(r'_circle\(draft, edge, \w+, "([A-Z_]+)"'),
    re.compile(r'custom_error_type="([A-Z_]+)"'),
    re.compile(r'"[a-z_]+": "([A-Z][A-Z_]+)",'),
)


def passes() -> set[Path]:
    """The modules that compiling goes through: `compile.py` and whatever it imports of its room."""
    found: set[Path] = set()
    waiting = [COMPILER / "compile.py"]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            imported = re.findall(r"from assent\.compiler\.(\w+) import", file.read_text(encoding="utf-8"))
            waiting += [COMPILER / f"{name}.py" for name in imported]
    return found


def codes_given() -> set[str]:
    files = [*passes(), *(MODEL / f"{name}.py" for name in DECLARATIONS), *(MODEL / "nodes").glob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return {code for text in texts for form in GIVEN for code in form.findall(text)} - NOT_OF_GRAPHS


def codes_explained() -> set[str]:
    _, table = (ROOT / "docs" / "compiler.md").read_text(encoding="utf-8").split("## Problems")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {code for row in rows for code in re.findall(r"`([A-Z_]+)`", row)}


def test_every_code_is_explained_and_every_explanation_is_of_a_code() -> None:
    assert codes_given() == codes_explained()


def test_every_file_on_the_way_through_the_compiler_is_there() -> None:
    _, way = (ROOT / "docs" / "compiler.md").read_text(encoding="utf-8").split("## The way through")
    rows = [line.split("|")[2] for line in way.split("## ")[0].splitlines() if line.startswith("|")]
    files = {name for row in rows for name in re.findall(r"`(?:model/)?(\w+\.py)`", row)}
    assert {"envelope.py", "build.py"} <= files
    assert not {name for name in files if not any((room / name).exists() for room in (COMPILER, MODEL))}
