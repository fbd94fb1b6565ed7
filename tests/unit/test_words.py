"""Ordinary technical English: words that no page, docstring, comment or message uses, and one name per class."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "assent"
WORDS = re.compile(
    r"\b(whoever|whomever|somebody|nobody|whom|told|anew|given up|what becomes of|answers with)\b",
    re.IGNORECASE,
)
DECLARATION_AND_HANDLER = ["engine/nodes", "model/nodes"]
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
    return sorted(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".sql", ".lark"))


def test_no_source_uses_the_words() -> None:
    found = {str(path.relative_to(ROOT)): words_in(path) for path in sources()}
    assert {path: words for path, words in found.items() if words} == {}


def test_no_page_uses_the_words() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    found = {str(page.relative_to(ROOT)): words_in(page) for page in pages}
    assert {page: words for page, words in found.items() if words} == {}


def test_no_class_name_is_defined_twice() -> None:
    """Only a node kind may share one: its declaration in `model/nodes` and its handler in `engine/nodes`."""
    folders = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef):
                folders[statement.name].append(path.relative_to(SOURCE).parent.as_posix())
    twice = {name: found for name, found in folders.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if sorted(found) != DECLARATION_AND_HANDLER} == {}


def test_a_word_would_be_noticed(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('told = 1  # whoever asks\n"""Nobody is told."""\n')
    assert [word.lower() for word in words_in(file)] == ["whoever", "nobody", "told"]
