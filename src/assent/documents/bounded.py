"""Run a function on a file in a process of its own, with a limit on time, memory, output and what it writes.

    result = await run_bounded("assent.documents.reading:read", path)

Files come from outside: a few kilobytes of PDF can ask for gigabytes, and a parser for an hour. What a process does
beyond its limits ends the process, and not the worker.
"""

import asyncio
import importlib
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a process may use."""

    seconds: int = 60
    memory_bytes: int = 1_073_741_824
    """Of address space, which is more than what is resident."""
    output_bytes: int = 4_194_304


BOUNDS: Final = Bounds()
ERROR_CHARACTERS_MAX: Final = 500


class OutOfBounds(Exception):
    """A process was ended, or ended itself, for it wanted more than it may have."""


async def run_bounded(function: str, path: Path, bounds: Bounds = BOUNDS) -> Any:
    """Return the result, as JSON, of `module:name` for a path; raise `OutOfBounds`, or its error as `ValueError`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assent.documents.bounded", function, str(path)),
        *(str(bounds.seconds), str(bounds.memory_bytes)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(bounds.seconds + 5):
            output = await _read(process.stdout, bounds.output_bytes)
            code = await process.wait()
    except TimeoutError:
        raise OutOfBounds(f"it took longer than {bounds.seconds} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it has started
        await process.wait()
    if code:
        raise OutOfBounds(
            f"its process ended with {code}: it may have {bounds.memory_bytes:,} bytes of memory"
        )
    answer = json.loads(output)
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["result"]


async def _read(stream: asyncio.StreamReader, bytes_max: int) -> bytes:
    found = bytearray()
    while part := await stream.read(65_536):
        found += part
        if len(found) > bytes_max:
            raise OutOfBounds(f"it returned more than {bytes_max:,} bytes")
    return bytes(found)


def _limit(seconds: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(function: str, path: str, seconds: str, memory_bytes: str) -> None:
    """Call the function within the limits, and print its result, or its error, as JSON."""
    _limit(int(seconds), int(memory_bytes))
    module, _, name = function.partition(":")
    try:
        result = {"result": getattr(importlib.import_module(module), name)(Path(path))}
    except MemoryError:
        os._exit(3)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]}
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # without clean-up, which could want memory again


if __name__ == "__main__":
    main(*sys.argv[1:])
