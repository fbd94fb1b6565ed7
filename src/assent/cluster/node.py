"""What a node does for a worker: it has a process run the function, and passes on what that says and how it ends.

It runs as a coroutine on the event loop of a Dask worker, and takes one of its places.
"""

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, Final

from distributed import get_worker

from assent.cluster.messages import END, lost
from assent.cluster.process import END_FRAME, HEADER

LOOK_EVERY_S: Final = 0.1
"""How often a node looks whether the function is still wanted, and passes on what it has said."""
INTERRUPT_S: Final = 0.4
"""How long an interrupted function may take to end, before its process and those that it has started are killed."""

_idle: list["FunctionProcess"] = []
"""Processes that wait for a call."""


class ProcessLost(Exception):
    """The process ended before the function did."""


class FunctionProcess:
    """A process that runs functions for this node, one at a time."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls) -> "FunctionProcess":
        """Start a process, in a group of its own; it ends when its connection does."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "assent.cluster.process", str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    async def run(self, message: bytes, said: list[bytes]) -> bytes:
        """Return how a call ended; raise `ProcessLost` where the process ended first."""
        try:
            self._writer.write(HEADER.pack(len(message), b"c") + message)
            await self._writer.drain()
            while True:
                length, kind = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                body = await self._reader.readexactly(length)
                if kind == END_FRAME:
                    return body
                said.append(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._process.wait()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise ProcessLost(f"the process that ran it ended with {how}") from None

    async def interrupt(self) -> None:
        """Interrupt the function, and end the process and those that it has started."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERRUPT_S):
                await self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._writer.close()


async def run_on_node(message: bytes, key: str, topic: str) -> bytes:
    """Run a call in a process of this node, and return how it ended.

    An attempt runs once: where a node was lost with it, Dask has another node run it, which finds that it was begun.
    """
    node = get_worker()
    if await node.scheduler.event_is_set(name=key):
        return END.dump_json(lost("the node of the cluster that ran it was lost"))
    await node.scheduler.event_set(name=key)
    node.log_event(topic, {"key": key, "node": node.address})
    process = await _take()
    said: list[bytes] = []
    running = asyncio.create_task(process.run(message, said))
    try:
        while not (await asyncio.wait({running}, timeout=LOOK_EVERY_S))[0]:
            _pass_on(node, topic, key, said)
            if not _is_wanted(node, key):
                running.cancel()
                await process.interrupt()
                await node.scheduler.event_clear(name=key)
                return b""
        _pass_on(node, topic, key, said)
        ended = await running
    except ProcessLost as error:
        return END.dump_json(lost(str(error)))
    except BaseException:
        running.cancel()
        await process.interrupt()
        raise
    _idle.append(process)
    return ended


async def _take() -> FunctionProcess:
    while _idle:
        process = _idle.pop()
        if process.is_alive:
            return process
    return await FunctionProcess.start()


def _pass_on(node: Any, topic: str, key: str, said: list[bytes]) -> None:
    """Send what the function has said to its worker, by way of the scheduler."""
    if said:
        node.log_event(topic, {"key": key, "said": list(said)})
        said.clear()


def _is_wanted(node: Any, key: str) -> bool:
    """Return whether the scheduler still has this node run it: the task was not cancelled, and its worker is there."""
    task = node.state.tasks.get(key)
    return task is not None and task.state in {"executing", "long-running"}
