"""Ordinary technical English: words that no page, docstring, comment or message uses; verbs; one name per class."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "assent"
WORDS = re.compile(
    r"\b(whoever|whomever|somebody|nobody|whom|told|anew|given up|answers with"
    r"|(?:came|comes|became|becomes) of(?! the| a))\b",
    re.IGNORECASE,
)
DECLARATION_AND_HANDLER = ["src/assent/engine/nodes", "src/assent/model/nodes"]
CLAIMED_BY_NOBODY = re.compile(r"""(?<=["'])nobody(?=["'])""")
"""A value of the inbox's filter `claimed`, which clients of the HTTP API send."""
FILTERED_BY_CLAIM = tuple(
    SOURCE / name for name in ("http/routes/inbox.py", "people/inbox.py", "people/people.sql")
)


def prose_of(path: Path) -> str:
    """Return what people read in a file: of Python, comments and strings; of anything else, all of it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))


def words_in(path: Path) -> list[str]:
    prose = prose_of(path)
    if path in FILTERED_BY_CLAIM:
        prose = CLAIMED_BY_NOBODY.sub("", prose)
    return [match.group(0) for match in WORDS.finditer(prose)]


def sources() -> list[Path]:
    folders = (SOURCE, ROOT / "bench", ROOT / "examples", ROOT / "deploy")
    kinds = (".py", ".sql", ".lark", ".yaml", ".yml", ".sh", ".toml", ".conf")
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in kinds and "node_modules" not in path.parts
    )


def test_no_source_uses_the_words() -> None:
    found = {str(path.relative_to(ROOT)): words_in(path) for path in sources()}
    assert {path: words for path, words in found.items() if words} == {}


def test_no_page_uses_the_words() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
        *(page for folder in ("docs", "src", "bench", "examples") for page in (ROOT / folder).rglob("*.md")),
    ]
    # The packages of peers have pages of their own.
    pages = [page for page in pages if "node_modules" not in page.parts]
    found = {str(page.relative_to(ROOT)): words_in(page) for page in pages}
    assert {page: words for page, words in found.items() if words} == {}


def test_no_class_name_is_defined_twice() -> None:
    """Only a node kind may share one: its declaration in `model/nodes` and its handler in `engine/nodes`."""
    folders = defaultdict(list)
    for path in (
        path for name in ("src", "tests", "bench", "examples") for path in (ROOT / name).rglob("*.py")
    ):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef):
                folders[statement.name].append(path.relative_to(ROOT).parent.as_posix())
    twice = {name: found for name, found in folders.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if sorted(found) != DECLARATION_AND_HANDLER} == {}


NOUNS = {
    "a",
    "an",
    "the",
    "what",
    "whether",
    "where",
    "who",
    "why",
    "how",
    "every",
    "each",
    "all",
    "those",
    "one",
}
"""First words of a docstring that says what comes back, and not what the function does."""


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def begins_with_a_noun(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    if re.search(r"property\b|\.(query|command|unsigned)\(", decorators):
        return False  # what a property is; what the documentation of a route says after its summary
    docstring = ast.get_docstring(function)
    return docstring is not None and docstring.split()[0].lower() in NOUNS


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for function in functions(path)
        if begins_with_a_noun(function)
    ]
    assert found == []


def test_a_word_would_be_noticed(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('told = 1  # whoever asks\n"""Nobody is told."""\n')
    assert [word.lower() for word in words_in(file)] == ["whoever", "nobody", "told"]


GLOSSARY_ROWS_MAX = 40
ARCHITECTURE_LINES_MAX = 120
"""Three screens."""


def test_glossary_and_architecture_are_short_enough_to_be_read_first() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|(?! *word *\||-).*", glossary, re.MULTILINE)
    architecture = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    assert 20 < len(rows) <= GLOSSARY_ROWS_MAX
    assert architecture.count("\n") <= ARCHITECTURE_LINES_MAX
