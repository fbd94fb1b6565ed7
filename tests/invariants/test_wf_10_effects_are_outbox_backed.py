"""WF-10: whatever a step wants of the outside is a row that commits with the step; the engine itself reaches nobody."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from assent import templates
from assent.app import App
from assent.compiler.source import read_source
from assent.runtime import Runtime
from assent.runtime.errors import StepFailed
from assent.store.database import Database
from tests.authored import END, arrows, call
from tests.invariants.network_ban import NetworkUsed, only_postgres
from tests.world import ANN, ORG, drain, publish_steps, rows

LIBRARY = Path(templates.__file__).parent
SENDING = ("webhook_out", "notification")
DATA = {
    "portal_url": "http://127.0.0.1:1/",
    "statement_url": "https://files.example/1",
    "royalty": 7,
    "amount": 5,
    "order_id": "o-1",
    "email": "cy@client.example",
    "customer_email": "cy@client.example",
    "merchant_email": "shop@client.example",
    "full_name": "Cy",
}


def sending_steps() -> Iterator[Any]:
    """Every step of the library's flows that tells the outside something."""
    for file in sorted(LIBRARY.glob("*/flow.yaml")):
        flow: Any = read_source(file.read_bytes(), file.name).value(())
        for step in flow["steps"]:
            if step["type"] in SENDING:
                yield pytest.param(step, id=f"{file.parent.name}.{step['id']}")


@pytest.fixture
def runtime(database: Database) -> Runtime:
    return _app().runtime(database)


def _app() -> App:
    app = App()
    document = {"paths": {"/pay": {"post": {"operationId": "pay", "requestBody": {}}}}}
    app.openapi("billing", document, base_url="http://127.0.0.1:1")

    @app.operation("tests.outside", outside=True)
    def outside(arguments: Mapping[str, Any], key: str) -> None:
        raise AssertionError("the engine ran what must leave the transaction")

    @app.operation("tests.dial")
    def dial(connection: object, arguments: Mapping[str, Any]) -> None:
        socket.create_connection(("127.0.0.1", 1), 1)

    @app.operation("tests.fail")
    def fail(connection: object, arguments: Mapping[str, Any]) -> None:
        raise RuntimeError("no")

    return app


async def effects(database: Database) -> list[str]:
    return [row["type"] for row in await rows(database, "effects")]


@pytest.mark.parametrize("step", list(sending_steps()))
async def test_steps_of_the_library_send_nothing_themselves(
    runtime: Runtime, database: Database, step: dict[str, Any]
) -> None:
    await publish_steps(database, "one", [step, END], arrows(step["id"], "end"))
    with only_postgres(database.url):
        view = await runtime.org(ORG, ANN).instances.start("one", DATA)
    assert view.status == "completed"
    assert await effects(database) == ["webhook" if step["type"] == "webhook_out" else step["channel"]]


@pytest.mark.parametrize(
    "step",
    [
        {"id": "go", "type": "webhook_out", "url": "http://localhost:1/", "await": True},
        {"id": "go", "type": "system", "operation": {"openapi": "billing.pay"}},
        call("go", "tests.outside"),
    ],
    ids=["awaited webhook", "openapi", "function outside"],
)
async def test_steps_that_await_an_answer_send_nothing_themselves(
    runtime: Runtime, database: Database, step: dict[str, Any]
) -> None:
    await publish_steps(database, "one", [step, END], arrows("go", "end"))
    with only_postgres(database.url):
        await runtime.org(ORG, ANN).instances.start_many("one", [DATA])
        await drain(runtime)
    assert len(await effects(database)) == 1


async def test_ban_would_notice(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "one", [call("go", "tests.dial"), END], arrows("go", "end"))
    with only_postgres(database.url), pytest.raises(StepFailed) as failed:
        await runtime.org(ORG, ANN).instances.start("one", {})
    assert isinstance(failed.value.error, NetworkUsed)


async def test_effect_is_gone_with_the_transaction_that_wrote_it(
    runtime: Runtime, database: Database
) -> None:
    tell = {"id": "tell", "type": "webhook_out", "url": "http://127.0.0.1:1/"}
    await publish_steps(database, "one", [tell, call("go", "tests.fail"), END], arrows("tell", "go", "end"))
    with pytest.raises(StepFailed):
        await runtime.org(ORG, ANN).instances.start("one", {})
    assert await effects(database) == []
    assert await rows(database, "workflow_outbox_receipts") == []
    assert await rows(database, "workflow_step_executions") == []


async def test_effect_commits_with_its_step_and_wakes_the_worker(
    runtime: Runtime, database: Database
) -> None:
    tell = {"id": "tell", "type": "notification", "channel": "sms", "to": "ann", "text": "hello"}
    await publish_steps(database, "one", [tell, END], arrows("tell", "end"))
    async with database.listen("assent_effects") as listener:
        await runtime.org(ORG, ANN).instances.start("one", {})
        assert await listener.wait(10) == {"assent_effects"}
    (effect,) = await rows(database, "effects")
    (step,) = [row for row in await rows(database, "workflow_step_executions") if row["node_id"] == "tell"]
    assert effect["step_id"] == step["id"]
    assert effect["step_created_at"] == step["created_at"]


def test_engine_and_runtime_do_not_even_load_what_sends() -> None:
    """Importing all of them brings no HTTP client and no mail into the process."""
    code = (
        "import sys, pkgutil, importlib\n"
        "for room in ('model', 'language', 'engine', 'kernel', 'runtime', 'approvals'):\n"
        "    package = importlib.import_module(f'assent.{room}')\n"
        "    for found in pkgutil.walk_packages(package.__path__, f'assent.{room}.'):\n"
        "        importlib.import_module(found.name)\n"
        "print([name for name in ('httpx', 'httpcore', 'smtplib', 'aiosmtplib') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
