"""A measurement in a process of its own: the child ends with one line of JSON, and the parent reads it."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class ChildRun:
    """What a child did, counted in its database, and how long that took by its own clock."""

    units: int
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.units / self.seconds

    def hand_over(self) -> None:
        print(json.dumps(asdict(self)))

    @classmethod
    def read(cls, output: str) -> Self:
        return cls(**json.loads(output.splitlines()[-1]))


async def run_child(module: str, arguments: Sequence[object], expected: int) -> ChildRun:
    """Run `python -m module arguments…` to its end; raises where it did not do exactly what was expected."""
    return await run_program([sys.executable, "-m", module], arguments, expected)


async def run_program(program: Sequence[str], arguments: Sequence[object], expected: int) -> ChildRun:
    """Run any program whose last line says what it did; what it says about errors goes to our own terminal."""
    words, module = [*program, *map(str, arguments)], program[-1]
    child = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await asyncio.wait_for(child.communicate(), TIMEOUT_S)
    except BaseException:
        child.kill()
        await child.wait()
        raise
    if child.returncode != 0:
        raise RuntimeError(f"Expected {module} to end with code 0, found {child.returncode}; see above")
    run = ChildRun.read(output.decode())
    if run.units != expected:
        raise RuntimeError(f"Expected {expected} of {module}, found {run.units}")
    return run
