"""Tasks of the cluster: the function runs on a node, and everything else is as for other tasks."""

import os
from pathlib import Path

import pytest

from assent.app import App
from assent.model.problems import Invalid
from assent.runtime.task_commands import NewTask
from assent.store.clock import MovedClock
from tests.cluster.conftest import OpenClusterWorker
from tests.cluster.local import LocalCluster, running, until, until_file
from tests.plain_sql import WAIT_MAX_S
from tests.world import ORG


async def test_function_runs_on_a_node_and_its_output_is_kept(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.add", {"a": 2})
    assert await worker.work() == {"done": 1}
    attempt = await worker.attempt()
    pid = attempt["output"].pop("pid")
    assert attempt["output"] == {"sum": 3, "attempt": 1, "org": "acme"}
    assert pid not in {os.getpid(), *(node.pid for node in shared_cluster.nodes)}


async def test_async_function_runs_on_a_node(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.double", {"number": 21})
    assert await worker.work() == {"done": 1}
    assert (await worker.attempt())["output"] == 42


async def test_other_tasks_of_the_application_run_in_the_worker(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.beside")
    assert await worker.work() == {"done": 1}
    assert (await worker.attempt())["output"] == os.getpid()


async def test_processes_of_a_node_are_used_again(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    pids = set()
    for _ in range(6):
        task_id = await worker.submit("cluster.add", {"a": 2})
        assert await worker.work() == {"done": 1}
        (attempt,) = await worker.attempts(task_id)
        pids.add(attempt["output"]["pid"])
    assert len(pids) <= 2, "a node with two threads has two processes"


async def test_wrong_input_is_dead_without_a_node(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    async with worker.database.transaction(ORG) as connection:
        await connection.execute("SELECT assent.submit_task('cluster.double', '{\"number\": \"many\"}')")
    assert await worker.work() == {"dead": 1}
    assert (await worker.attempt())["code"] == "BAD_INPUT"


async def test_progress_and_log_are_seen_while_it_runs(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, tmp_path: Path
) -> None:
    worker = open_cluster_worker(shared_cluster, tasks_interval_ms=50)
    tasks = worker.runtime.org(ORG).tasks
    async with running(worker):
        task_id = await worker.submit("cluster.read", {"pages": 4, "folder": str(tmp_path)})
        await until_file(tmp_path / "read")

        async def has_progress() -> bool:
            view = await tasks.get(task_id)
            return view.progress is not None and view.progress.message == "page 4 of 4"

        await until(has_progress)
        assert (await tasks.get(task_id)).status == "running"
        (tmp_path / "go").touch()
        assert await (await tasks.handle(task_id)).result(timeout=WAIT_MAX_S) == 4
    lines = (await tasks.log(task_id)).items
    assert [(line.level, line.message) for line in lines] == [
        *(("info", f"read page {page}") for page in range(1, 5)),
        ("warning", "closed the book"),
    ]


async def test_error_comes_back_with_its_type_and_the_stack_trace_of_the_function(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.divide", {"number": 7})
    assert await worker.work() == {"retrying": 1}
    for _ in range(2):
        clock.advance("1h")
        await worker.work()
    attempts = await worker.attempts()
    assert [one["outcome"] for one in attempts] == ["failed"] * 3
    assert await worker.status() == "dead"
    for one in attempts:
        assert (one["code"], one["error_type"]) == ("TASK_FAILED", "ZeroDivisionError")
        assert one["error"] == "ZeroDivisionError: division by zero"
        assert "return number / 0" in one["stack_trace"]
        assert "assent/cluster" not in one["stack_trace"], "it begins with the function"


@pytest.mark.parametrize(("number", "ends"), [(1, "retrying"), (0, "dead")])
async def test_its_type_says_which_errors_are_tried_again(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, number: int, ends: str
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.choosy", {"number": number})
    assert await worker.work() == {ends: 1}


async def test_retry_and_give_up_mean_the_same(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, clock: MovedClock
) -> None:
    worker = open_cluster_worker(shared_cluster)
    later = await worker.submit("cluster.later")
    for _ in range(3):
        await worker.work()
        clock.advance("10s")
    assert [one["outcome"] for one in await worker.attempts(later)] == ["failed", "failed", "done"]
    hopeless = await worker.submit("cluster.give_up")
    assert await worker.work() == {"dead": 1}
    (attempt,) = await worker.attempts(hopeless)
    assert (attempt["code"], attempt["error"]) == ("TASK_GAVE_UP", "there is nothing to do")


async def test_outcomes_that_a_function_returns_mean_the_same(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.returned", {"how": "background"})
    await worker.submit("cluster.returned", {"how": "failed"})
    assert await worker.work() == {"background": 1, "dead": 1}


async def test_subtasks_run_and_their_parent_goes_on(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    task_id = await worker.submit("cluster.sum", {"names": ["a", "bcd"]})
    await worker.work()
    assert (await worker.runtime.org(ORG).tasks.get(task_id)).output == 4


async def test_subtask_that_the_application_does_not_have_fails_the_attempt(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.wrong_subtask")
    assert await worker.work() == {"dead": 1}
    assert "cluster.unheard_of" in (await worker.attempt())["error"]


async def test_database_is_out_of_reach_of_a_node(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster)
    await worker.submit("cluster.writes")
    assert await worker.work() == {"dead": 1}
    assert (await worker.attempt())["error_type"] == "NotOnCluster"


async def test_more_tasks_than_the_cluster_has_places_all_run(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker, tmp_path: Path
) -> None:
    worker = open_cluster_worker(shared_cluster)
    tasks = [NewTask("cluster.sleepy", {"folder": str(tmp_path), "number": n}) for n in range(20)]
    await worker.runtime.org(ORG).tasks.submit_many(tasks)
    assert await worker.work() == {"done": 20}
    runs = [file.read_text().count("\n") for file in sorted(tmp_path.iterdir())]  # noqa: ASYNC240
    assert runs == [1] * 20, "each function ran once"


@pytest.mark.parametrize("declared", ["nested", "__main__"])
def test_task_that_no_node_can_import_is_refused(declared: str) -> None:
    def function() -> None: ...

    if declared == "__main__":
        function.__module__, function.__qualname__ = "__main__", "function"
    with pytest.raises(Invalid, match="nodes can import"):
        App().task("tests.nested", cluster=True)(function)
