"""Stops an embedded server whose users are all gone, also when the last one was killed and could not.

Runs as a process of its own, `python -m assent.store.embedded.guard <data folder>`, one for each server. It sleeps on
a lock that every user shares, wakes when no process holds it any more, stops the server and ends.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from assent.store.embedded.cluster import Cluster
from assent.store.embedded.file_lock import FileLock
from assent.store.embedded.programs import wheel_programs

CLUSTER: Final = "cluster"
START_LOCK: Final = "start.lock"
"""Held alone while the server is started or stopped; taken before the others."""
USERS_LOCK: Final = "users.lock"
"""Shared by all users: a process that gets it exclusively, under `start.lock`, knows that there are none."""
WAKE_LOCK: Final = "wake.lock"
"""Shared by all users too; the guard sleeps on this one, so that its waking never passes for a user."""
GUARD_LOCK: Final = "guard.lock"
"""Held by the guard as long as it lives."""
LOCKS: Final = (START_LOCK, USERS_LOCK, WAKE_LOCK, GUARD_LOCK)


class Use:
    """One user's share of the server, until it is closed or its process ends."""

    def __init__(self, data_dir: Path) -> None:
        self._locks = [FileLock.shared(data_dir / name) for name in (USERS_LOCK, WAKE_LOCK)]

    def close(self) -> None:
        for lock in self._locks:
            lock.close()


def stop_if_unused(data_dir: Path, cluster: Cluster) -> bool:
    """Stop the server if no process uses it; the caller holds `start.lock`."""
    alone = FileLock.exclusive_if_free(data_dir / USERS_LOCK)
    if alone is None:
        return False
    with alone:
        cluster.stop()
    return True


def ensure_guard(data_dir: Path) -> None:
    """Start a guard if there is none; the caller holds `start.lock` and uses the server."""
    free = FileLock.exclusive_if_free(data_dir / GUARD_LOCK)
    if free is None or not sys.executable:
        return
    free.close()
    command = [sys.executable, "-m", "assent.store.embedded.guard", str(data_dir)]
    # A shell between us lets go of it at once: a child of ours would be our zombie when it ends.
    subprocess.run(  # noqa: S603 - our own command, passed as arguments
        ["/bin/sh", "-c", '"$@" &', "sh", *command],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )


def guard(data_dir: Path) -> None:
    """Wait until the server is unused, and stop it."""
    mine = FileLock.exclusive_if_free(data_dir / GUARD_LOCK)
    if mine is None:
        return
    cluster = Cluster(data_dir / CLUSTER, wheel_programs())
    stopped = False
    while not stopped:
        FileLock.exclusive(data_dir / WAKE_LOCK).close()
        # A process may join at this moment; only under the lock for starting is the answer final.
        with FileLock.exclusive(data_dir / START_LOCK):
            stopped = stop_if_unused(data_dir, cluster)
            if stopped:
                mine.close()


if __name__ == "__main__":
    # The folder may be removed while we sleep; then there is nothing left to guard.
    with contextlib.suppress(FileNotFoundError):
        guard(Path(sys.argv[1]))
