"""Acme: a company with something for every command to act on, as a template that each run copies."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from assent.approvals.requests import read_request
from assent.definitions import publish_flow
from assent.effects.callbacks import Callbacks
from assent.effects.decision_links import DecisionLink
from assent.http.routes.sessions import terms_of
from assent.model.actor import SYSTEM, Actor
from assent.model.ids import new_id
from assent.people.api_keys import create_api_key
from assent.people.sessions import begin_session
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.loop import exhaust
from assent.worker.tasks import Tasks
from tests.authored import END, arrows, call
from tests.http.application import INVOICE_DATA, LEAVE, SCHEDULE, app, furnish
from tests.http.callers import CALLBACKS, People
from tests.http.callers import SETTINGS as HTTP_SETTINGS
from tests.http.doors import create_app
from tests.http.test_decision_links import LINKS, SIGNED
from tests.http.test_other_orgs import settle_acme
from tests.postgres import SETTINGS, START
from tests.rows import insert, insert_delivery
from tests.world import ANN, drain

ORG: Final = "acme"
NOW: Final = START + timedelta(hours=1)
"""When commands are given: after everything that acme has was made."""

CONFIRMING: Final[dict[str, Any]] = {
    "flow": "confirming",
    "version": 1,
    "start": "confirm",
    "steps": [call("confirm", "orders.confirm", input={"order_id": "'ord-1'"}), END],
    "transitions": arrows("confirm", "end"),
}


@dataclass(frozen=True)
class Acme:
    """The name of the template, and the ids of what acme has, by what they are."""

    template: str
    parts: dict[str, str]


async def settle(url: str) -> dict[str, str]:
    """Fill a migrated database with acme; return the ids of what it has."""
    clock = MovedClock(START)
    database = await Database.open(url, settings=SETTINGS, clock=clock)
    try:
        await furnish(database)
        async with database.transaction(None) as connection:
            await publish_flow(connection, ORG, CONFIRMING, SYSTEM, START)
        door = create_app(app, database, HTTP_SETTINGS, CALLBACKS, LINKS)
        people = People(door, START)
        parts = await settle_acme(people, database)
        parts |= await _forms_and_flows(people) | await _invoices(people) | await _definitions(people)
        parts |= await _dead(app.runtime(database), clock)
        kept, _ = await app.runtime(database).org(ORG).operations.fold(UUID(parts["split_id"]))
        parts["left_token"] = next(token.id for token in kept.tokens.values() if token.node == "left")
        parts |= await _linked(database, parts["request_id"])
        async with database.transaction(None) as connection:
            letter = await insert_delivery(connection, org_id=ORG, status="dead")
            waived = {"status": "waived", "waived_by": "adam", "satisfied_at": START}
            requirement = await insert(connection, "document_requirements", org_id=ORG, **waived)
            session = await begin_session(connection, ORG, "fin", NOW, terms_of(HTTP_SETTINGS))
            key, _ = await create_api_key(connection, ORG, "fin", "browser", START, scopes=("*",))
        token = Callbacks(CALLBACKS).token(ORG, UUID(parts["asked_id"]), NOW)
        more = {
            "result_letter_id": str(letter["id"]),
            "waived_id": str(requirement["id"]),
            "unused_id": str(new_id(START)),
            "session_token": session.token,
            "api_key": key,
        }
        return parts | more | {"callback_token": token}
    finally:
        await database.close()


async def _forms_and_flows(people: People) -> dict[str, str]:
    async with people("alice") as alice, people("olga") as olga:
        survey = (await alice.post("/api/flows/survey/start", json={"order": 8})).json()
        claimed = (await alice.post("/api/flows/survey/start", json={"order": 9})).json()["steps"][0]
        assert (await alice.post(f"/api/forms/{claimed['step_id']}/claim")).is_success
        paused = (await alice.post("/api/flows/pair/start", json={})).json()
        assert (await olga.post(f"/api/instances/{paused['id']}/pause", json={})).is_success
        split = (await alice.post("/api/flows/pair/start", json={})).json()
        paused_survey = (await alice.post("/api/flows/survey/start", json={"order": 7})).json()
        assert (await olga.post(f"/api/instances/{paused_survey['id']}/pause", json={})).is_success
    return {
        "survey_id": survey["id"],
        "claimed_form_id": claimed["step_id"],
        "paused_id": paused["id"],
        "paused_survey_id": paused_survey["id"],
        "split_id": split["id"],
    }


async def _invoices(people: People) -> dict[str, str]:
    small = {**INVOICE_DATA, "vendor_id": "v-1", "grand_total": 1000}
    async with people("alice") as alice, people("fin") as fin:

        async def invoice(data: dict[str, Any], *, submit: bool) -> tuple[str, Any]:
            created = (await alice.post("/api/entities/invoice", json={"data": data})).json()["id"]
            if not submit:
                return created, None
            moved = await alice.post(f"/api/entities/invoice/{created}/transitions/submit")
            return created, moved.json()["instance"]

        draft, _ = await invoice(INVOICE_DATA, submit=False)
        locked, _ = await invoice(small, submit=True)
        _, asking = await invoice(INVOICE_DATA, submit=True)
        claimed = asking["steps"][0]["request_id"]
        assert (await fin.post(f"/api/approvals/{claimed}/claim")).is_success
    return {"draft_invoice_id": draft, "locked_id": locked, "claimed_id": claimed}


async def _definitions(people: People) -> dict[str, str]:
    versions = []
    async with people("adam") as adam:
        for version in (1, 2):
            source = {**LEAVE, "flow": "leave.twice", "version": version}
            text = {"sources": [{"name": "leave.yaml", "text": json.dumps(source)}]}
            published = await adam.post("/api/definitions/publish", json=text)
            versions.append(published.json()["publications"][0]["definition"]["id"])
            assert (await adam.post("/api/signing-secrets/rotate")).is_success
        settings = {"limit": 9, "alert_url": "https://alerts.example/acme", "mail_links": True}
        for answer in (
            await adam.patch("/api/org/settings", json=settings),
            await adam.post("/api/event-sources/cancel/rotate", json={}),
            await adam.put("/api/mail-templates/escalated/en", json={"subject": "{what}"}),
            await adam.put("/api/schedules/paused", json=SCHEDULE),
            await adam.post("/api/schedules/paused/pause"),
            await adam.put("/api/roles/auditor", json={"capabilities": ["audit:read"]}),
            await adam.post("/api/members", json={"user_id": "gone", "name": "Gone"}),
            await adam.post("/api/members/gone/deactivate"),
        ):
            assert answer.is_success, answer.text
        solicited = await adam.post(
            "/api/requirements/solicit", json={"subject": "c-7", "doc_types": ["passport"]}
        )
        assert solicited.is_success, solicited.text
    return {"earlier_id": versions[0], "solicited_id": solicited.json()["request_id"]}


async def _linked(database: Database, request_id: str) -> dict[str, str]:
    """The token of a link by which fin decides a request."""
    runtime = app.runtime(database)
    await runtime.org(ORG, SYSTEM).members.change("fin", {"email": "fin@acme.example"})
    await runtime.org(ORG, Actor("fin")).preferences.change({"decides_by_mail": True})
    async with database.transaction(ORG) as connection:
        details = await read_request(connection, ORG, UUID(request_id))
    assert details is not None
    link = DecisionLink(ORG, UUID(request_id), "fin", str(details.request.content))
    return {"link_token": SIGNED.token(link, NOW)}


async def _dead(runtime: Runtime, clock: MovedClock) -> dict[str, str]:
    """An instance whose operation failed until its attempts were used up, and a task that did."""

    def closed(connection: Any, arguments: Any) -> Any:
        raise RuntimeError("the shop is closed")

    runtime.core.advancing.operations["orders.confirm"] = closed
    (failed,) = await runtime.org(ORG, ANN).instances.start_many("confirming", [{}])
    for _ in range(5):
        await drain(runtime)
        clock.advance("10m")
    (letter,) = await runtime.org(ORG).dead_letters.list("event")
    task = (await runtime.org(ORG).tasks.submit("report.build", {"month": "never"})).id
    await exhaust(Tasks(WorkerContext(runtime.database, runtime=runtime)), lambda run: None)
    assert (await runtime.org(ORG).tasks.get(task)).status == "dead"
    printed = (await runtime.org(ORG).tasks.submit("report.build", {"month": "printed"})).id
    await exhaust(Tasks(WorkerContext(runtime.database, runtime=runtime)), lambda run: None)
    waiting = (await runtime.org(ORG).tasks.submit("report.build", {"month": "May"})).id
    return {
        "failed_id": str(failed),
        "event_letter_id": str(letter.id),
        "dead_task_id": str(task),
        "task_id": str(waiting),
        "background_task_id": str(printed),
    }
