"""Receivers that are real, and a worker that may reach them."""

from collections.abc import AsyncIterator, Iterator

import pytest

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.runtime import Runtime
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.effects.mailbox import Mailbox, mail_server
from tests.effects.receiver import Receiver, receiving
from tests.effects.sending import LOCAL, Office


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as mailbox:
        yield mailbox


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def runtime(app: App, database: Database) -> Runtime:
    return app.runtime(database)


@pytest.fixture
async def office(runtime: Runtime, database: Database) -> AsyncIterator[Office]:
    """An engine and an effects worker that may send to this machine."""
    office = Office(WorkerContext(database, runtime=runtime, sending=SendingSettings(LOCAL)))
    yield office
    await office.close()
