"""Two companies, and the HTTP door of the application on a database of the test's own."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.http.application import app, furnish
from tests.http.callers import CALLBACKS, People
from tests.http.callers import SETTINGS as HTTP_SETTINGS
from tests.http.doors import create_app
from tests.postgres import SETTINGS, START, Databases
from tests.twin import Twin


@pytest.fixture(scope="session")
async def furnished_template(databases: Databases, twin: Twin) -> AsyncIterator[str]:
    """The name of a database that is furnished already; each test gets a copy."""
    async with databases.fresh(twin.template) as url:
        database = await Database.open(url, settings=SETTINGS, clock=MovedClock(START))
        await furnish(database)
        await database.close()
        await twin.assert_untouched(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
async def database_url(databases: Databases, furnished_template: str, twin: Twin) -> AsyncIterator[str]:
    async with databases.fresh(furnished_template) as url:
        yield url
        await twin.assert_untouched(url)


@pytest.fixture
def furnished(database: Database) -> Database:
    return database


@pytest.fixture
def door(furnished: Database) -> FastAPI:
    # Streams end soon, for clients of this kind hear of an answer when it is complete.
    return create_app(app, furnished, HTTP_SETTINGS.replace(stream_s_max=1), CALLBACKS)


@pytest.fixture
def people(door: FastAPI, clock: MovedClock) -> People:
    return People(door, clock.now())
