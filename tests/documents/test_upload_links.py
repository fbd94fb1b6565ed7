"""Links by which an outside party hands in files without an account: limited to one request, expiring, revocable."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest
from fastapi import FastAPI

from assent.app import App
from assent.documents.blobs import Blobs
from assent.effects.outlets import Message
from assent.effects.settings import PublicSettings, SendingSettings
from assent.model.actor import Actor
from assent.worker.duty import WorkerContext
from assent.worker.effects import Effects
from tests.documents.conftest import LEAD, PORTAL, Compliance
from tests.documents.test_commands import refused
from tests.documents.test_files import PDF, kept_files
from tests.documents.test_kyc import PAPERS, start_with
from tests.http.callers import People, client_of, problem
from tests.workers import run_until_done
from tests.world import rows

BASE = "http://assent"


async def link_of(compliance: Compliance, actor: Actor = LEAD, **about: Any) -> str:
    request = await compliance.open_request()
    made = await compliance.by(actor).requests.upload_link(request["id"], base_url=BASE, **about)
    return made.url


async def hand_in(
    door: FastAPI, link: str, doc_type: str, content: Any = PDF, name: str = "scan.pdf"
) -> httpx.Response:
    async with client_of(door) as client:
        return await client.post(f"{link}/{doc_type}", params={"name": name}, content=content)


async def look(door: FastAPI, link: str) -> httpx.Response:
    async with client_of(door) as client:
        return await client.get(link)


async def test_the_outside_party_sees_what_is_asked_and_hands_it_in(
    compliance: Compliance, door: FastAPI
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    asked = (await look(door, link)).json()
    assert (asked["org_name"], asked["language"]) == ("Acme", None)
    assert {one["doc_type"]: one["handed_in_at"] for one in asked["documents"]} == {
        "passport": None,
        "proof_of_address": None,
    }
    answer = await hand_in(door, link, "passport")
    assert answer.status_code == 201, answer.text
    assert answer.json()["name"] == "scan.pdf"
    shown = {one["doc_type"]: one["handed_in_at"] for one in (await look(door, link)).json()["documents"]}
    assert shown["passport"] is not None
    assert shown["proof_of_address"] is None
    await compliance.work()
    assert await compliance.statuses() == {"passport": "received", "proof_of_address": "requested"}
    request = await compliance.open_request()
    assert (request["status"], request["received"]) == ("partial", 1)
    await hand_in(door, link, "proof_of_address")
    await compliance.work()
    (request, *_) = await compliance.requests()
    assert request["status"] == "completed"
    assert (await compliance.place())[1] == ["identity_verified"]
    found = await look(door, link)
    assert problem(found, 410)["code"] == "REQUEST_ENDED"
    assert problem(found, 410)["problems"][0]["path"] == ["request", "completed"]
    late = compliance.by(LEAD).requests.upload_link(request["id"], base_url=BASE)
    await refused("REQUEST_ENDED", late)
    assert "everything that was asked for has come" in problem(found, 410)["detail"]
    assert problem(await hand_in(door, link, "passport"), 410)["code"] == "REQUEST_ENDED"


async def test_a_rejected_document_is_asked_for_with_its_message_and_is_the_next_version(
    compliance: Compliance, door: FastAPI
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    for doc_type in ("passport", "proof_of_address"):
        await hand_in(door, link, doc_type)
    await compliance.work()
    (passport,) = (await compliance.by(LEAD).documents.list(document_type="passport")).items
    (version,) = (await compliance.by(LEAD).documents.get(passport.id)).versions
    await compliance.reject(version, "UNREADABLE")
    again = await link_of(compliance)
    (asked,) = (await look(door, again)).json()["documents"]
    assert (asked["doc_type"], asked["attempt"]) == ("passport", 2)
    assert asked["message"].startswith("The image of the document is too blurry to read.")
    assert (await hand_in(door, again, "passport", PDF + b"clear")).status_code == 201
    await compliance.work()
    found = await compliance.by(LEAD).documents.get(passport.id)
    assert [one.version_no for one in found.versions] == [2, 1]
    assert (await compliance.requirements())["passport"].version_id == found.versions[0].id


async def test_the_same_file_again_changes_nothing_and_another_is_refused(
    compliance: Compliance, door: FastAPI, blobs: Blobs
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    answers = [await hand_in(door, link, "passport") for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    other = await hand_in(door, link, "passport", PDF + b"!")
    assert problem(other, 409)["code"] == "ALREADY_HANDED_IN"
    assert len(kept_files(blobs)) == 1
    assert len(await rows(compliance.database, "outside_request_deliveries")) == 1


async def test_two_files_for_one_document_at_once_are_one_version(
    compliance: Compliance, door: FastAPI, blobs: Blobs
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    answers = await asyncio.gather(
        *(hand_in(door, link, "passport", PDF + bytes([number])) for number in range(5))
    )
    assert sorted(one.status_code for one in answers) == [201, 409, 409, 409, 409]
    assert len(kept_files(blobs)) == 1
    assert len(await rows(compliance.database, "document_versions")) == 1
    assert len(await rows(compliance.database, "blobs")) == 1


async def test_a_link_opens_nothing_but_its_own_request(compliance: Compliance, door: FastAPI) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    assert problem(await hand_in(door, link, "visa"), 404)["code"] == "NOT_FOUND"
    for path in ("/api/documents", "/api/outside-requests", "/api/org"):
        async with client_of(door, {"authorization": f"Bearer {link.rpartition('/')[2]}"}) as client:
            assert (await client.get(path)).status_code == 401
    assert problem(await look(door, link.replace("/uploads/", "/downloads/")), 404)["code"] == "NOT_FOUND"


async def test_a_token_of_another_org_request_or_key_is_not_found(
    compliance: Compliance, door: FastAPI
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    token = link.rpartition("/")[2]
    (row,) = [one for one in await rows(compliance.database, "upload_links") if one["made_by"] == "lead"]
    (own,) = [one for one in await rows(compliance.database, "upload_links") if one["made_by"] is None]
    claims = jwt.decode(token, options={"verify_signature": False})
    typ = {"typ": "assent-upload+jwt"}
    forged = [
        jwt.encode(claims | {"org": "globex"}, row["key"], "HS256", typ),
        jwt.encode(claims | {"id": str(own["id"])}, row["key"], "HS256", typ),
        jwt.encode(claims | {"exp": claims["exp"] * 2}, "k" * 64, "HS256", typ),
        jwt.encode(claims, row["key"], "HS512", typ),
        jwt.encode(claims, row["key"], "HS256", {"typ": "assent-download+jwt"}),
        jwt.encode(claims | {"aud": "assent:download"}, row["key"], "HS256", typ),
        jwt.encode(claims, "", "none", typ),
        token[:-3],
        "x",
    ]
    for one in forged:
        assert problem(await look(door, f"{BASE}/uploads/{one}"), 404)["code"] == "NOT_FOUND"
        assert (await hand_in(door, f"{BASE}/uploads/{one}", "passport")).status_code == 404
    assert (await look(door, link)).status_code == 200
    assert await rows(compliance.database, "blobs") == []


async def test_a_link_expires_and_is_revoked(compliance: Compliance, door: FastAPI) -> None:
    await compliance.begin()
    link, longer = await link_of(compliance, days=1), await link_of(compliance, days=5)
    compliance.clock.advance(timedelta(days=1, seconds=1))
    assert problem(await look(door, link), 410)["code"] == "LINK_EXPIRED"
    assert (await look(door, longer)).status_code == 200
    request = await compliance.open_request()
    assert (
        await compliance.by(LEAD).requests.revoke_upload_links(request["id"]) == 2
    )  # the one of the request too
    assert problem(await look(door, longer), 410)["code"] == "LINK_REVOKED"
    assert problem(await hand_in(door, longer, "passport"), 410)["code"] == "LINK_REVOKED"
    actions = {row["action"] for row in await rows(compliance.database, "audit_log")}
    assert {"upload_link.create", "upload_link.revoke"} <= actions


async def test_a_link_that_is_revoked_while_its_file_comes_hands_in_nothing(
    compliance: Compliance, door: FastAPI, blobs: Blobs
) -> None:
    await compliance.begin()
    link, request = await link_of(compliance), await compliance.open_request()

    async def revoked() -> Any:
        yield PDF
        await compliance.by(LEAD).requests.revoke_upload_links(request["id"])
        yield b"the rest"

    assert problem(await hand_in(door, link, "passport", revoked()), 410)["code"] == "LINK_REVOKED"
    assert kept_files(blobs) == []
    assert await rows(compliance.database, "document_versions") == []


async def test_a_request_that_ends_while_its_file_comes_takes_nothing(
    compliance: Compliance, door: FastAPI, blobs: Blobs
) -> None:
    view = await compliance.begin()
    link = await link_of(compliance)

    async def ended() -> Any:
        yield PDF
        await compliance.by(LEAD).instances.cancel(view.id, "mistaken")

    assert problem(await hand_in(door, link, "passport", ended()), 410)["code"] == "REQUEST_ENDED"
    assert kept_files(blobs) == []
    assert await rows(compliance.database, "documents") == []


async def test_who_made_the_link_reviews_nothing_that_came_by_it(
    compliance: Compliance, door: FastAPI
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    await hand_in(door, link, "passport")
    await compliance.work()
    (row,) = await rows(compliance.database, "document_versions")
    assert (row["created_by"], row["maker_id"]) == (f"outside:{row['request_id']}", "lead")
    lead = compliance.by(Actor("lead", capabilities={"*"})).documents
    await refused("SEPARATION_OF_DUTIES", lead.verify(row["document_id"], row["id"]))
    await refused("SEPARATION_OF_DUTIES", lead.reject(row["document_id"], row["id"], "UNREADABLE"))
    entries = [one for one in await rows(compliance.database, "audit_log") if one["channel"] == "upload link"]
    assert {one["actor_id"] for one in entries} == {row["created_by"]}


async def test_links_are_made_by_those_who_may(compliance: Compliance) -> None:
    await compliance.begin()
    request = await compliance.open_request()
    eve = compliance.by(Actor("eve")).requests
    await refused("POLICY_DENIED", eve.upload_link(request["id"], base_url=BASE))
    await refused("POLICY_DENIED", eve.revoke_upload_links(request["id"]))
    elsewhere = compliance.runtime.org("globex", LEAD).requests
    await refused("NOT_FOUND", elsewhere.upload_link(request["id"], base_url=BASE))
    await refused("NOT_FOUND", elsewhere.revoke_upload_links(request["id"]))
    await refused("NO_PUBLIC_URL", compliance.by(LEAD).requests.upload_link(request["id"]))
    await refused(
        "OUT_OF_RANGE", compliance.by(LEAD).requests.upload_link(request["id"], base_url=BASE, days=0)
    )


async def test_the_letter_that_asks_has_the_link_where_a_public_url_is_set(
    compliance: Compliance, door: FastAPI
) -> None:
    blocker = PAPERS["on_fail"]["blocker"] | {
        "resolution": "(document.solicit :subject-entity-id $entity_id :doc-type passport :notify $email)"
    }
    await start_with(compliance, PAPERS | {"on_fail": {"blocker": blocker}})
    sent: list[Message] = []
    app = App().adapter("email", sent.append)
    public = PublicSettings.defaults(url="https://portal.example.com")
    sending = replace(SendingSettings.defaults(), public=public)
    context = WorkerContext(compliance.database, runtime=app.runtime(compliance.database), sending=sending)
    await run_until_done(Effects(context))
    (letter,) = sent
    (found,) = re.findall(r"https://portal\.example\.com(/uploads/\S+)$", letter.text)
    assert not any("/uploads/" in str(row["payload"]) for row in await rows(compliance.database, "effects"))
    assert (await look(door, f"{BASE}{found}")).json()["documents"][0]["doc_type"] == "passport"
    answer = await hand_in(door, f"{BASE}{found}", "passport")
    assert answer.status_code == 201
    (version,) = await rows(compliance.database, "document_versions")
    assert version["maker_id"] is None


async def test_links_are_limited_by_address(compliance: Compliance, people: People, monkeypatch: Any) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    door = people._door
    door.state.services.rates._per_minute["uploads"] = 6
    answers = [await look(door, link) for _ in range(8)]
    assert [one.status_code for one in answers].count(429) >= 2
    assert "retry-after" in answers[-1].headers


@pytest.mark.parametrize("content", [b"", b"x" * 1_000_001])
async def test_what_is_refused_by_a_link_leaves_nothing(
    compliance: Compliance, door: FastAPI, blobs: Blobs, content: bytes
) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    assert (await hand_in(door, link, "passport", content)).status_code in (413, 422)
    assert kept_files(blobs) == []
    assert await rows(compliance.database, "documents") == []
    assert await rows(compliance.database, "blobs") == []


async def test_the_portal_and_the_link_do_not_hand_in_twice(compliance: Compliance, door: FastAPI) -> None:
    await compliance.begin()
    link = await link_of(compliance)
    await compliance.hand_in("passport")
    await compliance.work()
    answer = await hand_in(door, link, "passport")
    assert problem(answer, 409)["code"] == "ALREADY_HANDED_IN"
    assert PORTAL.id in {row["created_by"] for row in await rows(compliance.database, "document_versions")}
