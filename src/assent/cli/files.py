"""From paths on the command line to texts: files, folders, and `-` for standard input.

Reads a little more than a source may hold and no further, so that a huge file is refused and never loaded.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from assent.compiler.source import Source, SourceLimits, read_sources

SUFFIXES = (".yaml", ".yml")
"""What is read in a folder; a file that is named is read whatever it is called."""
FILES_MAX = 10_000


def sources_at(paths: Sequence[Path]) -> list[Source]:
    """Every document in the files at `paths`, in order; a folder means all YAML files below it."""
    files = [file for path in paths for file in files_at(path)]
    return [source for file in dict.fromkeys(files) for source in read_sources(_bytes_of(file), str(file))]


def files_at(path: Path) -> list[Path]:
    """The files that `path` means; a path that means none is a usage error."""
    if str(path) == "-" or path.is_file():
        return [path]
    if not path.is_dir():
        raise typer.BadParameter(f"there is no file or folder {path}")
    files = sorted(_below(path))
    if not files:
        raise typer.BadParameter(f"no {', '.join(SUFFIXES)} file in the folder {path}")
    if len(files) > FILES_MAX:
        raise typer.BadParameter(f"more than {FILES_MAX:,} files in the folder {path}")
    return files


def _below(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if file.suffix in SUFFIXES and not hidden and file.is_file():
            yield file


def _bytes_of(file: Path) -> bytes:
    size = SourceLimits().bytes_max + 1
    if str(file) == "-":
        return sys.stdin.buffer.read(size)
    try:
        with file.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from error
