"""Functions on a node that are not wanted any more: they end within a second, with the processes that they started."""

import time
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import OpenClusterWorker
from tests.cluster.local import LocalCluster, running, until, until_file
from tests.world import ORG

NEVER_MS = 86_400_000
"""An interval at which nothing is found by polling during a test."""


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pids_of(folder: Path, word: str = "begun") -> list[int]:
    return [int(line) for line in (folder / word).read_text().split()]


@pytest.mark.parametrize("type", ["cluster.long", "cluster.long_async", "cluster.stubborn"])
async def test_cancelled_function_ends_within_a_second(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, tmp_path: Path, type: str
) -> None:
    worker = open_cluster_worker(shared_cluster, tasks_interval_ms=NEVER_MS)
    async with running(worker):
        task_id = await worker.submit(type, {"folder": str(tmp_path)})
        await until_file(tmp_path / "begun")
        (pid,) = pids_of(tmp_path)
        cancelled_s = time.monotonic()
        await worker.runtime.org(ORG).tasks.cancel(task_id)

        async def has_ended() -> bool:
            return not is_running(pid)

        await until(has_ended)
        took_s = time.monotonic() - cancelled_s
    assert took_s < 1, took_s
    assert (tmp_path / "begun.broken").exists() == (type != "cluster.stubborn"), "`finally` is run"
    if type == "cluster.long":
        child = int((tmp_path / "child").read_text())

        async def has_child_ended() -> bool:
            return not is_running(child)

        await until(has_child_ended)
    assert await worker.status() == "cancelled"
    assert await worker.attempts(task_id) == []
    # The place is free again.
    await worker.submit("cluster.add", {"a": 1})
    assert await worker.work() == {"done": 1}


async def test_function_that_takes_too_long_is_interrupted(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, tmp_path: Path
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.brief", {"folder": str(tmp_path)})
    assert await worker.work() == {"dead": 1}
    assert (await worker.attempt())["code"] == "TASK_TIMED_OUT"
    (pid,) = pids_of(tmp_path)

    async def has_ended() -> bool:
        return not is_running(pid)

    await until(has_ended)


async def test_worker_that_stops_gives_the_task_back_and_no_attempt_counts(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, tmp_path: Path
) -> None:
    worker = open_cluster_worker(shared_cluster, grace_period_ms=100)
    async with running(worker):
        await worker.submit("cluster.once", {"folder": str(tmp_path)})
        await until_file(tmp_path / "attempt-1")
    row = await worker.row()
    assert (row["status"], row["attempts"]) == ("queued", 0)
    (pid,) = pids_of(tmp_path, "attempt-1")

    async def has_ended() -> bool:
        return not is_running(pid)

    await until(has_ended)
