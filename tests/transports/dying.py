"""A process that forks readers of a stream, each of which kills itself at a point of its way.

Each line that it reads says what to read and at which point to die: the points are the statements, and the moments
before and after an acknowledgement. A reader that comes to the end of the stream says how many points it has passed.
"""

import asyncio
import importlib
import json
import os
import signal
import sys
from datetime import datetime
from typing import Any
from uuid import uuid4

import asyncpg

from assent.requests.messages import StreamSource
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.transports.open import open_consumer
from assent.transports.settings import StreamSettings
from tests.postgres import SETTINGS

for client in ("redis", "kafka", "nats"):
    importlib.import_module(f"assent.transports.{client}")


class Points:
    """Counts the points that a reader has passed, and ends its process at one of them."""

    def __init__(self, kill_at: int) -> None:
        self._kill_at = kill_at
        self.passed = 0

    def __call__(self, query: asyncpg.connection.LoggedQuery | None = None) -> None:
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


async def read(url: str, now: str, source: list[str], settings: dict[str, Any], kill_at: int) -> int:
    database = await Database.open(url, settings=SETTINGS, clock=MovedClock(datetime.fromisoformat(now)))
    stream = StreamSettings.defaults(**settings)
    consumer = open_consumer(StreamSource(*source), stream, database, uuid4())  # type: ignore[arg-type]
    points, acknowledge = Points(kill_at), consumer._transport.acknowledge

    async def acknowledged(*given: Any) -> None:
        points()
        await acknowledge(*given)
        points()

    consumer._transport.acknowledge = acknowledged  # type: ignore[method-assign]
    with database.observe(points):
        # What a reader before this one has left comes after a while.
        while await consumer.consume(stream.batch_max, 0.1) or await consumer.look() != 0:
            pass
    await consumer.close()
    await database.close()
    return points.passed


def main() -> None:
    for line in sys.stdin:
        wish = json.loads(line)
        if (child := os.fork()) == 0:
            print(json.dumps({"passed": asyncio.run(read(**wish))}), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(json.dumps({"killed": os.WTERMSIG(status)}), flush=True)
        elif status:
            print(json.dumps({"failed": status}), flush=True)


if __name__ == "__main__":
    main()
