"""The page on which people read and try the API."""

import re

import httpx

from assent.http.app import bare_app
from tests.http.callers import SETTINGS


def browser(**settings):
    transport = httpx.ASGITransport(bare_app(SETTINGS.replace(**settings)))
    return httpx.AsyncClient(transport=transport, base_url="http://assent", follow_redirects=True)


async def test_it_is_what_somebody_sees_who_opens_the_address():
    async with browser() as client:
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
