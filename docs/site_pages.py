"""What the site needs besides docs/: pages of the repository's root, the examples, and links that lead to them.

`mkdocs.yml` names this file; nothing else uses it.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "about.md",
    "SECURITY.md": "SECURITY.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Page of the root → its place in the site, where README.md would be taken for the index."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    for page in sorted((ROOT / "examples").glob("*/README.md")):
        text = "\n".join([page.read_text(encoding="utf-8"), *map(_listing, sorted(page.parent.glob("*.*")))])
        files.append(File.generated(config, f"examples/{page.parent.name}.md", content=text))
    for example in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {example.name}\n\n```python\n{example.read_text(encoding='utf-8')}```\n"
        files.append(File.generated(config, f"examples/{example.stem}.md", content=text))
    return files


def _listing(path: Path) -> str:
    """Return a module of an example as a part of its page; the page itself is no module."""
    language = {".py": "python", ".sql": "sql"}.get(path.suffix)
    if language is None:
        return ""
    return f"## {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links of the repository lead to pages of the site; what is no page there stays as text."""
    place = page.file.src_uri
    origins = {place: source for source, place in PAGES.items()}
    of_example = ROOT / place.removesuffix(".md") / "README.md"
    origin = f"{of_example.parent.relative_to(ROOT)}/README.md" if of_example.exists() else f"docs/{place}"
    folder = (ROOT / origins.get(place, origin)).parent
    depth = place.count("/")

    def rewritten(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = (folder / target).resolve()
        if not path.is_relative_to(ROOT):
            return link[0]
        return _in_site(text, path.relative_to(ROOT).as_posix(), anchor, depth)

    return LINK.sub(rewritten, markdown)


def _in_site(text: str, path: str, anchor: str, depth: int) -> str:
    up = "../" * depth
    if path in PAGES:
        return f"[{text}]({up}{PAGES[path]}{anchor})"
    if path.startswith("docs/"):
        return f"[{text}]({up}{path.removeprefix('docs/')}{anchor})"
    if path.startswith("examples/") and path.endswith("/README.md"):
        return f"[{text}]({up}{path.removesuffix('/README.md')}.md)"
    if path.startswith("examples/") and path.endswith(".py"):
        return f"[{text}]({up}{path.removesuffix('.py')}.md)"
    return text if text.startswith("`") else f"{text} (`{path}`)"
