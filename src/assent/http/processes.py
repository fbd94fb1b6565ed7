"""Several server processes on one listening socket, and the parent that starts, watches and stops them.

The parent opens no connection and serves nothing: it forks before there is a loop or a thread. A process that dies is
replaced; the socket stays open meanwhile, and the others accept from it. Where the parent dies, its processes end.
"""

import asyncio
import logging
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_log = logging.getLogger(__name__)

YOUNG_S: Final = 10.0
"""A process that dies at a younger age is replaced after a wait, which doubles each time."""
BACKOFF_S_MAX: Final = 30.0
KILL_AFTER_S: Final = 10.0
"""How much longer than its grace period a process may take to end before it is killed."""
FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class ParentProcess:
    """The parent as one of its processes sees it."""

    number: int
    """Which of the processes this is, from 0."""
    _life: int
    _ready: int

    def note_ready(self) -> None:
        """Say that this process is about to accept connections."""
        os.write(self._ready, b"1")
        os.close(self._ready)

    def call_when_gone(self, stop: Callable[[], None]) -> None:
        """Have the running loop call `stop` when the parent has died."""
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(self._life)
            _log.warning("the parent process is gone, stopping")
            stop()

        loop.add_reader(self._life, gone)


Serve = Callable[[ParentProcess], int]
"""Serves until it is stopped, in a process of its own; returns the exit code."""


@dataclass
class _Child:
    number: int
    pid: int
    ready: int | None
    """The end of a pipe that can be read once the process is ready."""
    began_s: float = field(default_factory=time.monotonic)


class ServerProcesses:
    """A number of processes that serve, until a signal."""

    def __init__(self, serve: Serve, number: int, grace_s: float, on_ready: Callable[[], None]) -> None:
        self._serve = serve
        self._number = number
        self._grace_s = grace_s
        self._on_ready = on_ready
        self._children: dict[int, _Child] = {}
        self._later: dict[int, float] = {}
        """Number → when a process that died is started again."""
        self._deaths: dict[int, int] = {}
        self._were_ready: set[int] = set()
        self._signals: list[signal.Signals] = []
        self._selector = selectors.DefaultSelector()
        self._life_read, self._life_write = os.pipe()
        self._woken, self._wake = socket.socketpair()

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code: 0 if every process has finished what it had begun."""
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._note_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it has to wake the selector
        for number in range(self._number):
            self._start(number)
        code = self._watch()
        return code if code is not None else self._stop()

    def _note_signal(self, number: int, _frame: object) -> None:
        self._signals.append(signal.Signals(number))

    def _watch(self) -> int | None:
        """Keep the processes running until a signal; return an exit code where one of them cannot begin."""
        while not self._signals:
            due_s = min(self._later.values(), default=None)
            self._wait(None if due_s is None else max(0.0, due_s - time.monotonic()))
            for child, status in self._reap():
                if len(self._were_ready) < self._number:
                    # It has said why. The others would say the same, now or under load.
                    self._stop()
                    return FAILED
                self._start_later(child, status)
            for number in [n for n, at_s in self._later.items() if at_s <= time.monotonic()]:
                del self._later[number]
                self._start(number)
        return None

    def _wait(self, timeout_s: float | None) -> None:
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._woken:
                self._woken.recv(4096)
            else:
                child: _Child = key.data
                if os.read(key.fd, 1):
                    self._note_ready(child)
                self._close_ready(child)

    def _note_ready(self, child: _Child) -> None:
        were_all = len(self._were_ready) == self._number
        self._were_ready.add(child.number)
        if not were_all and len(self._were_ready) == self._number:
            self._on_ready()

    def _close_ready(self, child: _Child) -> None:
        if child.ready is not None:
            self._selector.unregister(child.ready)
            os.close(child.ready)
            child.ready = None

    def _start(self, number: int) -> None:
        ready_read, ready_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(ready_read)
            self._be_a_child(ParentProcess(number, self._life_read, ready_write))
        os.close(ready_write)
        child = self._children[pid] = _Child(number, pid, ready_read)
        self._selector.register(ready_read, selectors.EVENT_READ, child)

    def _be_a_child(self, parent: ParentProcess) -> None:
        """Serve, and end without going back to what the parent was about to do."""
        code = FAILED
        try:
            # A signal of the terminal goes to the parent alone, which passes it on once.
            os.setsid()
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            self._selector.close()
            self._woken.close()
            self._wake.close()
            os.close(self._life_write)
            code = self._serve(parent)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> list[tuple[_Child, int]]:
        """Return the processes that have ended, with their exit codes; minus a signal that killed one."""
        ended = []
        for pid in list(self._children):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                child = self._children.pop(pid)
                self._close_ready(child)
                ended.append((child, os.waitstatus_to_exitcode(status)))
        return ended

    def _start_later(self, child: _Child, status: int) -> None:
        is_young = time.monotonic() - child.began_s < YOUNG_S
        self._deaths[child.number] = self._deaths.get(child.number, 0) + 1 if is_young else 0
        deaths = self._deaths[child.number]
        wait_s = min(BACKOFF_S_MAX, 2.0 ** (deaths - 2)) if deaths > 1 else 0.0
        about = {"pid": child.pid, "code": status, "number": child.number, "wait_s": wait_s}
        _log.warning("server process died, starting another", extra=about)
        self._later[child.number] = time.monotonic() + wait_s

    def _stop(self) -> int:
        """Have every process finish what it has begun; a second signal, or too long a time, ends them on the spot."""
        self._signals, codes = [], []
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)
        until_s = time.monotonic() + self._grace_s + KILL_AFTER_S
        while self._children:
            codes += [status for _, status in self._reap()]
            if self._signals or time.monotonic() > until_s:
                for pid in self._children:
                    os.kill(pid, signal.SIGKILL)
                self._signals, until_s = [], time.monotonic() + KILL_AFTER_S
            if self._children:
                self._wait(1.0)
        return max((abs(code) for code in codes), default=0)
