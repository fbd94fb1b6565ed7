"""Requirements and results in any order: no walk leaves the table of moves, and no crash loses or doubles a result."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.model.actor import Actor
from assent.model.document import DocumentRequirement, IllegalMove, RejectionCode, satisfies
from assent.model.ids import new_id
from assent.model.moves import REQUIREMENT_MOVES
from assent.model.mutation import Refused
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.rescue import Rescue
from assent.worker.results import Results
from tests.documents.conftest import Compliance, blobs, compliance
from tests.postgres import SETTINGS, START
from tests.properties.crashing import Crash, CrashingDatabase
from tests.workers import run_until_done
from tests.world import ORG, drain, rows

__all__ = ["blobs", "compliance"]

UNREADABLE = RejectionCode("UNREADABLE", "quality", "a", "b", "c")
FORGED = RejectionCode("SUSPECTED_ALTERATION", "authenticity", "a", "b", "c", retryable=False)
ACTIONS = {
    "ask": lambda row: row.ask(new_id(START), None, START),
    "receive": lambda row: row.receive(new_id(START), new_id(START), START),
    "review": lambda row: row.begin_review(),
    "verify": lambda row: row.verify(START),
    "reject": lambda row: row.reject(UNREADABLE, None),
    "forge": lambda row: row.reject(FORGED, None),
    "expire": lambda row: row.expire(),
    "waive": lambda row: row.waive("lead", START),
    "reset": lambda row: row.reset(),
}
MODEL: dict[str, dict[str, str]] = {
    "missing": {"ask": "requested", "receive": "received", "waive": "waived", "reset": "missing"},
    "requested": {"ask": "requested", "receive": "received", "waive": "waived", "reset": "missing"},
    "received": {"receive": "received", "review": "in_qa", "waive": "waived", "reset": "missing"},
    "in_qa": {
        **{"receive": "in_qa", "review": "in_qa", "verify": "verified", "reject": "rejected"},
        **{"forge": "rejected", "waive": "waived", "reset": "missing"},
    },
    "verified": {"verify": "verified", "expire": "expired", "waive": "waived", "reset": "missing"},
    "rejected": {
        **{"ask": "requested", "receive": "received", "reject": "rejected", "forge": "rejected"},
        **{"waive": "waived", "reset": "missing"},
    },
    "expired": {
        **{"ask": "requested", "receive": "received", "expire": "expired"},
        **{"waive": "waived", "reset": "missing"},
    },
    "waived": {"waive": "waived", "reset": "missing"},
}
"""Status → action → status, written down a second time. What leaves a status as it is, is a move of nothing."""


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=30), st.sampled_from(["received", "verified"]))
def test_a_requirement_walks_as_the_model_and_the_table_say(walk: list[str], tier: Any) -> None:
    row = DocumentRequirement(ORG, new_id(START), "c-1", "passport", START, required_state=tier)
    rounds = 0
    for action in walk:
        before, expected = row, MODEL[row.status].get(action)
        try:
            row = ACTIONS[action](row)
        except IllegalMove:
            assert expected is None
            assert row is before
            continue
        assert row.status == expected
        assert row.status == before.status or row.status in REQUIREMENT_MOVES[before.status]
        assert row.revision == before.revision + 1
        rounds = 0 if action in ("reset", "expire") else rounds + (action == "ask")
        assert row.attempt_count == rounds
        is_far = satisfies(row.status, tier)
        assert is_far == (row.satisfied_at is not None)
        assert not (row.status in ("rejected", "expired") and row.satisfied_at is not None)


SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_random_onboarding_stays_within_the_table(compliance: Compliance, seed: int) -> None:
    """People, results and the clock do anything in any order; what the database has kept is a walk of the table."""
    random, root = Random(seed), Actor("root", capabilities={"*"})  # noqa: S311
    await compliance.begin()
    versions: list[Any] = []

    async def upload() -> None:
        versions.append(await compliance.upload(random.choice(["passport", "proof_of_address", "visa"])))

    async def push() -> None:
        request = random.choice(await compliance.requests())
        if versions:
            await compliance.push(*random.sample(versions, min(2, len(versions))), request_id=request["id"])

    async def review() -> None:
        one, code = random.choice(versions), random.choice([None, "GLARE", "UNREADABLE", "DOB_MISMATCH"])
        documents = compliance.by(root).documents
        if code is None:
            last = compliance.clock.now().date() + timedelta(days=random.choice([1, 400]))
            await documents.verify(one.document_id, one.id, valid_to=last)
        else:
            await documents.reject(one.document_id, one.id, code)

    async def move() -> None:
        found = random.choice(list((await compliance.requirements()).values()))
        command = random.choice(
            [compliance.by(root).requirements.waive, compliance.by(root).requirements.reset]
        )
        await command(found.id, "by chance")

    async def solicit() -> None:
        await compliance.by(root).requirements.solicit("c-1", ["passport"])

    async def retry() -> None:
        await compliance.by(root).instances.retry((await compliance.instance())["id"])

    async def wait() -> None:
        await compliance.wait(days=random.choice([1, 8]))

    acts = [upload, upload, push, push, review, review, move, solicit, retry, wait]
    for _ in range(25):
        with suppress(Refused, IndexError):
            await random.choice(acts)()
        if random.random() < 0.5:
            await compliance.work()
    await compliance.work()
    await require_walks(compliance.database)
    assert not [row for row in await rows(compliance.database, "jobs") if row["status"] == "dead"]
    events = await rows(compliance.database, "workflow_events_outbox")
    assert not [row for row in events if row["status"] in ("failed", "dead_letter")]


async def require_walks(database: Database) -> None:
    """Every requirement stands where its events have led it, by moves of the table."""
    events = sorted(await rows(database, "document_events"), key=lambda row: (row["at"], row["id"]))
    for row in await rows(database, "document_requirements"):
        walk = [one for one in events if one["requirement_id"] == row["id"]]
        assert walk[0]["old_status"] is None
        assert walk[-1]["new_status"] == row["status"]
        for one, then in pairwise(walk):
            assert then["old_status"] == one["new_status"]
            assert then["new_status"] in {one["new_status"], *REQUIREMENT_MOVES[one["new_status"]]}


@pytest.fixture
async def crashing(database: Database) -> AsyncIterator[CrashingDatabase]:
    """Connections of their own to the test's database."""
    other = await CrashingDatabase.open(database.url, settings=SETTINGS, clock=database.clock)
    other.arm(None)
    try:
        yield other
    finally:
        await other.close()


@pytest.mark.parametrize("seed", range(3))
async def test_results_in_any_order_with_a_crash_at_every_statement_count_once(
    compliance: Compliance, crashing: CrashingDatabase, seed: int
) -> None:
    """Both documents, each in several bundles under keys of their own, repeated, and sent again after each crash."""
    random = Random(seed)  # noqa: S311
    await compliance.begin()
    request = await compliance.open_request()
    passport, address = [await compliance.upload(one) for one in ("passport", "proof_of_address")]
    bundles = [("a", [passport]), ("b", [passport]), ("c", [address]), ("d", [passport, address])]
    statement = 0
    while True:
        statement += 1
        for key, versions in random.sample(bundles * 2, 3):
            await compliance.push(*versions, request_id=request["id"], key=key)  # lost and sent again
        crashing.arm(statement)
        with suppress(Crash):
            await Results(WorkerContext(crashing, runtime=compliance.runtime)).run_once()
        died = crashing.has_died
        crashing.arm(None)
        await asyncio.sleep(0)
        compliance.clock.advance(timedelta(seconds=61))
        await run_until_done(Rescue(WorkerContext(compliance.database)))
        await require_counts(compliance.database, request["id"])
        if not died:
            break
    # A bundle under which five workers died is a dead letter: it takes a person, and is not lost.
    root = Actor("root", capabilities={"*"})
    await compliance.by(root).dead_letters.retry_all("result")
    for key, versions in bundles:
        await compliance.push(*versions, request_id=request["id"], key=key)
    await compliance.work()
    await drain(compliance.runtime)
    await require_counts(compliance.database, request["id"])
    found = await compliance.requirements()
    assert {one.version_id for one in found.values()} == {passport.id, address.id}
    steps = await rows(compliance.database, "workflow_step_executions")
    passed = [row for row in steps if row["node_id"] == "evidence_collected" and row["status"] == "completed"]
    assert len(passed) == 1
    assert await compliance.place() == ("running", ["identity_verified"])
    assert statement > 5, "it must have died at some statements"
    keys = [row["key"] for row in await rows(compliance.database, "outside_request_deliveries")]
    assert sorted(keys) == sorted({key for key, _ in bundles})
    await require_walks(compliance.database)


async def require_counts(database: Database, request_id: UUID) -> None:
    """What a request has received is what it has of distinct cargo."""
    (request,) = [row for row in await rows(database, "outside_requests") if row["id"] == request_id]
    items = [row for row in await rows(database, "outside_request_items") if row["request_id"] == request_id]
    assert request["received"] == len({row["cargo"] for row in items}) == len(items)
