"""Absurd: tasks of ten trivial steps, a backlog drained by its asynchronous worker, twenty at a time."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd, AsyncTaskContext

from assent.store.embedded.programs import wheel_programs
from bench.child import ChildRun

AT_A_TIME = 20
STEPS = 10
QUEUE = "bench"


def prepare(url: str) -> None:
    """Make Absurd's schema and a queue with its own tool, which needs psql; the wheel brings one."""
    path = f"{wheel_programs()}{os.pathsep}{os.environ.get('PATH', '')}"
    for command in (["init"], ["create-queue", QUEUE]):
        words = [str(Path(sys.executable).with_name("absurdctl")), *command, "--database", url]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PATH": path})


async def measure(url: str, workflows: int, warm_up: int) -> ChildRun:
    absurd = AsyncAbsurd(url, queue_name=QUEUE)
    try:
        await _drain(absurd, warm_up)
        before = _steps(url)
        seconds = await _drain(absurd, workflows)
        return ChildRun(_steps(url) - before, seconds)
    finally:
        await absurd.close()


async def _drain(absurd: AsyncAbsurd, workflows: int) -> float:
    left = workflows

    async def ten_steps(_: Any, context: AsyncTaskContext) -> int:
        nonlocal left
        number = 0
        for _step in range(STEPS):
            number = await context.step("trivial", trivial)
        left -= 1
        if not left:
            absurd.stop_worker()  # it ends when the tasks that it holds are done
        return number

    absurd.register_task("ten_steps")(ten_steps)
    for number in range(workflows):
        await absurd.spawn("ten_steps", number)
    started = time.perf_counter()
    await absurd.start_worker(concurrency=AT_A_TIME)
    return time.perf_counter() - started


async def trivial() -> int:
    return 1


def _steps(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT count(*) FROM absurd.c_{QUEUE}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))).hand_over()
