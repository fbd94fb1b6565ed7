"""`assent secrets`: the value comes by standard input, and is never printed."""

import json
import os
import subprocess
import sys

import pytest

from assent.store.database import Database
from tests.world import rows

VALUE = "kT8vw-2fQ9xL"


def run(url: str, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assent", "secrets", *words, "--org", "acme"]
    environment = os.environ | {"ASSENT_DATABASE_URL": url}
    return subprocess.run(
        command, input=given, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


async def test_secret_is_set_listed_and_deleted(database: Database, database_url: str) -> None:
    done = run(database_url, "set", "erp", "--host", "erp.example", given=f"{VALUE}\n")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = await rows(database, "named_secrets")
    assert (row["org_id"], row["name"], row["value"], row["hosts"]) == ("acme", "erp", VALUE, ["erp.example"])
    table = run(database_url, "list")
    assert "erp.example" in table.stdout
    (listed,) = json.loads(run(database_url, "list", "--json").stdout)["items"]
    assert listed["name"] == "erp"
    assert "value" not in listed
    assert VALUE not in done.stdout + table.stdout
    assert run(database_url, "delete", "erp").returncode == 0
    assert await rows(database, "named_secrets") == []
    again = run(database_url, "delete", "erp")
    assert again.returncode == 1
    assert "NOT_FOUND" in again.stderr
    actions = sorted(row["action"] for row in await rows(database, "audit_log"))
    assert actions == ["secret.create", "secret.delete"]


@pytest.mark.parametrize(("value", "host"), [("sh0rt", "erp.example"), (VALUE, "*"), ("", "erp.example")])
def test_what_is_no_secret_is_refused_without_showing_it(database_url: str, value: str, host: str) -> None:
    done = run(database_url, "set", "erp", "--host", host, given=value)
    assert done.returncode == 1
    assert "BAD_VALUE" in done.stderr
    assert not value or value not in done.stdout + done.stderr


def test_hosts_must_be_named(database_url: str) -> None:
    done = run(database_url, "set", "erp", given=VALUE)
    assert done.returncode == 2
    assert "--host" in done.stderr
