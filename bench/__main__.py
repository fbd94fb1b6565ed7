"""Runs the benchmarks: all of them, or those that are named."""

import asyncio
import importlib
import inspect
import sys

from rich.console import Console

NAMES = ("expressions", "compile", "kernel")
"""The one list; each is a module here with `measure() -> Report`, plain or async."""


def main(names: list[str]) -> int:
    console = Console()
    if unknown := [name for name in names if name not in NAMES]:
        console.print(f"Unknown: {', '.join(unknown)}. There are: {', '.join(NAMES)}")
        return 2
    for name in names or NAMES:
        console.print(f"[dim]measuring {name} …[/]")
        report = importlib.import_module(f"bench.{name}").measure()
        (asyncio.run(report) if inspect.iscoroutine(report) else report).publish(console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
