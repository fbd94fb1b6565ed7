"""Onboarding with a real outside party: another process that is asked by webhook, and answers over HTTP."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
import yaml

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.http.app import create_app
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.model.actor import Actor
from assent.templates import templates
from assent.worker.duty import WorkerContext
from tests.documents.conftest import LEAD, Compliance
from tests.processes.commands import ROOT
from tests.workers import LOCAL, EffectsWorker
from tests.world import ORG, WorldMember, grant, hire, publish, rows

BOTH = ["passport", "proof_of_address"]


class OutsideStory:
    """An onboarding, and the party that answers."""

    def __init__(self, compliance: Compliance, worker: EffectsWorker, party: str) -> None:
        self.compliance, self.worker, self.party = compliance, worker, party

    async def work(self) -> None:
        """Ask, fold what came, and let the instance know."""
        await self.worker.send()
        await self.compliance.work()
        await self.worker.send()
        await self.compliance.work()

    async def asked(self) -> list[dict[str, Any]]:
        async with httpx.AsyncClient() as client:
            found: list[dict[str, Any]] = (await client.get(self.party)).json()
            return found

    async def latest(self, doc_type: str) -> Any:
        requirement = (await self.compliance.requirements())[doc_type]
        details = await self.compliance.by(LEAD).documents.get(requirement.document_id)
        return details.versions[0]


Begin = Callable[[list[list[str]]], Awaitable[OutsideStory]]


@asynccontextmanager
async def party_of(api: str, key: str, rounds: list[list[str]]) -> AsyncIterator[str]:
    """Run the party as a process; return its address."""
    told = {"PARTY_API": api, "PARTY_KEY": key, "PARTY_ROUNDS": json.dumps(rounds)}
    program = str(ROOT / "tests" / "documents" / "party.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, env=told, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 60))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def story_of(compliance: Compliance, rounds: list[list[str]]) -> AsyncIterator[OutsideStory]:
    async with compliance.database.transaction(None) as connection:
        await hire(connection, {"portal": WorldMember(["portals"], "service_account")})
        await grant(connection, {"portals": ["documents:write", "results:push"]})
    root, year = Actor("root", capabilities={"*"}), timedelta(days=365)
    ends = compliance.clock.now() + year
    key, _ = await compliance.by(root).keys.create("portal", user_id="portal", expires_at=ends)
    listening, settings = listen("127.0.0.1", 0), HttpSettings()
    door = Serving(create_app(App(), compliance.database, settings), listening, settings)
    serving = asyncio.create_task(door.run())
    sending = SendingSettings(LOCAL.replace(read_timeout_ms=60_000, total_timeout_ms=60_000))
    worker = EffectsWorker(WorkerContext(compliance.database, runtime=compliance.runtime, sending=sending))
    try:
        async with party_of(f"http://127.0.0.1:{listening.getsockname()[1]}", key, rounds) as party:
            flow = yaml.safe_load(templates()["kyc_onboarding"].files["flow.yaml"])
            flow["version"] = 2
            for state in flow["states"].values():
                blocker = state["on_fail"]["blocker"]
                blocker["resolution"] = blocker["resolution"].replace(")", f" :webhook '{party}')")
            await publish(compliance.database, flow, ORG)
            await compliance.begin()
            story = OutsideStory(compliance, worker, party)
            await story.work()
            yield story
    finally:
        door.stop()
        await serving
        await worker.close()
        listening.close()


async def test_a_partial_bundle_a_rejection_and_a_second_upload_end_in_a_client_who_is_taken_in(
    compliance: Compliance,
) -> None:
    rounds = [["passport"], ["proof_of_address"], ["passport"]]
    async with story_of(compliance, rounds) as story:
        assert await compliance.statuses() == {"passport": "received", "proof_of_address": "requested"}
        await compliance.wait(days=7)
        await story.work()
        assert await compliance.place() == ("running", ["identity_verified"])
        passport, address = await story.latest("passport"), await story.latest("proof_of_address")
        await compliance.verify(address)
        await compliance.reject(passport, "UNREADABLE")
        await story.work()
        again = await story.latest("passport")
        assert again.id != passport.id
        await compliance.verify(again)
        assert await compliance.place() == ("completed", [])
        asked = await story.asked()
    assert [[one["doc_type"] for one in request["documents"]] for request in asked] == [
        BOTH,
        ["proof_of_address"],
        ["passport"],
    ]
    assert all(one["request"] == one["header"] for one in asked)
    (last,) = asked[-1]["documents"]
    assert (last["rejection_code"], last["attempt"]) == ("UNREADABLE", 2)
    assert last["message"].startswith("The image of the document is too blurry to read.")
    deliveries = await rows(compliance.database, "outside_request_deliveries")
    assert len(deliveries) == 3  # each was reported twice, under one key


async def test_a_waiver_ends_the_wait_for_what_never_comes(compliance: Compliance) -> None:
    async with story_of(compliance, [["passport"]]) as story:
        address = (await compliance.requirements())["proof_of_address"]
        await compliance.by(LEAD).requirements.waive(address.id, "lives abroad")
        await story.work()
        await compliance.verify(await story.latest("passport"))
    assert await compliance.place() == ("completed", [])


async def test_a_passport_that_lapses_while_the_other_is_reviewed_is_asked_for_again(
    compliance: Compliance,
) -> None:
    async with story_of(compliance, [BOTH, ["passport"]]) as story:
        last = compliance.clock.now().date() + timedelta(days=1)
        await compliance.verify(await story.latest("passport"), valid_to=last)
        await compliance.wait(days=2)
        await story.work()
        await compliance.verify(await story.latest("passport"), await story.latest("proof_of_address"))
        assert [one["doc_type"] for one in (await story.asked())[-1]["documents"]] == ["passport"]
    assert await compliance.place() == ("completed", [])


@pytest.mark.parametrize(("code", "rounds"), [("DOB_MISMATCH", 1), ("GLARE", 3)])
async def test_what_no_round_can_bring_takes_a_person_who_has_a_way_out(
    compliance: Compliance, code: str, rounds: int
) -> None:
    async with story_of(compliance, [BOTH, *[["passport"]] * 3]) as story:
        for _ in range(rounds):
            await compliance.reject(await story.latest("passport"), code)
            await story.work()
        found = await compliance.instance()
        assert (found["status"], found["incident"]["code"]) == ("paused", "DOCUMENTS_BLOCKED")
        passport = (await compliance.requirements())["passport"]
        await compliance.by(LEAD).requirements.reset(passport.id, "the client has another one")
        await compliance.by(LEAD).instances.retry(found["id"])
        await story.work()
        await compliance.verify(await story.latest("passport"), await story.latest("proof_of_address"))
    assert await compliance.place() == ("completed", [])


async def test_documents_that_never_come_use_the_rounds_up(compliance: Compliance) -> None:
    async with story_of(compliance, []) as story:
        for _ in range(3):
            await compliance.wait(days=7)
            await story.work()
        assert len(await story.asked()) == 3
    assert (await compliance.instance())["incident"]["code"] == "DOCUMENTS_BLOCKED"
