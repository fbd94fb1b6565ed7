"""Starting is cheap: help and reads of the operator load no more than they use, and take little CPU."""

import json
import os
import subprocess
import sys

import pytest

from assent.model.parse import Declaration
from assent.store.database import Database
from tests.cli.desk import ROOT
from tests.world import found_acme

CPU_S_MAX = 0.6
"""The promise is 0.3 s, and 0.10 to 0.26 s were measured; a busy machine counts more for the same work."""

# Runs a command, then prints on standard error which packages it loaded and the CPU seconds that it took.
PROBE = """
import json, resource, sys
from assent.cli.main import app
try:
    app()
except SystemExit as ended:
    used = resource.getrusage(resource.RUSAGE_SELF)
    loaded = sorted({*sys.modules})
    print(json.dumps({"code": ended.code, "cpu_s": used.ru_utime + used.ru_stime, "loaded": loaded}), file=sys.stderr)
"""
HEAVY = {"fastapi", "uvicorn", "httpx", "lark", "yaml", "assent.app", "assent.compiler", "assent.runtime"}
"""What takes most of the CPU of an import, and what neither help nor a list of members needs."""


def probe(*words: str, url: str = "", **variables: str) -> dict[str, object]:
    environment = {**os.environ, "ASSENT_DATABASE_URL": url, "ASSENT_ORG": "acme", **variables}
    command = [sys.executable, "-c", PROBE, *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    found: dict[str, object] = json.loads(done.stderr.splitlines()[-1])
    return found


def least_cpu_s(*words: str, url: str = "", **variables: str) -> float:
    """The least CPU of some runs: other processes on the machine make a run cost more, and never less."""
    least = float("inf")
    for _ in range(8):
        least = min(least, float(str(probe(*words, url=url, **variables)["cpu_s"])))
        if least < CPU_S_MAX:
            break
    return least


@pytest.mark.parametrize("words", ["--version", "--help", "inbox --help", "rules save --help"])
def test_help_loads_neither_a_driver_nor_the_compiler(words: str) -> None:
    found = probe(*words.split())
    assert found["code"] == 0
    assert not ({*HEAVY, "asyncpg"} & set(found["loaded"]))  # type: ignore[call-overload]
    assert least_cpu_s(*words.split()) < CPU_S_MAX


def test_a_list_of_members_loads_neither_the_runtime_nor_the_compiler(
    database: Database, database_url: str
) -> None:
    found = probe("members", "list", "--json", url=database_url)
    assert found["code"] == 0
    assert not (HEAVY & set(found["loaded"]))  # type: ignore[call-overload]
    assert least_cpu_s("members", "list", "--json", url=database_url) < CPU_S_MAX


NEVER_OF_A_MEMBER = {"cryptography", "fastapi", "httpx", "jwt", "starlette", "unittest", "uvicorn"} | {
    "assent.runtime.sync_runtime"
}
"""What a command of a member on an application does not need."""


@pytest.mark.parametrize("application", ["examples.expenses:app", "assent.demo.company:app"])
async def test_a_members_command_loads_the_application_and_not_what_serves_or_signs(
    database: Database, database_url: str, application: str
) -> None:
    await found_acme(database)
    found = probe("inbox", "--as", "ann", "--app", application, url=database_url)
    assert found["code"] == 0
    loaded = {str(name) for name in found["loaded"]}  # type: ignore[attr-defined]
    assert "assent.runtime.runtime" in loaded
    assert not (NEVER_OF_A_MEMBER & loaded)


def test_no_declaration_has_its_source_parsed_when_it_is_imported() -> None:
    """It costs each command on an application a tenth of its start; schemas read the sources when they are made."""
    kinds: list[type[Declaration]] = [Declaration, *Declaration.__subclasses__()]
    assert len(kinds) > 20
    assert [kind for kind in kinds if kind.model_config.get("use_attribute_docstrings")] == []
