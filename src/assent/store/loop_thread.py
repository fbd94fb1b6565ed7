"""An event loop in a thread of its own, on which other threads run coroutines and wait for what they return.

While a thread waits it does what the coroutine hands back to it, such as a statement on a connection that blocks: that
connection belongs to the thread, and the loop must not wait for the server.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT_S: Final = 5.0
"""How long the coroutines that are cancelled by the end of the loop may take to end."""

_waiting_call: "Final[ContextVar[ThreadCall[Any] | None]]" = ContextVar("assent_waiting_call", default=None)


class LoopThread:
    """An event loop in a daemon thread, until `close`."""

    def __init__(self) -> None:
        # Not of the application's policy: a loop of another library would be forked with what it knows.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run_loop, name="assent", daemon=True)
        self._calls: set[ThreadCall[Any]] = set()
        self._thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; return what it returns, or raise what it raises, with its traceback.

        It runs in the caller's context. A thread that is interrupted, such as by Ctrl-C, cancels it and waits for
        its end first: a transaction is then over, and its connection free.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "Expected a call from another thread, found one from the thread of the event loop, which would wait "
                "for itself; await the asynchronous runtime here"
            )
        call = ThreadCall(self._loop, coroutine)
        self._calls.add(call)
        try:
            return call.wait()
        finally:
            self._calls.discard(call)

    def close(self, last: Coroutine[Any, Any, object] | None = None) -> None:
        """Cancel what runs, run a last coroutine, and end the thread; each waits `CLOSE_TIMEOUT_S` at most."""
        for call in tuple(self._calls):
            call.cancel()
        ending = asyncio.run_coroutine_threadsafe(self._end(last), self._loop)
        try:
            ending.result(2 * CLOSE_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_TIMEOUT_S)
            if not self._thread.is_alive():
                self._loop.close()

    async def _end(self, last: Coroutine[Any, Any, object] | None) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        if running:
            await asyncio.wait(running, timeout=CLOSE_TIMEOUT_S)
        if last is not None:
            await asyncio.wait_for(last, CLOSE_TIMEOUT_S)


class ThreadCall(Generic[T]):
    """A coroutine on the loop, and the thread that waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """What the waiting thread has to do; None when the coroutine has ended."""
        self._task: asyncio.Task[None] | None = None
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._interruption: BaseException | None = None

    def wait(self) -> T:
        """Begin the coroutine and wait for its end, in the calling thread."""
        self._loop.call_soon_threadsafe(self._begin)
        while True:
            try:
                errand = self._errands.get()
                if errand is None:
                    break
                errand()
            except BaseException as interruption:
                if self._interruption is not None:
                    raise  # the second Ctrl-C does not wait
                self._interruption = interruption
                self.cancel()
        error = self._interruption or self._error
        if error is None:
            return self._result[0]
        try:
            raise error
        finally:
            # Its traceback holds this frame, and this frame holds it.
            del error
            self._error = self._interruption = None

    def cancel(self) -> None:
        """Cancel the coroutine, from any thread."""
        self._loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    async def run_in_waiting_thread(self, errand: Callable[[], Any]) -> Any:
        """Have the waiting thread call a function, and return what it returned."""
        done: asyncio.Future[Any] = self._loop.create_future()

        def run() -> None:
            try:
                result = errand()
            except Exception as error:
                self._loop.call_soon_threadsafe(_settle, done, None, error)
            else:
                self._loop.call_soon_threadsafe(_settle, done, result, None)

        self._errands.put(run)
        return await done

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        _waiting_call.set(self)
        try:
            self._result.append(await self._coroutine)
        except BaseException as error:  # SystemExit too: it is for the thread that waits, not for the loop
            self._error = error
        finally:
            self._errands.put(None)


def _settle(done: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if done.done():
        return  # the coroutine was cancelled meanwhile
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


async def run_in_waiting_thread(errand: Callable[[], T]) -> T:
    """Have the thread that waits for the present coroutine call a function; raise `ValueError` where none waits."""
    call = _waiting_call.get()
    if call is None:
        raise ValueError(
            "Expected a connection to await, found one that blocks. Use it with `app.sync_runtime(…)`, "
            "or give an asynchronous connection or session to `app.runtime(…)`"
        )
    result: T = await call.run_in_waiting_thread(errand)
    return result
