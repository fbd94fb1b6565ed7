"""A cheap HTTP client in a process of its own: it posts one body to many paths, over so many kept-alive connections.

It parses no more of an answer than its status and length, so that the server is what is measured; its own CPU is
part of what it reports.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import NamedTemporaryFile
from typing import Any, Final

from bench.child import ChildRun, run_child

BODY: Final = b'{"answer": "approved"}'
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: (\d+)")


@dataclass(frozen=True, slots=True)
class Click:
    """A path to post to, and the key to sign in with; peers ask for none."""

    path: str
    key: str | None = None


async def click_all(host: str, port: int, clicks: Sequence[Click], clients: int) -> ChildRun:
    """Post to every path from a process of its own; return the rate, and the quantiles and CPU as facts."""
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([asdict(click) for click in clicks], file)
        file.flush()
        return await run_child("bench.clicks", [host, port, clients, file.name], len(clicks))


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[int] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("The server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if separator and length and len(body) >= int(length[1]) and self._answer is not None:
            self._received = b""
            self._answer.set_result(int(head[9:12]))

    async def post(self, request: bytes) -> int:
        """Return the status of the answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer


async def _click(host: str, port: int, waiting: list[bytes], times_s: list[float]) -> None:
    _, connection = await asyncio.get_running_loop().create_connection(_Connection, host, port)
    while waiting:
        request = waiting.pop()
        began = time.perf_counter()
        status = await connection.post(request)
        times_s.append(time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"Expected 200, found {status} for {request.splitlines()[0]!r}")


def _request(host: str, click: Click) -> bytes:
    signed = f"authorization: Bearer {click.key}\r\n" if click.key else ""
    head = (
        f"POST {click.path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(BODY)}\r\n{signed}\r\n"
    )
    return head.encode() + BODY


async def measure(host: str, port: int, clients: int, clicks: Sequence[Click]) -> ChildRun:
    """Post to all paths; return the rate, the quantiles and this process's CPU."""
    waiting = [_request(host, click) for click in clicks]
    times_s: list[float] = []
    cpu, began = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(_click(host, port, waiting, times_s))
    seconds = time.perf_counter() - began
    facts = {
        "p50_ms": median(times_s) * 1000,
        "p95_ms": quantiles(times_s, n=20)[-1] * 1000,
        "client_cpu_ms": (time.process_time() - cpu) / len(times_s) * 1000,
    }
    return ChildRun(len(times_s), seconds, facts)


if __name__ == "__main__":
    listed = [Click(**click) for click in json.loads(Path(sys.argv[4]).read_text())]
    asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), listed)).hand_over()
