"""Databases to break: copies of a company that has some of everything."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from tests.faults.company import Acme, settle
from tests.faults.points import Laboratory
from tests.postgres import Databases
from tests.twin import Twin


@pytest.fixture(scope="session")
async def acme(databases: Databases, twin: Twin) -> AsyncIterator[Acme]:
    async with databases.fresh(twin.template) as url:
        yield Acme(urlsplit(url).path.removeprefix("/"), await settle(url))


@pytest.fixture(scope="session")
def laboratory(databases: Databases, acme: Acme) -> Laboratory:
    return Laboratory(databases, acme.template)
