"""Paths on the command line, read as sources and compiled to workflows.

Reads a little more than a source may hold and no further, so that a huge file is refused and never loaded.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from assent.cli.output import counted, print_problems, print_summary
from assent.compiler.declarations import Compiled, compile_sources
from assent.compiler.diff import Diff, diff
from assent.compiler.source import Source, SourceLimits, read_sources
from assent.model.problems import Invalid, Problem
from assent.model.workflow import Workflow

if TYPE_CHECKING:
    from assent.app import App

SUFFIXES = (".yaml", ".yml")
"""What is read in a folder; a file that is named is read whatever it is called."""
FILES_MAX = 10_000


def sources_at(paths: Sequence[Path]) -> list[Source]:
    """Return every document in the files at `paths`, in order; a folder means all YAML files below it."""
    files = [file for path in paths for file in files_at(path)]
    return [source for file in dict.fromkeys(files) for source in read_sources(_bytes_of(file), str(file))]


def sources_given(paths: Sequence[Path] | None, application: "App | None") -> list[Source]:
    """Return every document at `paths`; without paths, everything that the application adds."""
    if paths:
        return sources_at(paths)
    if application is None:
        message = "expected files or folders, or an application with --app"
        raise typer.BadParameter(message, param_hint="paths")
    if not application.sources:
        message = (
            "the application adds no contracts, patches or flows: name files, or add them with app.add(…)"
        )
        raise typer.BadParameter(message, param_hint="paths")
    return list(application.sources)


def texts_of(sources: Sequence[Source]) -> list[tuple[str, str]]:
    """Return the names of sources and their documents as JSON, which is YAML, as a server compiles them."""
    return [(source.name, json.dumps(source.data)) for source in sources]


def texts_at(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the names and the texts of the files at `paths`, as a server compiles them."""
    files = dict.fromkeys(file for path in paths for file in files_at(path))
    try:
        return [(str(file), _bytes_of(file).decode()) for file in files]
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"expected text in UTF-8: {error}") from None


def files_at(path: Path) -> list[Path]:
    """Return the files that `path` means; a path that means none is a usage error."""
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


def exit_with_problems(problems: Sequence[Problem]) -> NoReturn:
    """Print the problems of an application's declarations as `check` does, each with its line, and exit with 1."""
    names = dict.fromkeys(problem.source for problem in problems if problem.source is not None)
    print_problems(problems, [source for name in names for source in _sources_if_readable(name)], stderr=True)
    print_summary(problems, counted(len(names), "document"), stderr=True)
    raise typer.Exit(1)


def _sources_if_readable(name: str) -> list[Source]:
    """Return the documents of a file; none of what is no file, such as a value of Python, or is no YAML."""
    try:
        return sources_at([Path(name)]) if Path(name).is_file() else []
    except Invalid:
        return []


def declared_at(path: Path) -> tuple[Compiled, ...]:
    """Return what the sources at `path` declare; their problems end the command with exit code 1."""
    sources = sources_at([path])
    found = compile_sources(sources)
    if found.problems:
        print_problems(found.problems, sources, stderr=True)
        print_summary(found.problems, counted(len(sources), "document"), stderr=True)
        raise typer.Exit(1)
    return found.compiled


def compiled_at(path: Path) -> list[Workflow]:
    """Return the workflows at `path`, at least one."""
    workflows = [found.workflow for found in declared_at(path) if found.workflow is not None]
    if not workflows:
        raise typer.BadParameter(f"nothing in {path} has a workflow")
    return workflows


def as_json(workflows: Sequence[Workflow]) -> str:
    """Return one workflow as an object, several as a list."""
    found = [workflow.to_json() for workflow in workflows]
    return json.dumps(found[0] if len(found) == 1 else found, ensure_ascii=False, indent=2) + "\n"


def one_line(workflow: Workflow) -> str:
    size = f"{counted(len(workflow.nodes), 'node')}, {counted(len(workflow.edges), 'edge')}"
    return f"{workflow.key} {workflow.version}  {workflow.kind}  {size}  {workflow.hash}"


def changes_of_patches(path: Path) -> list[Diff]:
    """Return what the patches at `path` change of the bare envelopes."""
    found = [diff(one.bare, one.workflow) for one in declared_at(path) if one.bare and one.workflow]
    if not found:
        raise typer.BadParameter(f"there is no contract with a workflow in {path}; name two versions instead")
    return found


def changes_of_versions(older: Path, newer: Path) -> list[Diff]:
    """Return what is different at `newer`, for each workflow that both paths have."""
    before = {(workflow.kind, workflow.key): workflow for workflow in compiled_at(older)}
    after = {(workflow.kind, workflow.key): workflow for workflow in compiled_at(newer)}
    if not before.keys() & after.keys():
        raise typer.BadParameter(f"{older} and {newer} have no workflow in common")
    return [diff(before[key], after[key]) for key in before if key in after]
