"""Files over HTTP: uploaded and downloaded by members and by links; nothing that is sent is executed by a browser."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from assent.documents.blobs import Blobs
from tests.documents.conftest import LEAD, Compliance
from tests.documents.test_file_names import HTML, SVG
from tests.documents.test_files import PDF, kept_files, require_nothing_left
from tests.http.callers import People, client_of, problem
from tests.world import ORG, rows

NEVER_EXECUTED = ("application/octet-stream", "application/pdf", "image/png", "text/plain; charset=utf-8")


async def made(client: httpx.AsyncClient) -> str:
    answer = await client.post("/api/documents", json={"document_type": "passport", "subject": "c-1"})
    return f"/api/documents/{answer.json()['id']}/versions"


async def put(
    client: httpx.AsyncClient, place: str, content: Any = PDF, name: str = "scan.pdf", **headers: str
) -> Any:
    sent = {"content-type": "application/pdf"} | {
        key.replace("_", "-"): value for key, value in headers.items()
    }
    return await client.put(place, params={"name": name}, content=content, headers=sent)


async def content_of(people: People, place: str, version: str, **headers: str) -> httpx.Response:
    async with people("lead") as client:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        return await client.get(f"{place}/{version}/content", headers=sent)


async def test_a_file_is_uploaded_and_downloaded(people: People, blobs: Blobs) -> None:
    async with people("portal") as client:
        place = await made(client)
        answer = await put(client, place, valid_to="x")
        assert answer.status_code == 201, answer.text
    version = answer.json()
    assert version["cargo"] == f"version://assent/{version['id']}"
    found = await content_of(people, place, version["id"])
    assert (found.status_code, found.content) == (200, PDF)
    assert found.headers["content-type"] == "application/pdf"
    assert found.headers["content-disposition"].startswith('attachment; filename="scan.pdf"')
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]
    assert found.headers["etag"] == f'"{hashlib.sha256(PDF).hexdigest()}"'
    async with people("lead") as client:
        shown = (await client.get(place.removesuffix("/versions"))).json()["versions"][0]
    assert shown["file"] == {
        "name": "scan.pdf",
        "type": "application/pdf",
        "size_bytes": len(PDF),
        "sha256": hashlib.sha256(PDF).hexdigest(),
        "status": "kept",
    }
    assert len(kept_files(blobs)) == 1


@pytest.mark.parametrize(
    ("content", "name", "declared", "saved"),
    [
        (HTML, "passport.html", "text/html", "passport.html.bin"),
        (HTML, "passport.png", "image/png", "passport.png.bin"),
        (SVG, "logo.svg", "image/svg+xml", "logo.svg.bin"),
        (SVG, "logo.png", "image/png", "logo.png.bin"),
        (b"alert(1)//", "x.js", "text/javascript", "x.js.txt"),
        (b"MZ\x90\x00" + b"\0" * 90, "invoice.pdf", "application/pdf", "invoice.pdf.bin"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 50, "scan.pdf", "application/pdf", "scan.pdf.png"),
        (PDF, '../../"\r\nSet-Cookie: a=b.exe', "application/pdf", "_Set-Cookie_ a_b.exe.pdf"),
        (PDF, "\u202efdp.scan", "application/pdf", "fdp.scan.pdf"),
    ],
)
async def test_what_lies_or_has_scripts_is_an_attachment_that_no_browser_executes(
    people: People, content: bytes, name: str, declared: str, saved: str
) -> None:
    async with people("portal") as client:
        place = await made(client)
        answer = await put(client, place, content, name, content_type=declared)
        assert answer.status_code == 201, answer.text
    found = await content_of(people, place, answer.json()["id"])
    assert found.content == content
    assert found.headers["content-type"] in NEVER_EXECUTED
    assert found.headers["content-type"] != declared or declared in NEVER_EXECUTED
    said = found.headers["content-disposition"]
    assert said.startswith("attachment; ")
    assert f'filename="{saved}"' in said
    assert "set-cookie" not in found.headers
    assert found.headers["x-content-type-options"] == "nosniff"
    async with people("lead") as client:
        shown = (await client.get(place.removesuffix("/versions"))).json()["versions"][0]
    assert shown["content_type"] == declared  # what is declared stays on record beside what was found


async def test_ranges_and_tags(people: People) -> None:
    async with people("portal") as client:
        place = await made(client)
        version = (await put(client, place)).json()["id"]
    size = len(PDF)
    for asked, start, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        (f"bytes={size - 3}-", size - 3, size),
        ("bytes=-4", size - 4, size),
        (f"bytes=10-{size * 9}", 10, size),
        (f"bytes=-{size * 9}", 0, size),
    ):
        found = await content_of(people, place, version, range=asked)
        assert (found.status_code, found.content) == (206, PDF[start:end]), asked
        assert found.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert found.headers["content-length"] == str(end - start)
        assert "attachment" in found.headers["content-disposition"]
    for asked in ("bytes=0-1,3-4", "items=0-1", "bytes=9-5", "bytes=-", "bytes=a-b"):
        assert (await content_of(people, place, version, range=asked)).status_code == 200, asked
    for asked in (f"bytes={size}-", "bytes=-0", f"bytes={size + 5}-{size + 6}"):
        found = await content_of(people, place, version, range=asked)
        assert problem(found, 416)["code"] == "RANGE_NOT_SATISFIABLE"
        assert found.headers["content-range"] == f"bytes */{size}"
    tag = f'"{hashlib.sha256(PDF).hexdigest()}"'
    same = await content_of(people, place, version, if_none_match=f'"other", {tag}')
    assert (same.status_code, same.content) == (304, b"")
    stale = await content_of(people, place, version, range="bytes=0-0", if_range='"other"')
    assert stale.status_code == 200


async def test_the_same_key_with_the_same_bytes_is_one_version(
    people: People, compliance: Compliance, blobs: Blobs
) -> None:
    async with people("portal") as client:
        place = await made(client)
        first, again = [await put(client, place, idempotency_key="k-1") for _ in range(2)]
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert again.headers["idempotent-replayed"] == "true"
        other = await put(client, place, PDF + b"!", idempotency_key="k-1")
        assert problem(other, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert len(await rows(compliance.database, "document_versions")) == 1
    assert len(kept_files(blobs)) == 1
    assert len(await rows(compliance.database, "blobs")) == 1


async def test_nothing_is_left_of_an_upload_that_is_refused(
    people: People, compliance: Compliance, blobs: Blobs
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 50_000

    async with people("portal") as client:
        place = await made(client)
        assert problem(await put(client, place, b""), 422)["code"] == "EMPTY_FILE"
        over = await put(client, place, endless())
        assert problem(over, 413)["code"] == "FILE_TOO_LARGE"
        assert over.headers["connection"] == "close"
        announced = await put(client, place, b"x" * 2_000_000)
        assert problem(announced, 413)["code"] == "FILE_TOO_LARGE"
        unknown = await client.put(f"{place}?nmae=x", content=PDF)
        assert problem(unknown, 422)["code"] == "UNKNOWN_KEY"
    async with people("vera") as client:
        assert problem(await put(client, place), 403)["code"] == "POLICY_DENIED"
    async with people("portal", "globex") as client:
        assert (await put(client, place)).status_code in (403, 404)
    async with client_of(people._door) as client:
        assert problem(await put(client, place), 401)["code"] == "NOT_SIGNED_IN"
    await require_nothing_left(compliance, blobs)


async def test_a_caller_who_may_not_upload_has_no_byte_read(people: People) -> None:
    read: list[int] = []

    async def watched() -> AsyncIterator[bytes]:
        read.append(1)
        yield b"x"

    async with people("portal") as client:
        place = await made(client)
    async with people("vera") as client:
        assert (await put(client, place, watched())).status_code == 403
    async with client_of(people._door) as client:
        assert (await put(client, place, watched())).status_code == 401
    assert read == []


async def test_a_link_to_a_file_needs_no_sign_in_and_ends(
    people: People, door: FastAPI, compliance: Compliance
) -> None:
    async with people("portal") as client:
        place = await made(client)
        version = (await put(client, place)).json()["id"]
        assert problem(await client.post(f"{place}/{version}/link"), 403)["code"] == "POLICY_DENIED"
    async with people("lead") as client:
        link = (await client.post(f"{place}/{version}/link")).json()
    assert link["url"].startswith("http://assent/downloads/")
    async with client_of(door) as client:
        found = await client.get(link["url"], headers={"range": "bytes=0-3"})
        assert (found.status_code, found.content) == (206, PDF[:4])
        assert "attachment" in found.headers["content-disposition"]
        head, _, rest = link["url"].rpartition(".")
        for bad in (f"{head}.{rest[::-1]}", f"{link['url']}x", "http://assent/downloads/none.of.ours"):
            assert problem(await client.get(bad), 404)["code"] == "NOT_FOUND"
        as_upload = link["url"].replace("/downloads/", "/uploads/")
        assert problem(await client.get(as_upload), 404)["code"] == "NOT_FOUND"
        compliance.clock.advance(timedelta(seconds=301))
        assert problem(await client.get(link["url"]), 410)["code"] == "LINK_EXPIRED"


async def test_a_link_to_an_erased_file_leads_nowhere(
    people: People, door: FastAPI, compliance: Compliance
) -> None:
    async with people("portal") as client:
        place = await made(client)
        version = (await put(client, place)).json()
    async with people("lead") as client:
        link = (await client.post(f"{place}/{version['id']}/link")).json()
        await compliance.by(LEAD).documents.erase(version["document_id"], version["id"], "asked to")
        assert problem(await client.get(f"{place}/{version['id']}/content"), 404)["code"] == "NOT_FOUND"
    async with client_of(door) as client:
        assert problem(await client.get(link["url"]), 404)["code"] == "NOT_FOUND"


async def test_bytes_that_the_store_has_lost_are_an_outage_and_not_an_empty_file(
    people: People, blobs: Blobs
) -> None:
    async with people("portal") as client:
        place = await made(client)
        version = (await put(client, place)).json()["id"]
    for file in kept_files(blobs):
        await asyncio.to_thread(file.unlink)
    assert problem(await content_of(people, place, version), 503)["code"] == "BLOBS_UNAVAILABLE"


async def test_files_are_found_by_their_org(people: People, compliance: Compliance) -> None:
    async with people("portal") as client:
        await put(client, await made(client))
    assert {row["org_id"] for row in await rows(compliance.database, "blobs")} == {ORG}
