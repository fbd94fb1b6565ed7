"""A new user's first day: the wheel in a clean environment, an application of their own, and the command line."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import pytest
import typer

from assent.cli.options import load_app
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.migrate import migrate
from tests.postgres import superuser_url
from tests.receiver import Receiver, ReceiverReply
from tests.running.test_wheel import Environment, made_environment, wheel

__all__ = ["wheel"]

pytestmark = pytest.mark.long

SHOP = Path(__file__).parent / "shop"
GUIDE = Path(__file__).parents[2] / "docs" / "python.md"
WITHIN_S = 40

FAST = {
    "ASSENT_EFFECTS_ALLOW": "127.0.0.1",
    "ASSENT_EFFECTS_BACKOFF_MIN_MS": "10",
    "ASSENT_EFFECTS_BACKOFF_MAX_MS": "20",
    "ASSENT_WORKER_LEASE_MS": "1000",
    "ASSENT_WORKER_RESCUE_INTERVAL_MS": "200",
    "ASSENT_WORKER_EFFECTS_INTERVAL_MS": "100",
}
"""Documented settings that make a worker notice a failure within a second."""


class Newcomer:
    """A person with a shell in the folder of the application."""

    def __init__(self, environment: Environment, url: str) -> None:
        self.environment, self.folder = environment, environment.folder / "shop"
        shutil.copytree(SHOP, self.folder)
        self.variables = {
            **environment.variables(FAST),
            "ASSENT_DATABASE_URL": url,
            "ASSENT_APP": "shop:app",
            "ASSENT_ORG": "acme",
            "ASSENT_USER": "olga",
            "ASSENT_BLOBS": (self.folder / "files").as_uri(),
        }

    def assent(self, *arguments: str, code: int = 0) -> str:
        """Run a command and return what it prints; fail unless it exits with `code`."""
        command = self.environment.command("assent", *arguments)
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def ask(self, *arguments: str) -> Any:
        """Run a command with `--json` and return the document."""
        return json.loads(self.assent(*arguments, "--json"))

    @contextmanager
    def process(
        self, *arguments: str, message: str
    ) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
        """Run `assent serve` or `assent worker` until the end of the block; yield it with its first log line."""
        log = self.folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        with log.open("w") as written:
            process = subprocess.Popen(
                self.environment.command("assent", *arguments),
                cwd=self.folder,
                env=self.variables,
                stdout=written,
                stderr=subprocess.STDOUT,
                text=True,
            )
        try:
            yield process, wait_for(lambda: logged(log, message))
        finally:
            process.kill()
            process.wait()

    def wait_until(self, instance_id: str, status: str, node: str | None = None) -> dict[str, Any]:
        """Return an instance once it has this status, at this node."""

        def found() -> dict[str, Any] | None:
            body = self.ask("instances", "show", instance_id)["instance"]
            is_there = node is None or node in body["current_nodes"]
            return body if body["status"] == status and is_there else None

        return wait_for(found)


def logged(log: Path, message: str) -> dict[str, Any] | None:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return next((line for line in lines if line["message"] == message), None)


def wait_for(look: Callable[[], Any]) -> Any:
    """Return what a look finds, as soon as it finds something."""
    limit = time.monotonic() + WITHIN_S
    while not (found := look()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.05)
    return found


@pytest.fixture
def newcomer(wheel: Path, tmp_path: Path, empty_database_url: str) -> Newcomer:
    """An ordinary owner of an empty database, who is no superuser."""
    return Newcomer(made_environment(wheel, tmp_path / "environment", "http"), empty_database_url)


def set_up(newcomer: Newcomer, erp_url: str) -> dict[str, str]:
    """Migrate, publish, and add people, a setting and a rule; return the API keys of the people."""
    newcomer.assent("migrate")
    newcomer.assent("check", "definitions", "--app", "shop:app")
    newcomer.assent("org", "create", "acme", "--data", "budget=100000")
    newcomer.assent("definitions", "publish", "definitions", "--org", "acme", "--app", "shop:app")
    newcomer.assent("members", "add", "ann", "--org", "acme", "--role", "clerk")
    newcomer.assent("members", "add", "bob", "--org", "acme", "--role", "boss")
    newcomer.assent("members", "add", "olga", "--org", "acme", "--role", "operator")
    newcomer.assent("roles", "grant", "operator", "*", "--org", "acme")
    newcomer.assent("rules", "save", "budget.rule.yaml")
    newcomer.assent("org", "set", f"erp_url={erp_url}")
    return {
        "ann": newcomer.ask("keys", "create", "--org", "acme", "--user", "ann", "--name", "laptop")["key"]
    }


def test_new_user_runs_breaks_and_repairs_an_application_by_the_command_line_alone(
    newcomer: Newcomer, receiver: Receiver
) -> None:
    keys = set_up(newcomer, receiver.url)
    with ExitStack() as stack:
        _, started = stack.enter_context(newcomer.process("serve", "--port", "0", message="server started"))
        workers = [
            stack.enter_context(newcomer.process("worker", message="worker started"))[0] for _ in range(2)
        ]
        headers = {"Authorization": f"Bearer {keys['ann']}"}
        api = stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{started['port']}", headers=headers)
        )
        an_entity_is_denied_by_the_rule_then_bought_and_its_webhook_repaired(newcomer, receiver, api)
        old = a_killed_worker_loses_nothing(newcomer, workers)
        publish_version_2(newcomer)
        a_bad_setting_is_corrected_and_the_receiver_comes_back(newcomer, receiver)
        newcomer.assent("events", "emit", "returned:1")
        assert "edition" not in newcomer.wait_until(old, "completed")["context"]
    assert newcomer.ask("incidents")["items"] == []


def an_entity_is_denied_by_the_rule_then_bought_and_its_webhook_repaired(
    newcomer: Newcomer, receiver: Receiver, api: httpx.Client
) -> None:
    created = api.post("/api/entities/equipment", json={"data": {"title": "Crane", "price": 200_000}})
    assert created.status_code == 201, created.text
    path = f"/api/entities/equipment/{created.json()['id']}"
    offer = newcomer.folder / "offer.txt"
    offer.write_text("one crane")
    newcomer.assent("attachments", "add", "equipment", created.json()["id"], str(offer), "--as", "ann")
    denied = api.post(f"{path}/transitions/submit", json={})
    assert (denied.status_code, denied.json()["code"]) == (403, "RULE_DENIED")
    assert "over the budget" in denied.text
    newcomer.assent("org", "set", "budget=300000")
    submitted = api.post(f"{path}/transitions/submit", json={})
    assert submitted.status_code == 200, submitted.text
    receiver.will(ReceiverReply(404))
    (item,) = newcomer.ask("inbox", "--as", "bob")["items"]
    (file,) = newcomer.ask("approvals", "show", item["request_id"], "--as", "bob")["attachments"]
    copy = newcomer.folder / "copy.txt"
    named = ("equipment", item["entity_id"], file, "--out", str(copy))
    newcomer.assent("attachments", "download", *named, "--as", "bob")
    assert copy.read_text() == "one crane"
    question = newcomer.ask("questions", "ask", item["request_id"], "New, or used?", "--as", "bob")
    newcomer.assent("questions", "answer", question["id"], "New.", "--as", "ann")
    newcomer.assent("comments", "add", "equipment", item["entity_id"], "@ann thank you", "--as", "bob")
    newcomer.assent("approvals", "decide", item["request_id"], "approved", "--as", "bob")
    (letter,) = wait_for(lambda: newcomer.ask("dead-letters", "list")["items"])
    newcomer.assent("dead-letters", "retry", letter["id"])
    wait_for(lambda: len(receiver.received) == 2)
    assert [request.json for request in receiver.received] == [{"title": "Crane"}] * 2


def a_killed_worker_loses_nothing(newcomer: Newcomer, workers: "list[subprocess.Popen[str]]") -> str:
    """Kill the worker that packs; the other one packs the parcel, and the loan goes on."""
    started = newcomer.ask("instances", "start", "shop.loan", "--data", "number=1")
    packing = newcomer.folder / "packing-1"
    killed = int(wait_for(lambda: packing.exists() and packing.read_text()))
    assert killed in {worker.pid for worker in workers}
    os.kill(killed, signal.SIGKILL)
    (newcomer.folder / "release-1").touch()
    wait_for(lambda: int(packing.read_text()) != killed)
    newcomer.wait_until(started["id"], "running", "back")
    return str(started["id"])


def publish_version_2(newcomer: Newcomer) -> None:
    """Publish a step before the booking; new loans have it, and the one that runs does not."""
    flow = newcomer.folder / "definitions" / "loan.flow.yaml"
    text = flow.read_text().replace("version: 1\nstart: book", "version: 2\nstart: greet")
    text = text.replace("steps:\n", "steps:\n  - {id: greet, type: script, set: {edition: '2'}}\n", 1)
    text = text.replace("transitions:\n", "transitions:\n  - {from: greet, event: completed, to: book}\n", 1)
    flow.write_text(text)
    newcomer.assent("definitions", "publish", "definitions", "--org", "acme", "--app", "shop:app")


def a_bad_setting_is_corrected_and_the_receiver_comes_back(newcomer: Newcomer, receiver: Receiver) -> None:
    newcomer.assent("org", "unset", "erp_url")
    (newcomer.folder / "release-2").touch()
    started = newcomer.ask("instances", "start", "shop.loan", "--data", "number=2")["id"]
    assert newcomer.wait_until(started, "paused")["context"]["edition"] == 2
    (group,) = newcomer.ask("incidents")["items"]
    assert group["code"] == "URL_MISSING"
    newcomer.assent("org", "set", f"erp_url={receiver.url}")
    receiver.otherwise = lambda _: ReceiverReply(503)
    newcomer.assent("instances", "retry", started)
    wait_for(lambda: newcomer.wait_until(started, "paused")["incident"]["code"] != "URL_MISSING")
    newcomer.assent("health", code=1)
    receiver.otherwise = lambda _: ReceiverReply()
    newcomer.assent("instances", "retry", started)
    newcomer.wait_until(started, "running", "back")
    newcomer.assent("events", "emit", "returned:2")
    newcomer.wait_until(started, "completed")


def test_application_with_wrong_declarations_is_refused_with_every_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong_shop.py").write_text("import assent\n\napp = assent.App().add({'flow': 'a.b'})\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(typer.Exit) as ended:
        load_app("wrong_shop:app")
    assert ended.value.exit_code == 1
    assert "version" in capsys.readouterr().err


@pytest.mark.usefixtures("template")  # which makes the roles
async def test_migration_by_a_role_that_may_not_create_a_schema_is_refused_in_words(
    empty_database_url: str,
) -> None:
    administrator = await asyncpg.connect(superuser_url(empty_database_url))
    await administrator.execute("CREATE ROLE stranger LOGIN CREATEROLE")
    try:
        await administrator.execute("GRANT assent_engine, assent_client TO stranger WITH ADMIN OPTION")
        parts = urlsplit(empty_database_url)
        url = urlunsplit(parts._replace(netloc=f"stranger@{parts.netloc.rpartition('@')[2]}"))
        database = await Database.open(url)
        try:
            with pytest.raises(StoreError, match="permission denied for database"):
                await migrate(database)
        finally:
            await database.close()
    finally:
        await administrator.execute("DROP ROLE stranger")
        await administrator.close()


def test_every_name_that_the_application_uses_is_documented() -> None:
    tree = ast.parse((SHOP / "shop.py").read_text())
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name.startswith("assent")} == {"assent"}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "assent"
    }
    documented = set(re.findall(r"`(\w+)`", GUIDE.read_text(encoding="utf-8").partition("## Names")[2]))
    assert used <= documented
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "app"
    }
    undocumented = {name for name in called if f"app.{name}(" not in GUIDE.read_text(encoding="utf-8")}
    assert undocumented == set()
