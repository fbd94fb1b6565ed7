"""A process that forks workers with every duty: the imports are made once, and a worker is there in a moment.

Each line that it reads is a wish for one more; it says the process id of each. Run by `tests/tasks/kills.py`.
"""

import asyncio
import os
import signal
import sys

import asyncpg

import assent
from assent.effects.settings import SendingSettings
from assent.running import worker_of
from assent.store.database import Database
from assent.worker.options import Options

CALL_S = 0.01
"""How long a call of an outside system takes."""

app = assent.App().grant("bookings", "INSERT")
_outside: list[asyncpg.Pool] = []


@app.task("kills.call")
async def call(task: assent.TaskContext) -> None:
    """Write outside of every transaction, as a call of another system does."""
    insert = "INSERT INTO public.calls (task_id, attempt, pid) VALUES ($1, $2, $3)"
    await _outside[0].execute(insert, task.id, task.attempt, os.getpid())
    await asyncio.sleep(CALL_S)


@app.task("kills.book")
async def book(task: assent.TaskContext) -> None:
    await call(task)
    async with task.transaction() as connection:
        await connection.execute("INSERT INTO public.bookings (task_id) VALUES ($1)", task.id)


async def work(url: str) -> None:
    database = await Database.open(url)
    _outside.append(await asyncpg.create_pool(url, min_size=1, max_size=4))
    await worker_of(app, database, SendingSettings(), Options()).run()


def main(url: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child has to be waited for
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            asyncio.run(work(url))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
