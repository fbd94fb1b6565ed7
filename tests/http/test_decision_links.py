"""Links in mails that decide: a page that shows and never decides, and a form that decides once, by all rules."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI

from assent.effects.addresses import Allowed
from assent.effects.callbacks import Callbacks
from assent.effects.decision_links import PATH, DecisionLink, DecisionLinks
from assent.effects.settings import DecisionLinkSettings, EffectSettings, SendingSettings
from assent.http.settings import HttpSettings
from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.authored import END, arrows
from tests.effects.mailbox import mail_server
from tests.http.application import INVOICE_DATA, app
from tests.http.callers import CALLBACKS, SETTINGS, People, client_of
from tests.http.doors import create_app
from tests.http.test_approvals import asked, submitted
from tests.http.test_other_orgs import ALICE, attach_row
from tests.workers import EffectsWorker
from tests.world import publish_steps, rows

LINKS = DecisionLinkSettings(url="https://flows.example.com", key="a key of links, longer than 32 bytes!!")
SIGNED = DecisionLinks(LINKS)


@pytest.fixture
def door(furnished: Database) -> FastAPI:
    return create_app(app, furnished, SETTINGS, CALLBACKS, LINKS)


@pytest.fixture
async def allowed(furnished: Database) -> Database:
    await set_allowed(furnished, "true")
    await decide_by_mail(furnished, "fin", "bob", "carol", "alice")
    return furnished


async def decide_by_mail(database: Database, *names: str) -> None:
    """Give members an address, at which they choose to decide by links."""
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET email = user_id || '@acme.example' WHERE org_id = 'acme'"
        )
    for name in names:
        await app.runtime(database).org("acme", Actor(name)).preferences.change({"decides_by_mail": True})


async def set_allowed(database: Database, value: str) -> None:
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.orgs SET settings = jsonb_set(settings, '{mail_links}', $1::jsonb) WHERE org_id = 'acme'",
            value == "true",
        )


async def path_for(database: Database, asked_id: str, who: str, **changes: Any) -> str:
    """The path of a link as a mail has it."""
    (row,) = [row for row in await rows(database, "approval_requests") if str(row["id"]) == asked_id]
    content = row["content_hash"] or f"version {row['entity_version']}"
    link = replace(DecisionLink("acme", UUID(asked_id), who, content), **changes)
    return PATH + SIGNED.token(link, database.clock.now())


async def post(door: FastAPI, path: str, answer: str = "approved", **fields: str) -> httpx.Response:
    async with client_of(door) as client:
        return await client.post(path, data={"answer": answer, **fields})


async def get(door: FastAPI, path: str) -> httpx.Response:
    async with client_of(door) as client:
        return await client.get(path)


async def decisions(database: Database) -> list[tuple[str, str, str | None]]:
    found = await rows(database, "approval_decisions")
    return [(row["approver_id"], row["decision"], row["reason"]) for row in found]


class ParsedPage(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def of(self, tag: str) -> list[Mapping[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


async def everything(database: Database) -> Any:
    tables = (
        "approval_decisions",
        "approval_requests",
        "workflow_seats",
        "audit_log",
        "decision_link_uses",
        "entities",
    )
    return [await rows(database, table) for table in tables]


async def test_page_shows_what_is_decided_and_decides_nothing(
    door: FastAPI, people: People, allowed: Database
) -> None:
    _, request_id = await submitted(people)
    path, before = await path_for(allowed, request_id, "fin"), await everything(allowed)
    for _ in range(3):
        reply = await get(door, path)
    assert reply.status_code == 200
    assert await everything(allowed) == before
    page = ParsedPage(reply.text)
    for shown in ("2026-17", "v-9", "1,200.00 EUR", "Requested by alice", "Version 2", "You decide as fin"):
        assert shown in page.text
    assert page.of("html")[0]["lang"] == "en"
    assert page.of("form") == [{"method": "post"}]
    assert [one["value"] for one in page.of("button")] == ["approved", "rejected"]
    assert page.of("label")[0]["for"] == page.of("textarea")[0]["id"]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.of("meta")
    assert page.of("script") == page.of("style") == page.of("img") == page.of("link") == page.of("a") == []


async def test_page_says_how_many_files_are_approved(
    door: FastAPI, people: People, allowed: Database
) -> None:
    async with people("alice") as client:
        made = (await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})).json()
        await attach_row(allowed, app, "invoice", made["id"], ALICE)
        moved = (await client.post(f"/api/entities/invoice/{made['id']}/transitions/submit")).json()
    request_id = moved["instance"]["steps"][0]["request_id"]
    page = ParsedPage((await get(door, await path_for(allowed, request_id, "fin"))).text)
    assert "Attachments 1" in page.text
    assert "_attachments" not in page.text


async def test_page_is_for_nobody_elses_frame_cache_referrer_or_index(
    door: FastAPI, people: People, allowed: Database
) -> None:
    _, request_id = await submitted(people)
    path = await path_for(allowed, request_id, "fin")
    for reply in (await get(door, path), await post(door, path, "nonsense"), await get(door, f"{PATH}x")):
        headers = reply.headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert "noindex" in headers["x-robots-tag"]
        assert "no-store" in headers["cache-control"]
        assert headers["content-type"] == "text/html; charset=utf-8"


async def test_form_decides_once_and_the_audit_log_names_the_way(
    door: FastAPI, people: People, allowed: Database
) -> None:
    place, request_id = await submitted(people)
    path = await path_for(allowed, request_id, "fin")
    reply = await post(door, path, reason="within the budget")
    assert (reply.status_code, "You have approved this" in reply.text) == (200, True)
    assert await decisions(allowed) == [("fin", "approved", "within the budget")]
    async with people("alice") as client:
        assert (await client.get(place)).json()["state"] == "active"
    entries = [row for row in await rows(allowed, "audit_log") if row["channel"] == "mail link"]
    assert {row["actor_id"] for row in entries} >= {"fin"}
    for again in (await post(door, path), await post(door, path, "rejected"), await get(door, path)):
        assert again.status_code == 410
    assert len(await decisions(allowed)) == 1


async def test_two_posts_at_once_decide_once(door: FastAPI, people: People, allowed: Database) -> None:
    _, request_id = await submitted(people)
    path = await path_for(allowed, request_id, "fin")
    replies = await asyncio.gather(*(post(door, path, answer) for answer in ("approved", "rejected") * 2))
    assert sorted(reply.status_code for reply in replies) == [200, 410, 410, 410]
    assert len(await decisions(allowed)) == 1


async def test_used_link_does_not_decide_again_when_the_same_person_is_asked_again(
    door: FastAPI, people: People, allowed: Database
) -> None:
    """A seat that comes back to the person who has used the link of that request."""
    _, request_id = await asked(people)
    async with allowed.transaction("acme") as connection:
        await connection.execute(
            "INSERT INTO assent.decision_link_uses (org_id, request_id, user_id) VALUES ('acme', $1, 'bob')",
            UUID(request_id),
        )
    path = await path_for(allowed, request_id, "bob")
    assert (await get(door, path)).status_code == 410
    assert (await post(door, path)).status_code == 410
    assert await decisions(allowed) == []


REVOKE = {
    "the member was deactivated": "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'fin'",
    "the member lost the role": "UPDATE assent.members SET roles = '{}' WHERE org_id = 'acme' AND user_id = 'fin'",
    "the org allows no links": "UPDATE assent.orgs SET settings = settings - 'mail_links' WHERE org_id = 'acme'",
    "the person has changed their mind": "UPDATE assent.member_preferences SET links_to = NULL WHERE org_id = 'acme'",
    "the person's address is another one": "UPDATE assent.members SET email = 'x@acme.example' "
    "WHERE org_id = 'acme' AND user_id = 'fin'",
    "the setting is no boolean": """UPDATE assent.orgs SET settings = jsonb_set(settings, '{mail_links}', '"true"') """
    "WHERE org_id = 'acme'",
}


@pytest.mark.parametrize("sql", REVOKE.values(), ids=REVOKE)
async def test_link_is_revoked(door: FastAPI, people: People, allowed: Database, sql: str) -> None:
    _, request_id = await submitted(people)
    path = await path_for(allowed, request_id, "fin")
    assert (await get(door, path)).status_code == 200
    async with allowed.transaction(None) as connection:
        await connection.execute(sql)
    assert (await post(door, path)).status_code in (403, 410)
    assert await decisions(allowed) == []
    assert await rows(allowed, "decision_link_uses") == []


async def test_edit_makes_the_link_void(door: FastAPI, people: People, allowed: Database) -> None:
    place, request_id = await submitted(people)
    path = await path_for(allowed, request_id, "fin")
    async with people("alice") as client:
        edited = await client.patch(place, json={"data": {"grand_total": 130000}}, headers={"If-Match": "*"})
        assert edited.is_success, edited.text
    assert (await get(door, path)).status_code == 410
    assert (await post(door, path)).status_code == 410
    assert await decisions(allowed) == []


async def test_decision_of_another_ends_the_link(door: FastAPI, people: People, allowed: Database) -> None:
    _, request_id = await asked(people)
    path = await path_for(allowed, request_id, "bob")
    assert (await post(door, await path_for(allowed, request_id, "carol"), "rejected")).status_code == 200
    assert (await get(door, path)).status_code == 410
    assert (await post(door, path)).status_code == 410
    assert await decisions(allowed) == [("carol", "rejected", None)]


async def test_link_is_for_the_person_the_request_the_org_and_the_content(
    door: FastAPI, people: People, allowed: Database
) -> None:
    _, request_id = await submitted(people)
    _, other = await asked(people)
    for wrong in (
        {"user_id": "alice"},  # who submitted it
        {"user_id": "bob"},  # who is not asked
        {"user_id": "ghost"},
        {"request_id": UUID(other)},
        {"org_id": "globex"},
        {"content": "another content"},
    ):
        path = await path_for(allowed, request_id, "fin", **wrong)
        assert (await get(door, path)).status_code == 410, wrong
        assert (await post(door, path)).status_code == 410, wrong
    assert await decisions(allowed) == []


async def test_link_expires(door: FastAPI, people: People, allowed: Database, clock: MovedClock) -> None:
    _, request_id = await asked(people)
    path = await path_for(allowed, request_id, "bob")
    clock.advance("6d")
    assert (await get(door, path)).status_code == 200
    clock.advance("1d")
    assert (await get(door, path)).status_code == 410
    assert (await post(door, path)).status_code == 410
    assert await decisions(allowed) == []


async def test_no_other_token_is_a_link(door: FastAPI, people: People, allowed: Database) -> None:
    _, request_id = await asked(people)
    path = await path_for(allowed, request_id, "bob")
    now = allowed.clock.now()
    others = [
        Callbacks(CALLBACKS).token("acme", UUID(request_id), now),
        DecisionLinks(LINKS.replace(key="another key, longer than thirty-two bytes")).token(
            DecisionLink("acme", UUID(request_id), "bob", "version 0"), now
        ),
        path.removeprefix(PATH)[:-2] + "xx",
        "x",
    ]
    for token in others:
        assert (await post(door, PATH + token)).status_code == 410
    assert await decisions(allowed) == []
    async with client_of(door) as client:
        credentials = {"Authorization": f"Bearer {path.removeprefix(PATH)}"}
        assert (await client.get("/api/inbox", headers=credentials)).status_code == 401


async def test_guessing_is_slowed_down(furnished: Database, people: People) -> None:
    door = create_app(app, furnished, SETTINGS.replace(rate_failed_sign_ins_per_minute=3), CALLBACKS, LINKS)
    statuses = [(await get(door, f"{PATH}guess{n}")).status_code for n in range(5)]
    assert statuses == [410, 410, 410, 429, 429]


async def test_person_has_one_rate_for_links_and_for_requests_with_a_token(
    furnished: Database, people: People, allowed: Database, clock: MovedClock
) -> None:
    settings: HttpSettings = SETTINGS.replace(rate_workflows_per_minute=2)
    door = create_app(app, furnished, settings, CALLBACKS, LINKS)
    _, request_id = await asked(people)
    async with People(door, clock.now())("bob") as client:
        for _ in range(2):
            assert (await client.post(f"/api/approvals/{request_id}/claim")).status_code == 200
    assert (await get(door, await path_for(furnished, request_id, "bob"))).status_code == 429


async def test_person_has_a_rate(furnished: Database, people: People, allowed: Database) -> None:
    settings: HttpSettings = SETTINGS.replace(rate_workflows_per_minute=2)
    door = create_app(app, furnished, settings, CALLBACKS, LINKS)
    _, request_id = await asked(people)
    path = await path_for(furnished, request_id, "bob")
    assert [(await get(door, path)).status_code for _ in range(3)] == [200, 200, 429]


async def test_form_of_another_page_decides_nothing(door: FastAPI, people: People, allowed: Database) -> None:
    _, request_id = await asked(people)
    path = await path_for(allowed, request_id, "bob")
    for answer, fields in (("abstained", {}), ("", {}), ("approved", {"reason": "x" * 3_000})):
        assert (await post(door, path, answer, **fields)).status_code == 422
    async with client_of(door) as client:
        for body in (b"", b"answer=approved&answer=rejected", b"\xff", b"answer"):
            assert (await client.post(path, content=body)).status_code == 422
    assert await decisions(allowed) == []
    assert (await post(door, path)).status_code == 200


async def test_values_are_escaped(door: FastAPI, people: People, allowed: Database) -> None:
    attack = "\"><script>alert(1)</script><form action='https://evil.example'>"
    async with people("alice") as client:
        created = await client.post(
            "/api/entities/invoice", json={"data": {**INVOICE_DATA, "vendor_id": attack}}
        )
        moved = (await client.post(f"{created.headers['location']}/transitions/submit")).json()
    path = await path_for(allowed, moved["instance"]["steps"][0]["request_id"], "fin")
    page = ParsedPage((await get(door, path)).text)
    assert page.of("script") == []
    assert page.of("form") == [{"method": "post"}]
    assert "alert(1)" in page.text


async def test_page_is_in_the_language_of_the_person(
    door: FastAPI, people: People, allowed: Database
) -> None:
    _, request_id = await submitted(people)
    async with people("fin") as client:
        await client.patch("/api/preferences", json={"language": "de"})
    page = ParsedPage((await get(door, await path_for(allowed, request_id, "fin"))).text)
    assert page.of("html")[0]["lang"] == "de"
    assert "Genehmigen" in page.text
    assert "1.200,00 EUR" in page.text


@pytest.fixture
def asking() -> dict[str, Any]:
    return {"id": "ask", "type": "approval", "label": "Check", "assignee": {"user": "bob"}, "notify": "email"}


async def test_mail_has_a_link_only_where_the_org_allows_it(
    furnished: Database, people: People, door: FastAPI, asking: dict[str, Any]
) -> None:
    await decide_by_mail(furnished, "bob")
    ways = [*arrows("ask", "end", event="approved"), *arrows("ask", "end", event="rejected")]
    await publish_steps(furnished, "asking", [asking, END], ways)
    settings = SendingSettings(EffectSettings(allow=Allowed.read(["127.0.0.0/8"])), links=LINKS)
    found = []
    with mail_server() as mailbox:
        worker = EffectsWorker(WorkerContext(furnished, runtime=app.runtime(furnished), sending=settings))
        worker = worker.sending(mailbox.settings)
        for value in ("false", "true"):
            await set_allowed(furnished, value)
            async with people("alice") as client:
                await client.post("/api/flows/asking/start", json={})
            await worker.send()
            found.append(mailbox.mails[-1])
        await worker.close()
    texts = [mail.get_body(("plain",)).get_content() for mail in found]  # type: ignore[union-attr]
    assert "/decide/" not in texts[0]
    (link,) = re.findall(r"Decide without signing in:\s+https://flows\.example\.com(/decide/\S+)", texts[1])
    stored = str(await rows(furnished, "effects")) + str(await rows(furnished, "job_attempts"))
    assert "/decide/" not in stored
    assert (await post(door, link)).status_code == 200
    assert await decisions(furnished) == [("bob", "approved", None)]


async def last_mail(database: Database, people: People, asking: dict[str, Any]) -> str:
    """Ask bob, and return the text of the mail that comes of it."""
    ways = [*arrows("ask", "end", event="approved"), *arrows("ask", "end", event="rejected")]
    await publish_steps(database, "asking", [asking, END], ways)
    settings = SendingSettings(EffectSettings(allow=Allowed.read(["127.0.0.0/8"])), links=LINKS)
    with mail_server() as mailbox:
        worker = EffectsWorker(WorkerContext(database, runtime=app.runtime(database), sending=settings))
        worker = worker.sending(mailbox.settings)
        async with people("alice") as client:
            assert (await client.post("/api/flows/asking/start", json={})).is_success
        await worker.send()
        await worker.close()
        mail = mailbox.mails[-1]
    return f"{mail['to']}\n{mail.get_body(('plain',)).get_content()}"  # type: ignore[union-attr]


async def test_nobody_decides_for_another_by_setting_their_address(
    furnished: Database, people: People, door: FastAPI, asking: dict[str, Any]
) -> None:
    """Else the holder of `members:manage` approves as every approver, also what they have written themselves."""
    await set_allowed(furnished, "true")
    await decide_by_mail(furnished, "bob")
    async with people("adam") as client:
        changed = await client.patch("/api/members/bob", json={"email": "adam@acme.example"})
        assert changed.status_code == 200, changed.text
    mail = await last_mail(furnished, people, asking)
    assert mail.startswith("adam@acme.example")
    assert PATH not in mail
    async with people("bob") as client:
        assert (await client.get("/api/preferences")).json()["decides_by_mail"] is False
        # Another preference is none of it; what holds again is said by the person.
        assert (await client.patch("/api/preferences", json={"mails": "at_once"})).json()[
            "decides_by_mail"
        ] is False
        assert (await client.patch("/api/preferences", json={"decides_by_mail": True})).json()[
            "decides_by_mail"
        ]


async def test_mails_to_those_who_have_not_chosen_it_have_no_link(
    furnished: Database, people: People, door: FastAPI, asking: dict[str, Any]
) -> None:
    await set_allowed(furnished, "true")
    await decide_by_mail(furnished)
    assert PATH not in await last_mail(furnished, people, asking)
    path = await path_for(furnished, str((await rows(furnished, "approval_requests"))[-1]["id"]), "bob")
    assert (await get(door, path)).status_code == 410
    assert (await post(door, path)).status_code == 410
    assert await decisions(furnished) == []


async def test_no_one_decides_by_mail_without_an_address(furnished: Database) -> None:
    with pytest.raises(Refused, match="no address"):
        await app.runtime(furnished).org("acme", Actor("bob")).preferences.change({"decides_by_mail": True})
    assert await rows(furnished, "member_preferences") == []
