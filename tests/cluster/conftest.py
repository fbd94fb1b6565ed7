"""A cluster that the tests of a module share, one of a test's own, and workers that reach it."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from assent.store.database import Database
from assent.worker.tasks import Tasks
from tests.cluster.application import app as cluster_app
from tests.cluster.local import LocalCluster
from tests.workers import TasksWorker

OpenClusterWorker = Callable[..., "ClusterWorker"]


class ClusterWorker(TasksWorker):
    """A worker of tasks of the cluster that a test steps."""

    async def work(self) -> dict[str, int]:
        """Run what is due; how many attempts ended how."""
        done: Counter[str] = Counter()
        looks = 0
        while looks < 2:  # a task that was submitted without the limits of its type is claimed at the second
            self.duty._throttled.hear()  # a worker that a test steps hears no notifications
            found = await super().work()
            done.update(found)
            looks = 0 if found else looks + 1
        return dict(done)


@pytest.fixture(scope="session")
async def shared_cluster() -> AsyncIterator[LocalCluster]:
    """A cluster of one node, for tests that leave it as it is."""
    cluster = LocalCluster()
    try:
        await cluster.start(1)
        yield cluster
    finally:
        await cluster.stop()


@pytest.fixture
async def own_cluster() -> AsyncIterator[LocalCluster]:
    """A cluster that the test starts, and kills parts of."""
    cluster = LocalCluster()
    try:
        yield cluster
    finally:
        await cluster.stop()


@pytest.fixture
async def open_cluster_worker(database: Database) -> AsyncIterator[OpenClusterWorker]:
    """Opens workers of the tasks of the cluster."""
    workers: list[ClusterWorker] = []

    def open_worker(cluster: LocalCluster | None, **options: Any) -> ClusterWorker:
        worker = ClusterWorker(cluster_app, database, **options)
        if cluster is not None:
            worker.place = replace(worker.place, cluster=cluster.settings)
            worker.duty = Tasks(worker.place)
        workers.append(worker)
        return worker

    yield open_worker
    for worker in workers:
        await worker.duty.finish()
