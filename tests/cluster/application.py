"""Tasks of a cluster, in a module that its nodes import. Functions say what they do in files, which a test reads."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import assent

app = assent.App()


def say(folder: str, word: str) -> None:
    """Leave a file with the process's id."""
    with (Path(folder) / word).open("a") as file:
        file.write(f"{os.getpid()}\n")


def wait_for(folder: str, word: str) -> None:
    while not (Path(folder) / word).exists():
        time.sleep(0.01)


@app.task("cluster.add", cluster=True)
def add(task: assent.TaskContext, a: int, b: int = 1) -> dict[str, Any]:
    return {"sum": a + b, "pid": os.getpid(), "attempt": task.attempt, "org": task.org_id}


@app.task("cluster.double", cluster=True)
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@app.task("cluster.read", cluster=True)
def read(task: assent.TaskContext, pages: int, folder: str) -> int:
    for page in range(1, pages + 1):
        task.progress(page / pages, f"page {page} of {pages}")
        task.log(f"read page {page}")
    say(folder, "read")
    wait_for(folder, "go")
    task.log("closed the book", level="warning")
    return pages


@app.task("cluster.divide", cluster=True, attempts_max=3)
def divide(number: int) -> float:
    return number / 0


def _is_closed(error: BaseException) -> bool:
    return isinstance(error, LookupError)


@app.task("cluster.choosy", cluster=True, retry_on=_is_closed)
def choosy(number: int) -> None:
    raise (LookupError if number else ValueError)("no")


@app.task("cluster.later", cluster=True)
def later(task: assent.TaskContext) -> int:
    if task.attempt < 3:
        raise assent.Retry("not yet", after="10s")
    return task.attempt


@app.task("cluster.give_up", cluster=True)
def give_up() -> None:
    raise assent.GiveUp("there is nothing to do")


@app.task("cluster.returned", cluster=True)
def returned(how: str) -> Any:
    if how == "background":
        return assent.Background("the printer has it", timeout=timedelta(hours=2))
    return assent.Failed("DAMAGED", "it is damaged", permanent=True)


@app.task("cluster.long", cluster=True)
def long(folder: str, word: str = "begun") -> None:
    """Sleep in one call, which nothing but a signal ends, with a process of its own beside it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    (Path(folder) / "child").write_text(str(child.pid))
    say(folder, word)
    try:
        time.sleep(3_600)
    finally:
        say(folder, f"{word}.broken")


@app.task("cluster.long_async", cluster=True)
async def long_async(folder: str) -> None:
    say(folder, "begun")
    try:
        await asyncio.sleep(3_600)
    finally:
        say(folder, "begun.broken")


@app.task("cluster.stubborn", cluster=True)
def stubborn(folder: str) -> None:
    """Catch whatever is raised, and go on."""
    say(folder, "begun")
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(3_600)


@app.task("cluster.brief", cluster=True, timeout="2s", attempts_max=1)
def brief(folder: str) -> None:
    say(folder, "begun")
    time.sleep(3_600)


@app.task("cluster.once", cluster=True)
def once(task: assent.TaskContext, folder: str) -> int:
    """Wait at the first attempt, and return at the next."""
    say(folder, f"attempt-{task.attempt}")
    if task.attempt == 1:
        time.sleep(3_600)
    return task.attempt


@app.task("cluster.kill", cluster=True, attempts_max=2)
def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task("cluster.writes", cluster=True, attempts_max=1)
async def writes(task: assent.TaskContext) -> None:
    async with task.transaction():
        pass


@app.task("cluster.measure", cluster=True)
def measure(name: str) -> int:
    return len(name)


@app.task("cluster.sum", cluster=True)
class Sum:
    """A task with subtasks, all of them on the cluster."""

    def on_start(self, task: assent.TaskContext, names: list[str]) -> assent.Blocked:
        for name in names:
            task.subtask("cluster.measure", {"name": name})
        return assent.Blocked()

    def on_resume(self, task: assent.TaskContext) -> int:
        return sum(each.output for each in task.subtasks)


@app.task("cluster.wrong_subtask", cluster=True, attempts_max=1)
def wrong_subtask(task: assent.TaskContext) -> assent.Blocked:
    task.subtask("cluster.unheard_of")
    return assent.Blocked()


@app.task("cluster.sleepy", cluster=True)
def sleepy(folder: str, number: int) -> int:
    say(folder, f"sleepy-{number}")
    time.sleep(0.05)
    return number


@app.task("cluster.beside")
def beside() -> int:
    return os.getpid()
