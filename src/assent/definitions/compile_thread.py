"""Compiling beside the event loop: one text at a time, in a thread of its own, with little room for those that wait.

A large text takes seconds. In one thread it costs the others of the process half of their speed at most, never a stop.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from assent.model.mutation import Refused, Rejection

P = ParamSpec("P")
T = TypeVar("T")

WAITING_MAX: Final = 32
COMPILE_S_MAX: Final = 30.0


def _new_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="compile")


_thread = _new_thread()
_waiting = 0


def _begin_again() -> None:
    """Begin without thread and work in a process that was forked: they are the parent's."""
    global _thread, _waiting
    _thread, _waiting = _new_thread(), 0


os.register_at_fork(after_in_child=_begin_again)


async def aside(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return what `work` returns; raise `Refused` where too many wait, or it takes too long."""
    global _waiting  # noqa: PLW0603 - of this process, like its thread
    if _waiting >= WAITING_MAX:
        raise Refused(Rejection("BUSY", "too many definitions wait to be compiled; try again"))
    _waiting += 1
    try:
        done = asyncio.get_running_loop().run_in_executor(_thread, lambda: work(*given, **named))
        async with asyncio.timeout(COMPILE_S_MAX):
            return await done
    except TimeoutError:
        message = f"compiling it takes longer than {COMPILE_S_MAX:.0f} s"
        raise Refused(Rejection("TOO_LARGE", message, hint="divide it")) from None
    finally:
        _waiting -= 1
