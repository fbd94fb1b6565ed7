"""A browser for the session, and for each test a company on a server, with people who look at it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.browser.chromium import chromium
from tests.browser.clients import ClientIntake, take_clients_in
from tests.browser.company import Company, serving_company
from tests.browser.seat import Desktop


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def company(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Company]:
    monkeypatch.setenv("ASSENT_BLOBS", tmp_path.joinpath("files").as_uri())
    async with serving_company(database_url) as company:
        yield company


@pytest.fixture
async def intake(company: Company) -> ClientIntake:
    return await take_clients_in(company)


@pytest.fixture
async def desktop(browser: Browser, company: Company) -> AsyncIterator[Desktop]:
    """Opens pages for people; at the end, none of them has complained about anything."""
    async with Desktop.at(browser, company) as desktop:
        yield desktop
