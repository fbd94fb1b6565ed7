"""`make demo` as a newcomer meets it: a process whose printed commands are tried as they stand, ended by Ctrl-C."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest

WAIT_S = 60


def as_(folder: Path, user: str) -> dict[str, str]:
    """The header of somebody of the demo in this folder."""
    return {"Authorization": f"Bearer {json.loads((folder / 'keys.json').read_text())[user]}"}


class Demo:
    """The running demo, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    def read_until(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if text in line:
                return
        raise AssertionError(f"never said {text!r}: {self.said}")

    @property
    def address(self) -> str:
        (line,) = [line for line in self.said if line.startswith("Northwind is open: ")]
        return line.rpartition(" ")[2]

    def to_try(self) -> list[tuple[str, str]]:
        """What it says to try: each title with the command that stands under it."""
        lines = self.said[self.said.index("Try:") :]
        places = [place for place, line in enumerate(lines) if line.startswith("  curl ")]
        return [(lines[place - 1].strip(), lines[place].strip()) for place in places]


def started(folder: Path, *, by_environment: bool = False) -> Demo:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ASSENT_")}
    command = [sys.executable, "-m", "assent", "demo"]
    if by_environment:
        environment["ASSENT_DATA_DIR"] = str(folder)
    else:
        command += ["--data-dir", str(folder)]
    process = subprocess.Popen(
        command,
        env={**environment, "ASSENT_PORT": "0", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    demo = Demo(process)
    demo.read_until("Ctrl-C ends it")
    return demo


def stopped(demo: Demo) -> int:
    """Ctrl-C, and what came of it; nothing that it started is there afterwards."""
    family = psutil.Process(demo.process.pid).children(recursive=True)
    demo.process.send_signal(signal.SIGINT)
    last, _ = demo.process.communicate(timeout=WAIT_S)
    demo.said += last.splitlines()
    code = demo.process.returncode
    _, alive = psutil.wait_procs(family, timeout=WAIT_S)
    assert not alive
    return code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(folder: Path) -> Iterator[Demo]:
    demo = started(folder)
    yield demo
    if demo.process.poll() is None:
        stopped(demo)


def send(command: list[str]) -> httpx.Response:
    """What curl would do with this command."""
    assert command[:2] == ["curl", "-s"]
    method, headers, body, rest = "GET", {}, None, iter(command[2:])
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(rest)
        else:
            url = word
    return httpx.request(method, url, headers=headers, content=body, timeout=WAIT_S)


def test_it_is_ready_when_it_says_so(demo: Demo) -> None:
    assert httpx.get(f"{demo.address}/readyz").status_code == 200


def test_some_forty_documents_stand_at_different_stages(demo: Demo) -> None:
    kinds = {"invoice", "expense claim"}
    rows = [line.split() for line in demo.said if any(line.strip().startswith(kind) for kind in kinds)]
    assert 35 <= sum(int(row[-1]) for row in rows) <= 45
    assert {row[-2] for row in rows} >= {"active", "submitted", "draft", "amended", "cancelled", "completed"}


def test_nothing_happened_later_than_now(demo: Demo, folder: Path) -> None:
    listed = httpx.get(f"{demo.address}/api/instances?limit=100", headers=as_(folder, "eve")).json()["items"]
    assert max(datetime.fromisoformat(item["updated_at"]) for item in listed) <= datetime.now(UTC)


def test_what_it_says_to_try_does_what_it_says_in_that_order(demo: Demo) -> None:
    tried = [(title, send(shlex.split(command)).json()) for title, command in demo.to_try()]
    answers = dict(tried)
    assert [title for title, _ in tried] == [
        "What waits for Finley?",
        f"Finley approves {answers['What waits for Finley?']['items'][0]['title']}",
        "Ann approves her own: refused",
        "Who approved what, exactly?",
        "Ann edits what is posted: refused",
    ]
    assert tried[1][1]["request"]["status"] == "approved"
    assert tried[2][1]["code"] == "SEPARATION_OF_DUTIES"
    assert {decision["approver_id"] for decision in tried[3][1]["items"]} == {"fay", "bea"}
    assert tried[4][1]["code"] == "WORKFLOW_EDIT_LOCKED"


def test_figures_are_written_out(demo: Demo, folder: Path) -> None:
    inbox = httpx.get(f"{demo.address}/api/inbox?limit=50", headers=as_(folder, "fin")).json()
    assert "2060000" in {item["figure"] for item in inbox["items"]}


def test_keys_are_of_this_demo_alone_and_only_its_owner_reads_them(demo: Demo, folder: Path) -> None:
    keys = json.loads((folder / "keys.json").read_text())
    assert len(set(keys.values())) == len(keys)
    assert all(len(key) > 20 and any(key in line for line in demo.said) for key in keys.values())
    assert (folder / "keys.json").stat().st_mode & 0o077 == 0
    for user in keys:
        known = {"Authorization": f"Bearer ak_demo_{user}"}
        assert httpx.get(f"{demo.address}/api/inbox", headers=known).status_code in (401, 429)


def test_a_database_that_is_not_its_own_is_not_written_to(database_url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "ASSENT_DATABASE_URL": database_url, "ASSENT_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "assent", "demo"]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (refused.returncode, "--force" in refused.stdout) == (2, True), refused.stdout
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_running_and_the_documents_stay(demo: Demo, folder: Path) -> None:
    before = [line for line in demo.said if "invoice " in line]
    assert stopped(demo) == 0, demo.said
    again = started(folder, by_environment=True)
    after = [line for line in again.said if "invoice " in line]
    assert httpx.get(f"{again.address}/api/inbox", headers=as_(folder, "fin")).status_code == 200
    assert {line for line in again.said if "ak_" in line and "signs in" not in line} != set()
    assert stopped(again) == 0
    assert len(after) == len(before)
