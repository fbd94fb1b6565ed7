"""The commands of the deployment files, run as they say: migrate, then a server and a worker that probes find ready."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from tests.deploy.test_files import ROOT, grace_period_s, our_services, variables_of_image
from tests.deploy.test_monitoring import QUERIES, name_of, selectors

pytestmark = pytest.mark.long

WITHIN_S = 30


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def environment_of(service: str, secrets: Path) -> dict[str, str]:
    """Return the variables of a container: those of the image, then those of the service, with free ports."""
    given = variables_of_image() | our_services()[service]["environment"]
    given["ASSENT_DATABASE_URL"] = given["ASSENT_DATABASE_URL"].replace("/run/secrets", str(secrets))
    ports = {"ASSENT_PORT": "0", "ASSENT_METRICS_PORT": str(free_port())}
    outside = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}
    return {**outside, **given, "PATH": os.environ["PATH"], **ports}


def command_of(service: str) -> list[str]:
    return [str(Path(sys.executable).parent / "assent"), *our_services()[service]["command"]]


@contextmanager
def running(service: str, secrets: Path, message: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a service until the end of the block; yield it and the address of its probes once it has logged `message`."""
    variables = environment_of(service, secrets)
    process = subprocess.Popen(
        command_of(service), env=variables, cwd=ROOT / "examples", stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if orjson.loads(line)["message"] == message:
                    break
            else:
                pytest.fail(f"{service} ended with {process.wait()}")
            yield process, f"http://127.0.0.1:{variables['ASSENT_METRICS_PORT']}"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=grace_period_s()) == 0
        finally:
            process.kill()


@pytest.fixture
def secrets(tmp_path: Path, empty_database_url: str) -> Path:
    (tmp_path / "database_url").write_text(empty_database_url)
    return tmp_path


def test_server_and_worker_are_ready_after_the_migration_and_show_their_metrics(secrets: Path) -> None:
    migrate = subprocess.run(
        command_of("migrate"),
        env=environment_of("migrate", secrets),
        cwd=ROOT / "examples",
        capture_output=True,
        check=False,
    )
    assert migrate.returncode == 0, migrate.stderr
    named = {name_of(selector) for query in QUERIES.values() for selector in selectors(query)}
    with (
        running("serve", secrets, "server started") as (_, server),
        running("worker", secrets, "worker started") as (_, worker),
    ):
        for address in (server, worker):
            assert httpx.get(f"{address}/healthz", timeout=WITHIN_S).text == "alive\n"
            assert httpx.get(f"{address}/readyz", timeout=WITHIN_S).text == "ready\n"
            page = httpx.get(f"{address}/metrics", timeout=WITHIN_S).text
            assert [name for name in named if f"# TYPE {name} " not in page] == []
            assert "assent_database_up 1.0" in page


@pytest.mark.parametrize("service", ["serve", "worker"])
def test_a_service_that_starts_before_the_migration_ends_with_1_and_says_what_to_run(
    service: str, secrets: Path
) -> None:
    done = subprocess.run(
        command_of(service),
        env=environment_of(service, secrets),
        cwd=ROOT / "examples",
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 1
    assert "assent migrate" in done.stderr
    assert "Traceback" not in done.stderr
