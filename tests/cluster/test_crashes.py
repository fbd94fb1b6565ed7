"""What a task of the cluster needs, killed with SIGKILL while it runs: nothing is lost, and output is fenced."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil

from assent.store.clock import MovedClock
from tests.cluster.conftest import OpenClusterWorker
from tests.cluster.local import ROOT, LocalCluster, kill, running, until, until_file
from tests.workers import TasksWorker
from tests.world import ORG


async def ended(worker: TasksWorker, *statuses: str) -> None:
    """Wait until the tasks have these statuses."""

    async def is_so() -> bool:
        return sorted(row["status"] for row in await worker.rows()) == sorted(statuses)

    await until(is_so)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_lost_node_costs_one_attempt_and_the_next_runs_on_another(
    own_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock, tmp_path: Path
) -> None:
    await own_cluster.start(2)
    worker = open_cluster_worker(own_cluster)
    task_id = await worker.submit("cluster.once", {"folder": str(tmp_path)})
    async with running(worker):
        await until_file(tmp_path / "attempt-1")
        (pid,) = map(int, (tmp_path / "attempt-1").read_text().split())
        (node,) = [one for one in own_cluster.nodes if one.pid == psutil.Process(pid).ppid()]
        await kill(node)
        await ended(worker, "retrying")
        clock.advance("1h")
        await ended(worker, "done")
    attempts = await worker.attempts(task_id)
    assert [(one["outcome"], one["code"]) for one in attempts] == [("failed", "TASK_LOST"), ("done", None)]
    assert (tmp_path / "attempt-1").read_text().count("\n") == 1, "the attempt ran once"

    async def has_ended() -> bool:
        return is_gone(pid)

    await until(has_ended)  # the function does not outlive its node


async def test_last_node_lost_ends_the_attempt_and_a_new_node_takes_the_next(
    own_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock, tmp_path: Path
) -> None:
    await own_cluster.start(1)
    worker = open_cluster_worker(own_cluster)
    await worker.submit("cluster.once", {"folder": str(tmp_path)})
    async with running(worker):
        await until_file(tmp_path / "attempt-1")
        await kill(own_cluster.nodes[0])
        await ended(worker, "retrying")
        clock.advance("1h")
        await own_cluster.add_node()
        await ended(worker, "done")
    assert (await worker.row())["attempts"] == 2


async def test_function_that_kills_its_process_costs_its_attempts_and_not_the_node(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock
) -> None:
    worker = open_cluster_worker(shared_cluster)
    poison = await worker.submit("cluster.kill")
    assert await worker.work() == {"retrying": 1}
    clock.advance("1h")
    assert await worker.work() == {"dead": 1}
    attempts = await worker.attempts(poison)
    assert [one["code"] for one in attempts] == ["TASK_LOST"] * 2
    assert "signal 9" in attempts[0]["error"]
    await worker.submit("cluster.add", {"a": 1})
    assert await worker.work() == {"done": 1}


async def test_scheduler_gone_costs_what_has_begun_an_attempt_and_the_rest_nothing(
    own_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock, tmp_path: Path
) -> None:
    await own_cluster.start(1)
    worker = open_cluster_worker(own_cluster)
    begun = [await worker.submit("cluster.once", {"folder": str(tmp_path / f"{n}")}) for n in range(2)]
    for number in range(2):
        (tmp_path / f"{number}").mkdir()
    async with running(worker):
        for number in range(2):
            await until_file(tmp_path / f"{number}" / "attempt-1")
        waiting = await worker.submit("cluster.add", {"a": 1})

        async def is_claimed() -> bool:
            return (await worker.runtime.org(ORG).tasks.get(waiting)).status == "running"

        await until(is_claimed)
        assert own_cluster.scheduler is not None
        await kill(own_cluster.scheduler)
        await ended(worker, "retrying", "retrying", "queued")
        # The duty goes on without the cluster, and other tasks run.
        beside = await worker.submit("cluster.beside")
        assert await (await worker.runtime.org(ORG).tasks.handle(beside)).result(timeout=30) == os.getpid()
        clock.advance("1h")
        await kill(own_cluster.nodes[0])
        own_cluster.nodes.clear()
        await own_cluster.start(1)
        await ended(worker, "done", "done", "done", "done")
    rows = {row["id"]: row["attempts"] for row in await worker.rows()}
    assert [rows[one] for one in begun] == [2, 2]
    assert rows[waiting] == 1


async def test_killed_worker_loses_nothing_and_its_functions_end(
    own_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock, tmp_path: Path
) -> None:
    await own_cluster.start(1)
    worker = open_cluster_worker(own_cluster)
    await worker.submit("cluster.once", {"folder": str(tmp_path)})
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "assent",
            "worker",
            "--only",
            "tasks",
            "--app",
            "tests.cluster.application:app",
        ),
        cwd=ROOT,
        env={
            **os.environ,
            "ASSENT_DATABASE_URL": worker.database.url,
            "ASSENT_CLUSTER_ADDRESS": own_cluster.settings.address,
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await until_file(tmp_path / "attempt-1")
    finally:
        await kill(process)
    (pid,) = map(int, (tmp_path / "attempt-1").read_text().split())

    async def has_ended() -> bool:
        return is_gone(pid)

    await until(has_ended)
    clock.advance(datetime.now(UTC) - clock.now())  # the killed worker went by the server's clock
    await worker.sweep()
    assert await worker.work() == {"done": 1}
    assert [one["outcome"] for one in await worker.attempts()] == ["lost", "done"]


async def test_output_of_a_worker_that_lost_the_task_is_not_kept(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, tmp_path: Path
) -> None:
    """Its lease was over, and another worker has the task; both functions run, and only the second counts."""
    slow, fast = open_cluster_worker(shared_cluster), open_cluster_worker(shared_cluster)
    await slow.submit("cluster.read", {"pages": 1, "folder": str(tmp_path)})
    first = asyncio.create_task(slow.duty.run_once())
    await until_file(tmp_path / "read")
    await first
    await fast.sweep()
    (tmp_path / "go").touch()
    assert await fast.work() == {"done": 1}
    await slow.work()
    attempts = await slow.attempts()
    assert [one["outcome"] for one in attempts] == ["lost", "done"]
    assert attempts[0]["output"] is None
