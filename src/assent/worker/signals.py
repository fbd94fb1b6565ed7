"""Signals: the first asks the worker to finish, the second ends it on the spot."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping_on_signals(stop: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Inside, the first signal calls `stop`; another one ends the process, also where our loop is busy.

    To end on the spot is safe: what was not committed is rolled back, and found again.
    """
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}

    def on_signal(received: signal.Signals) -> None:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        stop(received)

    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, on_signal, each)
    try:
        yield
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, before[each])
