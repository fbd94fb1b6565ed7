"""Receivers that are real, and a worker that may reach them."""

from collections.abc import AsyncIterator, Iterator

import pytest

from assent.effects.settings import SendingSettings
from assent.runtime import Runtime
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.effects.mailbox import Mailbox, mail_server
from tests.workers import LOCAL, EffectsWorker


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as mailbox:
        yield mailbox


@pytest.fixture
async def effects_worker(runtime: Runtime, database: Database) -> AsyncIterator[EffectsWorker]:
    """An engine and an effects worker that may send to this machine."""
    effects_worker = EffectsWorker(WorkerContext(database, runtime=runtime, sending=SendingSettings(LOCAL)))
    yield effects_worker
    await effects_worker.close()
