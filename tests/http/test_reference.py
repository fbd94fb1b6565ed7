"""The page on which people read and try the API."""

import re

import httpx
import pytest
from fastapi import FastAPI

from assent.http.app import bare_app
from tests.http.application import app
from tests.http.callers import CALLBACKS, SETTINGS, People
from tests.http.doors import create_app


def browser(**settings):
    transport = httpx.ASGITransport(bare_app(SETTINGS.replace(**settings)))
    return httpx.AsyncClient(transport=transport, base_url="http://assent", follow_redirects=True)


async def test_it_is_what_somebody_sees_who_opens_the_address():
    async with browser(web="off") as client:
        page = await client.get("/")
    assert (page.status_code, page.url.path) == (200, "/docs")


async def test_everything_it_fetches_is_served_beside_it():
    async with browser() as client:
        page = (await client.get("/docs")).text
        named = re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", page)
        fetched = [(await client.get(link or url)).status_code for link, url in named]
    assert fetched == [200, 200, 200, 200], named
    assert "://" not in page


async def test_there_is_none_where_it_is_turned_off():
    async with browser(docs="off") as client:
        assert (await client.get("/docs")).status_code == 404
        assert (await client.get("/openapi.json")).status_code == 200


async def test_mounted_under_a_path_it_finds_its_files_and_its_document():
    """FINDINGS: a new user's trial, B13."""
    outer = FastAPI()
    outer.mount("/assent", bare_app(SETTINGS.replace(web="off")))
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://shop", follow_redirects=True
    ) as client:
        page = await client.get("/assent/")
        assert (page.status_code, page.url.path) == (200, "/assent/docs")
        named = re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", page.text)
        fetched = [await client.get(page.url.join(link or url)) for link, url in named]
        assert [one.status_code for one in fetched] == [200, 200, 200, 200]
        document = (await client.get("/assent/openapi.json")).json()
    assert document["servers"] == [{"url": "/assent"}]
    async with browser() as client:
        assert "servers" not in (await client.get("/openapi.json")).json()


async def test_mounted_under_a_path_a_location_leads_there(furnished, clock):
    outer = FastAPI()
    outer.mount("/assent", create_app(app, furnished, SETTINGS, CALLBACKS))
    async with People(outer, clock.now())("alice") as client:
        made = await client.post("/assent/api/entities/expense", json={"data": {"title": "Taxi", "total": 3}})
        assert made.headers["location"] == f"/assent/api/entities/expense/{made.json()['id']}"
        assert (await client.get(made.headers["location"])).json() == made.json()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_head_of_health_is_as_get(people, path):
    async with people("alice") as client:
        assert (await client.head(path)).status_code == (await client.get(path)).status_code == 200
