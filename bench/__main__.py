"""Runs the benchmarks: all of them, or those that are named."""

import asyncio
import importlib
import inspect
import os
import sys

from rich.console import Console

from bench.report import LOAD_BEFORE

NAMES = (
    "expressions",
    "compile",
    "kernel",
    "steps",
    "orgs",
    "history",
    "latency",
    "documents",
    "statements",
    "http",
    "decisions",
    "inbox",
    "pages",
    "board",
    "effects",
    "tasks",
    "results",
    "tracing",
)
"""The one list; each is a module here with `measure() -> Report`, plain or async."""


def main(names: list[str]) -> int:
    console = Console()
    if unknown := [name for name in names if name not in NAMES]:
        console.print(f"Unknown: {', '.join(unknown)}. There are: {', '.join(NAMES)}")
        return 2
    if LOAD_BEFORE / (os.cpu_count() or 1) > 0.3:
        console.print(f"[yellow]The machine is busy (load {LOAD_BEFORE}); the figures will not mean much.[/]")
    for name in names or NAMES:
        console.print(f"[dim]measuring {name} …[/]")
        report = importlib.import_module(f"bench.{name}").measure()
        (asyncio.run(report) if inspect.iscoroutine(report) else report).publish(console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
