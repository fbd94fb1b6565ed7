"""Where nobody looks, nothing of it is imported, and what is not installed is said plainly."""

import subprocess
import sys

import pytest

from tests.processes.commands import ROOT

WORK = """
import asyncio, sys
import assent.cli.main, assent.cli.worker, assent.worker.supervisor, assent.worker.instrumentation, assent.worker.probes
from assent.store.database import Database
from assent.telemetry import span, hooks
from assent.telemetry.configure import configured
from tests.telemetry.application import app
from tests.world import create_order, drain, publish_orders

async def main():
    database = await Database.open(sys.argv[1])
    runtime = app.runtime(database)
    await publish_orders(database, None)
    with configured({}), span("nothing"):
        await create_order(runtime)
    assert await drain(runtime) == 1
    await database.close()

asyncio.run(main())
roots = {name.partition(".")[0] for name in sys.modules}
print(sorted(roots & {"opentelemetry", "prometheus_client", "sentry_sdk", "structlog"}))
"""


def python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout


async def test_a_mutation_and_its_event_import_nothing_that_looks(database):
    assert python(WORK, database.url) == "[]\n"


@pytest.mark.parametrize(
    ("missing", "call", "told"),
    [
        ("opentelemetry", "use_tracing()", "pip install 'assent[telemetry]'"),
        ("prometheus_client", "use_metrics()", "pip install 'assent[telemetry]'"),
        (
            "sentry_sdk",
            "configured({'SENTRY_DSN': 'https://a@b.example/1'}).__enter__()",
            "pip install 'assent[sentry]'",
        ),
        ("opentelemetry", "configured({'OTEL_TRACES_EXPORTER': 'otlp'}).__enter__()", "assent[telemetry]"),
    ],
)
def test_what_is_turned_on_and_not_installed_is_said_with_what_to_do(missing, call, told):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from assent.telemetry.configure import *
try:
    {call}
except NotConfigured as error:
    print(error)
"""
    assert told in python(code)
