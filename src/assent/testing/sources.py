"""What a test hands in — files, folders, plain data — as sources with the names and places that problems need."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assent import templates
from assent.compiler.declarations import kind_of
from assent.compiler.source import Source, SourceLimits, read_sources

Given = Path | str | Mapping[str, Any] | Source
"""A file or a folder by its path, a template as `template:invoice_approval`, or what a file would say, as data."""

SUFFIXES: Final = (".yaml", ".yml")
TEMPLATE: Final = "template:"
LIBRARY: Final = Path(templates.__file__).parent


def sources_of(given: Iterable[Given], folder: Path | None = None) -> list[Source]:
    """Return every document that is meant, in order; relative paths begin at `folder`."""
    return [source for number, one in enumerate(given, 1) for source in _sources(one, number, folder)]


def _sources(given: Given, number: int, folder: Path | None) -> list[Source]:
    if isinstance(given, Source):
        return [given]
    if isinstance(given, Mapping):
        return [Source(f"source {number}", dict(given))]
    path = path_of(given, folder)
    return documents_beside(path) if path.is_dir() else read_file(path)


def path_of(given: Path | str, folder: Path | None = None) -> Path:
    """Return where something lies that a test or a scenario names; raise `FileNotFoundError` with what was expected."""
    name = str(given)
    path = LIBRARY / name.removeprefix(TEMPLATE) if name.startswith(TEMPLATE) else (folder or Path()) / name
    if not path.exists():
        raise FileNotFoundError(f"expected a file, a folder or {TEMPLATE}<name>, found nothing at {name}")
    return path


def documents_beside(folder: Path) -> list[Source]:
    """Return what the YAML files right in a folder declare; other people's YAML is left alone."""
    files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    return [source for file in files for source in read_file(file) if _is_ours(source)]


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the YAML files in a folder and in those inside it, without what is hidden."""
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if file.suffix in SUFFIXES and not hidden and file.is_file():
            yield file


def read_file(file: Path) -> list[Source]:
    # A little more than a source may hold and no further: a huge file is refused, and never loaded.
    with file.open("rb") as stream:
        return read_sources(stream.read(SourceLimits().bytes_max + 1), str(file))


def _is_ours(source: Source) -> bool:
    return bool(source.problems) or kind_of(source) is not None
