"""What a scenario must not leave behind is seen when it is there: each kind of it, brought about once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assent.engine.run import Run
from assent.testing import Sandbox
from tests.scenarios.living import SCENARIOS, Lives
from tests.scenarios.remains import what_remains

CALLED_OFF = "what is called off ends in every branch, also in those that have arrived"
ASK = {
    "flow": "asks",
    "version": 1,
    "start": "ask",
    "steps": [
        {"id": "ask", "type": "approval", "assignee": {"role": "boss"}},
        {"id": "end", "type": "terminal"},
    ],
    "transitions": [
        {"from": "ask", "event": "approved", "to": "end"},
        {"from": "ask", "event": "rejected", "to": "end"},
    ],
}


@pytest.fixture
async def sandbox(postgres_url: str) -> AsyncIterator[Sandbox]:
    async with Sandbox(sources=[ASK], server=postgres_url) as sandbox:
        await sandbox.people(ann=["clerk"], bob=["boss"])
        await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start("asks")
        yield sandbox


async def spoil(sandbox: Sandbox, statement: str) -> str:
    """What is found after somebody has changed a row behind everybody's back."""
    assert await what_remains(sandbox) == []
    async with sandbox.database.transaction(None) as connection:
        await connection.execute(statement)
    (found,) = await what_remains(sandbox)
    return found


async def test_a_projection_that_its_steps_do_not_make(sandbox: Sandbox) -> None:
    found = await spoil(sandbox, "UPDATE assent.workflow_instances SET context_json = '{\"paid\": true}'")
    assert found.startswith("asks is kept as")


async def test_a_seat_of_a_request_that_is_settled(sandbox: Sandbox) -> None:
    found = await spoil(
        sandbox, "UPDATE assent.approval_requests SET status = 'cancelled', decided_at = now()"
    )
    assert found.startswith("a seat is left open")


async def test_a_request_that_outlives_its_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, postgres_url: str
) -> None:
    monkeypatch.setattr(Run, "_close_request", lambda run, step: None)
    (called_off,) = [found for found in SCENARIOS if found.name == CALLED_OFF]
    remains = (await Lives(tmp_path, postgres_url).of(called_off)).remains
    assert any(found.startswith("a request is left pending") for found in remains)
