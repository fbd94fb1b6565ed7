"""Is a server running on this cluster? What its pid file says, checked against the processes that there are.

PostgreSQL trusts the pid in postmaster.pid as long as any process has that number. After a crash, or in a
restarted container, that may be a stranger; we ask whether the process is at work in the cluster's folder.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server, as its pid file describes it."""

    pid: int
    port: int
    socket_dir: Path | None
    status: str
    """`starting`, `ready`, `stopping`; PostgreSQL's own words."""

    def url(self, user: str, database: str) -> str:
        return f"postgresql://{user}@/{quote(database)}?host={quote(str(self.socket_dir))}&port={self.port}"


def read_postmaster(cluster: Path) -> Postmaster | None:
    """What the pid file says, stale or not; None where there is no file."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 8:
        # The file grows while the server starts.
        return Postmaster(int(lines[0]) if lines else 0, 0, None, "starting")
    # pid, data folder, start time, port, socket folder, address, shared memory, status
    return Postmaster(int(lines[0]), int(lines[3]), Path(lines[4]), lines[7].strip())


def is_at_work(pid: int, cluster: Path) -> bool:
    """Whether process `pid` is a PostgreSQL process of this cluster."""
    return bool(_at_work([pid], cluster))


def wait_for_orphans(cluster: Path, timeout_s: float) -> list[int]:
    """Wait until no process of this cluster is left; returns those that did not end."""
    _, alive = psutil.wait_procs(_at_work(psutil.pids(), cluster), timeout=timeout_s)
    return [process.pid for process in alive]


def _at_work(pids: Iterable[int], cluster: Path) -> list[psutil.Process]:
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            # Every process of a server works in its data folder.
            if process.name().startswith("postgres") and Path(process.cwd()) == cluster:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
            continue
    return found
