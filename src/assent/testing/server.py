"""The server that tests run on: the one that `ASSENT_TEST_DATABASE_URL` names, else our own in a temporary folder.

Our own is started once in a process, trades durability for speed, and is gone with the process, however that ends.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from assent.store.embedded.file_lock import FileLock
from assent.store.embedded.server import EmbeddedServer

VARIABLE: Final = "ASSENT_TEST_DATABASE_URL"

_FOLDER_PREFIX: Final = "assent-tests-"
_RUN_LOCK: Final = "run.lock"
_ROOM_BYTES: Final = 2 * 1024**3


@contextmanager
def folder_of_this_run() -> Iterator[Path]:
    """A temporary folder for servers, removed at the end; those of runs that were killed go as well."""
    parent = fastest_folder()
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        _remove_if_abandoned(folder)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent))
    (folder / _RUN_LOCK).touch()
    with FileLock.exclusive(folder / _RUN_LOCK):
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def fastest_folder() -> Path:
    """In memory where there is room: a database is 350 files, which take 0.4 s to make on a slow disk."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM_BYTES
    return memory if roomy else Path(tempfile.gettempdir())


def _remove_if_abandoned(folder: Path) -> None:
    with suppress(OSError):
        abandoned = FileLock.exclusive_if_free(folder / _RUN_LOCK)
        if abandoned is not None:
            with abandoned:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server_at(data_dir: Path) -> Iterator[str]:
    """The URL of a server to make databases on: the one that is named, else our own in this folder."""
    if given := os.environ.get(VARIABLE):
        yield given
    else:
        with EmbeddedServer.start(data_dir, fast=True) as server:
            yield server.url("postgres")


class _ServerOfThisProcess:
    """Started when it is first asked for, by whichever thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._until_exit = ExitStack()
        self._url: str | None = None

    def url(self) -> str:
        with self._lock:
            if self._url is None:
                # Registered before the server is, so that the server has stopped when its folder goes.
                atexit.register(self._until_exit.close)
                folder = self._until_exit.enter_context(folder_of_this_run())
                self._url = self._until_exit.enter_context(server_at(folder / "server"))
            return self._url


_SERVER: Final = _ServerOfThisProcess()


def server_url() -> str:
    """The URL of the server that this process makes its test databases on. Blocks while it starts."""
    return os.environ.get(VARIABLE) or _SERVER.url()
