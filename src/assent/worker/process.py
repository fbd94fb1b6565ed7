"""What a worker's process sets for itself: how it ends on a signal, and how often it collects garbage."""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The first asks the worker to finish, the second ends it on the spot."""
YOUNG_OBJECTS_MAX: Final = 100_000
"""How many objects a worker makes between two collections of the youngest."""
REQUESTS_OBJECTS_MAX: Final = 20_000
"""The same for a server, whose requests make a few thousand each; with more, a collection would be a pause."""


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


def collect_less_often(objects_max: int = YOUNG_OBJECTS_MAX) -> None:
    """Let a batch, or a request, live and die between two collections.

    A batch makes tens of thousands of objects and drops them all at its commit; reference counting frees them. With
    Python's defaults the collector walks them dozens of times meanwhile, and finds nothing: about a third of a worker's
    processor time. What was loaded before is never walked again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(objects_max, 50, 100)
