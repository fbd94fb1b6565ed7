"""`assent test`: run scenarios, and say of each that fails which step it was and who was waited for."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.options import JsonOption, OptionalAppOption, load_app

if TYPE_CHECKING:
    from assent.app import App
    from assent.testing.scenarios.suite import FoundScenario, ScenarioResult

PathsArgument = Annotated[
    list[Path] | None, typer.Argument(help="Files, or folders with scenarios in them; unsaid, this folder.")
]
WordOption = Annotated[
    str | None, typer.Option("-k", help="Only scenarios with this text in their name or their file's name.")
]
FailFastOption = Annotated[bool, typer.Option("--fail-fast", "-x", help="Stop at the first that fails.")]


def run_tests(
    paths: PathsArgument = None,
    word: WordOption = None,
    fail_fast: FailFastOption = False,
    json: JsonOption = False,
    app: OptionalAppOption = None,
) -> None:
    """Run scenarios: each in a database of its own, with a clock that moves by itself.

    A scenario uses the contracts, patches and flows in its own file, those that it names with `uses`, or those beside
    it. Exit code 1 means that one failed.
    """
    from assent.cli.output import print_json
    from assent.store.errors import StoreError

    found = _chosen(paths or [Path()], word)
    application = load_app(app) if app else None
    try:
        outcomes = asyncio.run(_run(found, application, fail_fast=fail_fast, shown=not json))
    except StoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if json:
        print_json([outcome.to_json() for outcome in outcomes])
    else:
        _print(outcomes, found)
    raise typer.Exit(0 if all(outcome.passed for outcome in outcomes) else 1)


def _chosen(paths: Sequence[Path], word: str | None) -> "list[FoundScenario]":
    from assent.testing.scenarios.suite import find_scenarios

    for path in paths:
        if not path.exists():
            raise typer.BadParameter(f"there is no file or folder {path}")
    everything = find_scenarios(paths)
    found = [one for one in everything if word is None or word.lower() in f"{one.name} {one.file}".lower()]
    if not found:
        where = ", ".join(map(str, paths))
        which = f" has {word!r} in its name" if everything else " was found"
        raise typer.BadParameter(f"no scenario{which} in {where}; one begins with `scenario:`")
    return found


async def _run(
    found: "Sequence[FoundScenario]", app: "App | None", *, fail_fast: bool, shown: bool
) -> "list[ScenarioResult]":
    from assent.cli.scenario_table import ScenarioTable

    outcomes = []
    with ExitStack() as stack:
        table = stack.enter_context(ScenarioTable([one.name for one in found])) if shown else None
        for one in found:
            if table:
                table.begin(one.name)
            outcomes.append(await one.run(app))
            if table:
                table.end(outcomes[-1])
            if fail_fast and not outcomes[-1].passed:
                break
    return outcomes


def _print(outcomes: "Sequence[ScenarioResult]", found: "Sequence[FoundScenario]") -> None:
    from assent.cli.output import console, print_problems

    out = console()
    sources = [one.source for one in found] + [source for one in found for source in one.definitions]
    for outcome in outcomes:
        if outcome.failure is not None:
            out.print("\n" + outcome.text())
        elif outcome.problems:
            out.print(f"\n{outcome.scenario} ({outcome.file}:{outcome.line})")
            print_problems(outcome.problems, sources)
    out.print(_summary(outcomes, len(found)))


def _summary(outcomes: "Sequence[ScenarioResult]", count: int) -> str:
    from assent.cli.output import counted

    failed = sum(not outcome.passed for outcome in outcomes)
    left = f", {count - len(outcomes)} not run" if len(outcomes) < count else ""
    took = f"in {sum(outcome.took_s for outcome in outcomes):.1f} s"
    if failed:
        return f"\n✗ {failed} of {counted(len(outcomes), 'scenario')} failed{left}, {took}"
    return f"\n✓ {counted(len(outcomes), 'scenario')} passed, {took}"
