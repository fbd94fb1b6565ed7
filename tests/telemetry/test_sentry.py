"""Errors that nobody expected go to Sentry, without anything that people wrote."""

import gzip
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from assent.store.database import Database
from assent.telemetry import hooks, scope
from assent.telemetry.configure import NotConfigured, configured
from assent.worker.duty import DutyRun
from assent.worker.instrumentation import watch_run
from tests.processes.commands import run_worker
from tests.receiver import Receiver

SECRET = "ann@example.org"


def dsn(receiver: Receiver) -> str:
    return receiver.url.replace("http://", "http://key@") + "/1"


def events(receiver: Receiver) -> list[dict[str, Any]]:
    """What was reported, of all that was received."""
    return [event for received in receiver.received for event in _events(_plain(received.body))]


def _plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def _events(envelope: bytes) -> Iterator[dict[str, Any]]:
    _, *rest = envelope.split(b"\n")
    for head, payload in zip(rest[::2], rest[1::2], strict=False):
        if json.loads(head)["type"] == "event":
            yield json.loads(payload)


def failing(who: str) -> Exception:
    try:
        raise ValueError(f"{who} wrote nonsense")
    except ValueError as error:
        return error


def test_error_of_a_duty_is_reported_where_it_was_and_without_its_words(receiver: Receiver) -> None:
    with configured({"SENTRY_DSN": dsn(receiver)}), scope(org_id="acme"):
        logging.getLogger("assent.x").error("not this one: %s", SECRET)
        watch_run(DutyRun("timers", 0.1, error=failing(SECRET)))
    (event,) = events(receiver)
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "")
    assert error["stacktrace"]["frames"][-1]["function"] == "failing"
    assert event["tags"] == {"duty": "timers", "org_id": "acme"}
    assert SECRET not in json.dumps(event)
    assert not any(SECRET.encode() in _plain(received.body) for received in receiver.received)


def test_words_are_sent_where_somebody_wants_them(receiver: Receiver) -> None:
    with configured({"SENTRY_DSN": dsn(receiver), "ASSENT_SENTRY_MESSAGES": "true"}):
        hooks.report(failing("somebody"))
    (event,) = events(receiver)
    assert event["exception"]["values"][0]["value"] == "somebody wrote nonsense"


def test_without_a_dsn_nothing_is_reported(receiver: Receiver) -> None:
    with configured({}):
        hooks.report(failing("somebody"))
    assert receiver.received == []


def test_dsn_that_is_none_is_said_plainly() -> None:
    with pytest.raises(NotConfigured, match="SENTRY_DSN"), configured({"SENTRY_DSN": "nonsense"}):
        pass


async def test_worker_reports_the_duty_that_failed(database: Database, receiver: Receiver) -> None:
    async with database.transaction(None) as connection:
        await connection.execute("DROP FUNCTION assent.prune_receipts(timestamptz, integer)")
    code, _, _ = await run_worker(
        database.url, "--once", "--only", "prune", "--only", "timers", SENTRY_DSN=dsn(receiver)
    )
    assert code == 1
    (event,) = events(receiver)
    assert event["tags"]["duty"] == "prune"
    assert event["exception"]["values"][-1]["type"] == "UndefinedFunctionError"
