"""The process on a node that runs functions, one at a time: `python -m assent.cluster.process FD`.

A process of its own can be interrupted wherever the function is, and its end is not the end of the node. It is used
again for the next call, and ends with the node, or after it was interrupted.
"""

import asyncio
import importlib
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final, NoReturn
from uuid import uuid4

from pydantic import ValidationError

from assent.cluster.messages import CALL, END, NOTES, MadeSubtask, RemoteCall, RemoteEnd, RemoteNotes
from assent.jobs.job import Failed
from assent.model.ids import new_id
from assent.model.parse import problems_of
from assent.model.problems import Invalid, error_text
from assent.tasks.attempt import failure_of, is_expected
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.context import TaskContext
from assent.tasks.notes import LINES_MAX, LOG_LEVELS, LogLevel
from assent.tasks.outcomes import Background, Blocked, Complete
from assent.tasks.task_type import Hook, TaskType, as_kept

SEND_EVERY_S: Final = 0.2
"""How often what the function says is sent on."""
NOTES_FRAME: Final = b"n"
END_FRAME: Final = b"e"
HEADER: Final = struct.Struct("!Ic")
"""The length of what follows, and what it is."""
INTERRUPTED: Final = 75
"""The exit code of a process whose function was interrupted."""


class Interrupted(BaseException):
    """The task was cancelled, or is not its worker's any more."""


class NotOnCluster(Exception):
    """The function asked for what only the worker has: the database."""


class Channel:
    """The connection to the node: calls come in, and notes and ends go out."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._noting = threading.Lock()
        self._progress: tuple[float, str] | None = None
        self._lines: list[tuple[LogLevel, str]] = []
        self.calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def say(self, fraction: float, message: str) -> None:
        with self._noting:
            self._progress = fraction, message

    def log(self, level: LogLevel, message: str) -> None:
        with self._noting:
            self._lines.append((level, message))

    def send_notes(self) -> None:
        with self._noting:
            notes = RemoteNotes(self._progress, tuple(self._lines))
            self._progress, self._lines = None, []
        if notes != RemoteNotes():
            self._send(NOTES_FRAME, NOTES.dump_json(notes))

    def send_end(self, end: RemoteEnd) -> None:
        self.send_notes()
        self._send(END_FRAME, END.dump_json(end))

    def serve(self) -> NoReturn:
        """Take calls, and send on what the function says; end the process with the node."""
        try:
            while True:
                if select.select([self._connection], [], [], SEND_EVERY_S)[0]:
                    self.calls.put(self._receive())
                self.send_notes()
        finally:
            os._exit(1)

    def _send(self, kind: bytes, body: bytes) -> None:
        with self._sending:
            self._connection.sendall(HEADER.pack(len(body), kind) + body)

    def _receive(self) -> bytes:
        length, _ = HEADER.unpack(self._read(HEADER.size))
        return self._read(length)

    def _read(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._connection.recv(min(length - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


class ClusterTask(TaskContext):
    """A task as its function sees it on a node. The database is out of its reach: the worker writes what it returns."""

    def __init__(self, claimed: ClaimedTask, channel: Channel) -> None:
        nothing: Any = None
        super().__init__(claimed, uuid4(), nothing, nothing, AsyncExitStack(), _make_subtask, nothing)
        self._channel = channel
        self._lines = 0

    def progress(self, fraction: float, message: str = "") -> None:
        if not 0 <= fraction <= 1:
            raise ValueError(f"Expected a progress from 0 to 1, found {fraction}.")
        self._channel.say(float(fraction), message)

    def log(self, message: str, level: LogLevel = "info") -> None:
        if level not in LOG_LEVELS:
            raise ValueError(f"Expected one of {', '.join(LOG_LEVELS)}, found {level!r}.")
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._channel.log(level, message)

    def transaction(self) -> NoReturn:
        raise NotOnCluster(
            "a task of the cluster has no transaction: return its output, or make a subtask that writes"
        )

    async def emit(self, key: str, data: Any = None, *, cause: str | None = None) -> NoReturn:
        raise NotOnCluster("a task of the cluster emits no events: make a subtask that does")


def _make_subtask(type: str, input: Any, priority: int | None) -> Any:
    """Return a subtask that the worker checks when the function has returned."""
    kept = as_kept(input if input is not None else {}, "input")
    return MadeSubtask(new_id(datetime.now(UTC)), type, kept, priority)


def kind_at(place: str) -> TaskType:
    """Return the task that is declared in a module under a name; raise `LookupError` where there is none."""
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    kind = getattr(found, "kind", None)
    if not isinstance(kind, TaskType):
        raise LookupError(f"Expected what `@app.task` returned at `{place}`, found {type(found).__name__}.")  # noqa: TRY004
    return kind


def run_call(call: RemoteCall, channel: Channel) -> RemoteEnd:
    """Run the function of a call, and return how it ended."""
    kind = kind_at(call.place)
    hook = getattr(kind, call.hook)
    task = ClusterTask(call.claimed, channel)
    try:
        arguments = kind.arguments(hook, task, call.claimed.input, call.error)
        returned = _run_async(hook, arguments) if hook.is_async else _run_plain(hook, task, arguments)
        return _end(task, returned)
    except ValidationError as error:
        message = error_text(Invalid(problems_of(error)))
        return RemoteEnd("failed", failed=Failed("BAD_INPUT", message, permanent=True), raised=True)
    except Exception as error:
        expected = is_expected(error)
        return RemoteEnd("failed", failed=failure_of(kind, error), raised=True, is_expected=expected)


def _run_async(hook: Hook, arguments: Mapping[str, Any]) -> Any:
    async def run() -> Any:
        running = asyncio.current_task()
        assert running is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        return await hook.run(**arguments)

    return asyncio.run(run())


def _run_plain(hook: Hook, task: ClusterTask, arguments: Mapping[str, Any]) -> Any:
    def interrupt(number: int, frame: object) -> NoReturn:
        task.interrupt()
        raise Interrupted

    signal.signal(signal.SIGTERM, interrupt)
    try:
        return hook.run(**arguments)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(task: ClusterTask, returned: Any) -> RemoteEnd:
    made: Any = tuple(task.made)
    match returned:
        case Failed():
            return RemoteEnd("failed", failed=returned, subtasks=made)
        case Blocked():
            return RemoteEnd("blocked", subtasks=made)
        case Background():
            return RemoteEnd("background", reason=returned.reason, timeout=returned.length, subtasks=made)
        case Complete():
            return RemoteEnd("complete", as_kept(returned.output, "output"), subtasks=made)
        case _:
            return RemoteEnd("complete", as_kept(returned, "output"), subtasks=made)


def main() -> None:
    """Run calls until the node ends, or one of them is interrupted."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    threading.Thread(target=channel.serve, name="channel", daemon=True).start()
    while True:
        call = CALL.validate_json(channel.calls.get())
        try:
            end = run_call(call, channel)
        except (Interrupted, asyncio.CancelledError):
            os._exit(INTERRUPTED)
        channel.send_end(end)


if __name__ == "__main__":
    main()
