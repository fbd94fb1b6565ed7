"""A process that uses an embedded server: `python -m tests.store.server_user <data folder>`.

Says the server's pid when it can query it, and leaves when its input ends.
"""

import asyncio
import signal
import sys
from pathlib import Path

import asyncpg

from assent.store.embedded.cluster import read_postmaster
from assent.store.embedded.server import EmbeddedServer


async def answer(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("select 42")
    finally:
        await connection.close()


def main(data_dir: Path) -> None:
    # A process that runs the tests in the background has them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with EmbeddedServer.start(data_dir, fast=True) as server:
        assert asyncio.run(answer(server.url("postgres"))) == 42
        print(read_postmaster(data_dir / "cluster").pid, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
