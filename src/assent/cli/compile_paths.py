"""Paths compiled to workflows, for the commands that need them free of problems."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from assent.cli.files import sources_at
from assent.cli.report import counted, print_problems, print_summary
from assent.compiler.changes import Diff
from assent.compiler.declarations import Compiled, compile_sources
from assent.compiler.diff import diff
from assent.model.workflow import Workflow


def declared_at(path: Path) -> tuple[Compiled, ...]:
    """What the sources at `path` declare; their problems end the command with exit code 1."""
    sources = sources_at([path])
    found = compile_sources(sources)
    if found.problems:
        print_problems(found.problems, sources, stderr=True)
        print_summary(found.problems, counted(len(sources), "document"), stderr=True)
        raise typer.Exit(1)
    return found.compiled


def compiled_at(path: Path) -> list[Workflow]:
    """The workflows at `path`, at least one."""
    workflows = [found.workflow for found in declared_at(path) if found.workflow is not None]
    if not workflows:
        raise typer.BadParameter(f"nothing in {path} has a workflow")
    return workflows


def as_json(workflows: Sequence[Workflow]) -> str:
    """One workflow as an object, several as a list."""
    found = [workflow.to_json() for workflow in workflows]
    return json.dumps(found[0] if len(found) == 1 else found, ensure_ascii=False, indent=2) + "\n"


def one_line(workflow: Workflow) -> str:
    size = f"{counted(len(workflow.nodes), 'node')}, {counted(len(workflow.edges), 'edge')}"
    return f"{workflow.key} {workflow.version}  {workflow.kind}  {size}  {workflow.hash}"


def changes_of_patches(path: Path) -> list[Diff]:
    """What the patches at `path` change of the bare envelopes."""
    found = [diff(one.bare, one.workflow) for one in declared_at(path) if one.bare and one.workflow]
    if not found:
        raise typer.BadParameter(f"there is no contract with a workflow in {path}; name two versions instead")
    return found


def changes_of_versions(older: Path, newer: Path) -> list[Diff]:
    """What is different at `newer`, for each workflow that both paths have."""
    before = {(workflow.kind, workflow.key): workflow for workflow in compiled_at(older)}
    after = {(workflow.kind, workflow.key): workflow for workflow in compiled_at(newer)}
    if not before.keys() & after.keys():
        raise typer.BadParameter(f"{older} and {newer} have no workflow in common")
    return [diff(before[key], after[key]) for key in before if key in after]
