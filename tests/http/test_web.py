"""The pages for people as a server sends them: what may be kept, what a browser may do with them, and their end."""

import re

import httpx
import pytest
from fastapi import FastAPI

from assent.http.app import bare_app
from tests.http.callers import SETTINGS, problem

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
PAGE = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def browser(door: FastAPI | None = None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(door or bare_app(SETTINGS))
    return httpx.AsyncClient(transport=transport, base_url="http://assent", headers=PAGE)


def addresses(page: str) -> list[str]:
    return re.findall(r'''(?:src|href)="(\./[^"]+)"''', page)


PATHS = [
    "/",
    "/inbox",
    "/inbox/7",
    "/documents/invoice/7",
    "/clients/review/7",
    "/sign-in",
    "/instances/7",
    "/incidents",
    "/health",
]


@pytest.mark.parametrize("path", PATHS)
async def test_every_address_shows_the_page_and_lets_nothing_else_in(path):
    async with browser() as client:
        page = await client.get(path)
        head = await client.head(path)
    assert (page.status_code, head.status_code) == (200, 200)
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=", page.text)


async def test_a_browser_that_opens_an_upload_link_gets_a_page_of_its_own():
    """The page itself is the same for every link; what it may load has nothing of a session."""
    async with browser() as client:
        page = await client.get("/uploads/none")
    assert (page.status_code, page.headers["referrer-policy"]) == (200, "no-referrer")
    assert "img-src 'self' blob: data:" in page.headers["content-security-policy"]
    assert (page.headers["cache-control"], page.headers["vary"]) == ("no-store", "accept")
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=", page.text)


async def test_files_are_kept_for_good_and_come_packed():
    async with browser() as client:
        named = addresses((await client.get("/inbox")).text)
        assert {name.rpartition(".")[2] for name in named} == {"js", "css", "svg"}
        for name in named:
            assert re.search(r"-[\w-]{8}\.", name), name
            path = name.removeprefix(".")
            plain = await client.get(path, headers={"accept-encoding": "identity"})
            assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
            for encoding in ("br", "gzip"):
                packed = await client.head(path, headers={"accept-encoding": encoding})
                assert packed.headers["content-encoding"] == encoding
                assert packed.headers["vary"] == "accept-encoding"
                assert int(packed.headers["content-length"]) < len(plain.content)
            assert plain.headers["content-type"] == packed.headers["content-type"]


@pytest.mark.parametrize(
    "path", ["/assets/no.js", "/assets/..%2findex.html", "/assets/../built-from", "/assets/index.html"]
)
async def test_no_other_file_is_served(path):
    async with browser() as client:
        assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/api/nothing", "/api", "/ui/nothing", "/docs/nothing", "/uploads"])
async def test_an_unknown_route_of_programs_is_a_problem_also_for_a_browser(path):
    async with browser() as client:
        assert problem(await client.get(path), 404)["code"] == "NO_SUCH_ROUTE"


async def test_an_unknown_address_is_a_page_for_people_and_a_problem_for_programs():
    async with browser() as client:
        page = await client.get("/inbxo")
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "content-security-policy" in page.headers
        program = {"accept": "application/json"}
        assert problem(await client.get("/inbxo", headers=program), 404)["code"] == "NO_SUCH_ROUTE"
        assert problem(await client.post("/inbxo"), 404)["code"] == "NO_SUCH_ROUTE"


@pytest.mark.parametrize("mounted", ["", "/erp/approvals"])
@pytest.mark.parametrize(
    ("link", "address"),
    [
        (f"approvals/{ID}", f"inbox/{ID}"),
        (f"entities/invoice/{ID}", f"documents/invoice/{ID}"),
        (f"entities/%2F%2Fevil.example/{ID}", None),
        (f"entities/%5Cevil.example/{ID}", f"documents/%5Cevil.example/{ID}"),
        (f"forms/{ID}", "inbox"),
        (f"questions/{ID}", "inbox"),
        ("inbox", "inbox"),
        ("approvals/evil", None),
        (f"instances/{ID}", None),
    ],
)
async def test_a_link_of_a_message_leads_to_the_page_that_shows_it(mounted, link, address):
    door = bare_app(SETTINGS)
    if mounted:
        outer = FastAPI()
        outer.mount(mounted, door)
    async with browser(outer if mounted else door) as client:
        found = await client.get(f"{mounted}/app/acme/{link}")
    if address is None:
        assert (found.status_code, found.headers["content-type"]) == (404, "text/html; charset=utf-8")
    else:
        assert (found.status_code, found.headers["location"]) == (307, f"{mounted}/{address}")


async def test_mounted_under_a_path_the_page_finds_its_files():
    outer = FastAPI()
    outer.mount("/erp/approvals", bare_app(SETTINGS))
    async with browser(outer) as client:
        page = await client.get("/erp/approvals/inbox/7")
        (base,) = re.findall(r'<base href="([^"]+)"', page.text)
        assert base == "/erp/approvals/"
        for name in addresses(page.text):
            assert (await client.get(page.url.join(base).join(name))).status_code == 200
        assert problem(await client.get("/erp/approvals/api/nothing"), 404)["code"] == "NO_SUCH_ROUTE"


async def test_without_the_pages_the_api_is_alone():
    async with browser(bare_app(SETTINGS.replace(web="off"))) as client:
        assert (await client.get("/")).headers["location"] == "/docs"
        assert problem(await client.get("/inbox"), 404)["code"] == "NO_SUCH_ROUTE"
