"""What the pages say about the cluster: the example runs, and `assent doctor` says whether the cluster is reached."""

import asyncio
import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from assent.cli.doctor import examine_cluster
from assent.cluster.settings import ClusterSettings
from assent.store.database import Database
from assent.worker.tasks import Tasks
from tests.cluster.conftest import ClusterWorker
from tests.cluster.local import ROOT, LocalCluster
from tests.processes.commands import run_command
from tests.settings import defaults_of

DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text()
(EXAMPLE,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(), re.DOTALL)


async def test_example_runs(
    own_cluster: LocalCluster, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photos.py").write_text(EXAMPLE)
    monkeypatch.syspath_prepend(tmp_path)
    own_cluster.path = tmp_path
    await own_cluster.start(1)
    worker = ClusterWorker(importlib.import_module("photos").app, database)
    worker.duty = Tasks(replace(worker.place, cluster=own_cluster.settings))
    await worker.submit("photo.render", {"photo": "cat"})
    assert await worker.work() == {"done": 1}
    assert (await worker.attempt())["output"] == {"file": "cat.webp"}


def test_every_variable_is_on_the_page_with_its_default() -> None:
    said = dict(re.findall(r"^\| `(ASSENT_CLUSTER_\w+)` \| (\w*) ?\|", DEPLOYMENT, re.MULTILINE))
    assert said == defaults_of(ClusterSettings)


async def test_doctor_says_whether_the_cluster_is_reached(
    own_cluster: LocalCluster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = own_cluster.settings.address
    assert await examine_cluster() == [], "none is named"
    monkeypatch.setenv("ASSENT_CLUSTER_ADDRESS", address)
    monkeypatch.setenv("ASSENT_CLUSTER_CONNECT_TIMEOUT_MS", "1000")
    done = await asyncio.to_thread(run_command, "doctor", "--json", url=database_url)
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "cluster"]
    assert found["problem"].startswith(f"no scheduler answers at {address}")
    assert done.returncode == 1
    monkeypatch.setenv("ASSENT_CLUSTER_CONNECT_TIMEOUT_MS", "20000")
    await own_cluster.start(0)
    (finding,) = await examine_cluster()
    assert finding.problem == f"the scheduler at {address} has no nodes"
    await own_cluster.add_node()
    await own_cluster.wait_for_nodes(1)
    assert await examine_cluster() == []
