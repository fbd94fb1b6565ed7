"""Locks on files that the kernel releases however their owner ends, also by kill -9.

They are flocks, which belong to the open file: a process may hold several, and a fork inherits them. A lock
is therefore let go by closing the file, and never by unlocking it, which would unlock it for a fork too.
"""

import fcntl
import os
from pathlib import Path
from typing import Self


class FileLock:
    """A lock that is held until it is closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def shared(cls, path: Path) -> Self:
        return cls(_locked(path, fcntl.LOCK_SH))

    @classmethod
    def exclusive(cls, path: Path) -> Self:
        """Wait until no other process holds the lock, shared or exclusive."""
        return cls(_locked(path, fcntl.LOCK_EX))

    @classmethod
    def exclusive_if_free(cls, path: Path) -> Self | None:
        try:
            return cls(_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            return None

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _locked(path: Path, operation: int) -> int:
    # The file must be there: making it could bring back a folder that is being removed.
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
