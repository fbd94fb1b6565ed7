"""A process that forks workers: the imports are made once, and a worker is there in a moment.

Each line that it reads is a wish for one more. A worker processes events until there are none. Run by
`tests/scenarios/test_kill_workers.py`.
"""

import asyncio
import os
import signal
import sys
from datetime import datetime

from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.postgres import SETTINGS
from tests.processes.application import app, say

BATCH = 6


async def work(url: str, now: str) -> None:
    database = await Database.open(url, settings=SETTINGS, clock=MovedClock(datetime.fromisoformat(now)))
    runtime = app.runtime(database)
    processor = EventProcessor(runtime.core)
    while await processor.process_events(BATCH):
        pass
    say(news="done")


def main(url: str, now: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to be waited for
    for _ in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asyncio.run(work(url, now))
            os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
