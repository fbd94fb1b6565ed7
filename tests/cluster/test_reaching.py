"""Which workers claim tasks of the cluster: those that reach it, while they do, within the limit of the resource."""

import pytest

from assent.cluster.settings import ClusterSettings
from assent.model.problems import Invalid
from tests.cluster.conftest import OpenClusterWorker
from tests.cluster.local import LocalCluster, running, until


async def test_worker_without_a_cluster_leaves_its_tasks_to_one_that_has_it(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    without, reaching = open_cluster_worker(None), open_cluster_worker(shared_cluster)
    await without.submit("cluster.add", {"a": 1})
    await without.submit("cluster.beside")
    assert await without.work() == {"done": 1}
    assert await reaching.work() == {"done": 1}
    assert {row["attempts"] for row in await reaching.rows()} == {1}


async def test_worker_that_names_other_resources_leaves_them_too(
    shared_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(shared_cluster, resources=",")
    await worker.submit("cluster.add", {"a": 1})
    assert await worker.work() == {}


async def test_task_waits_for_a_scheduler_and_for_a_node_and_no_attempt_counts(
    own_cluster: LocalCluster, open_cluster_worker: OpenClusterWorker
) -> None:
    worker = open_cluster_worker(own_cluster)
    await worker.submit("cluster.add", {"a": 1})
    assert await worker.work() == {}, "no scheduler"
    await own_cluster.start(0)
    assert await worker.work() == {}, "no node"
    assert (await worker.row())["attempts"] == 0
    async with running(worker):
        await own_cluster.add_node()

        async def is_done() -> bool:
            return await worker.status() == "done"

        await until(is_done)
    assert (await worker.row())["attempts"] == 1


def test_cluster_without_its_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assent.cluster.settings.find_spec", lambda name: None)
    assert ClusterSettings.defaults().address == ""
    with pytest.raises(Invalid, match=r"ASSENT_CLUSTER_ADDRESS.*assent\[cluster\]"):
        ClusterSettings.defaults(address="tcp://127.0.0.1:1")
