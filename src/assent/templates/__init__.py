"""The library of ready workflows: one folder each, with its files and a page of what it does.

`templates` returns them as values: which there are, what each is for, and its files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WorkflowTemplate:
    """A ready workflow."""

    name: str
    summary: str
    """The sentence under the title of its page."""
    files: dict[str, str]
    """File → text; the page is `README.md`."""


def library() -> Path:
    """Return the folder that holds one folder per template."""
    return Path(str(files("assent.templates")))


def template_names() -> list[str]:
    return sorted(folder.name for folder in library().iterdir() if (folder / "README.md").is_file())


@cache
def templates() -> Mapping[str, WorkflowTemplate]:
    """Return all of them, by name; they do not change while we run."""
    return {name: _read(name) for name in template_names()}


def _read(name: str) -> WorkflowTemplate:
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted((library() / name).iterdir())
        if file.suffix in (".md", ".yaml")
    }
    return WorkflowTemplate(name, first_sentence(texts["README.md"]), texts)


def first_sentence(page: str) -> str:
    """Return the sentence under the title of a template's page."""
    return next((line for line in page.splitlines()[1:] if line.strip()), "")
