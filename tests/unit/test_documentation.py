"""The documentation hangs together: every link leads somewhere, and every page can be reached from the index."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "index.md"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("docs", "src", "tests", "bench", "examples")
            for path in (ROOT / folder).rglob("*.md")
            if "node_modules" not in path.parts
        ),
    ]
)
TEXTS = sorted(
    path
    for folder in ("src", "docs", "tests", "bench", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".sql", ".md", ".yaml", ".lark"} and "node_modules" not in path.parts
)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+?) *$", re.MULTILINE)
_SCHEME = re.compile(r"^[a-z]+:")
_DECISION = re.compile(r"\bD[1-9]\d?\b")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def prose(path: Path) -> str:
    """Return the text of a page without its code blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a page's headings as GitHub makes them: a second heading of a name gets `-1`."""
    found: list[str] = []
    for heading in _HEADING.findall(prose(path)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        repeats = sum(
            anchor == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", anchor) is not None for anchor in found
        )
        found.append(f"{slug}-{repeats}" if repeats else slug)
    return frozenset(found)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of every link of a page that stays in the repository."""
    for link in _LINK.findall(prose(page)):
        if not _SCHEME.match(link):
            file, _, anchor = link.partition("#")
            yield ((page.parent / file).resolve() if file else page), anchor


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(page: Path) -> None:
    broken = []
    for target, anchor in links(page):
        if not target.exists():
            broken.append(f"no file {name(target)}")
        elif anchor and anchor not in anchors(target):
            broken.append(f"no heading for #{anchor} in {name(target)}; it has {sorted(anchors(target))}")
    assert broken == []


def test_every_page_is_reached_from_the_index_which_the_readme_links() -> None:
    assert INDEX in {target for target, _ in links(ROOT / "README.md")}
    reached: set[Path] = set()
    waiting = [INDEX]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            waiting += [target for target, _ in links(page)]
    assert [name(page) for page in (ROOT / "docs").rglob("*.md") if page not in reached] == []


def test_every_example_is_named_in_the_index() -> None:
    named = {target for target, _ in links(INDEX)}
    examples = [path for kind in ("*.py", "*/README.md") for path in (ROOT / "examples").glob(kind)]
    assert [name(path) for path in examples if path not in named] == []


def test_every_decision_that_is_named_has_a_heading() -> None:
    decided = anchors(ROOT / "docs" / "decisions.md")
    missing = {
        f"{number} in {name(path)}"
        for path in TEXTS
        for number in _DECISION.findall(path.read_text(encoding="utf-8"))
        if number.lower() not in decided
    }
    assert missing == set()


def test_pages_link_the_decisions_that_they_name() -> None:
    """A number in prose is the text of a link, so that a reader gets to it."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "decisions.md"]
    plain = re.compile(r"(?<!\[)\bD[1-9]\d?\b(?!\]\(\S*decisions\.md#)")
    assert {name(page): found for page in pages if (found := plain.findall(prose(page)))} == {}


def test_nothing_refers_to_documents_outside_of_the_repository() -> None:
    source = [path for path in TEXTS if name(path).startswith(("src/", "docs/"))]
    outside = re.compile(r"\bseeds? 0\d\d|\bthe seed's\b", re.IGNORECASE)
    assert [name(path) for path in source if outside.search(path.read_text(encoding="utf-8"))] == []


def test_the_glossary_has_at_most_forty_rows_and_each_word_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", prose(ROOT / "docs" / "glossary.md"), re.MULTILINE)[1:]
    words = [word for row, _ in rows for word in row.split(", ")]
    assert len(rows) <= 40
    assert len(words) == len(set(words))


PATHS = re.compile(r"`((?:[\w.-]+/)+[\w.-]*)`")


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "ARCHITECTURE.md"], ids=name)
def test_every_path_that_the_page_names_is_there(page: Path) -> None:
    """A path is of the repository or, as in the map, of the package."""
    named = [path for path in PATHS.findall(prose(page)) if path.count("*") == 0]
    places = (ROOT, ROOT / "src" / "assent")
    assert [path for path in named if not any((place / path).exists() for place in places)] == []


def test_the_map_names_every_package_and_fits_on_three_screens() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"^  ([\w.]+?)/?  +\S", text, re.MULTILINE)
    package = ROOT / "src" / "assent"
    packages = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.name for path in package.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert sorted(named) == sorted(packages | modules)
    assert len(text.splitlines()) <= 150
