"""Each broker once for each process of the tests; every test has a stream of its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from assent.app import App
from assent.requests.messages import TransportKind
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.transports.brokers import BROKERS, Broker
from tests.workers import ResultsWorker


@pytest.fixture(scope="session")
async def brokers(run_dir: Path) -> AsyncIterator[dict[TransportKind, Broker]]:
    async with AsyncExitStack() as stack:
        yield {
            kind: await stack.enter_async_context(found.running(run_dir / f"{kind}-{uuid4().hex}"))
            for kind, found in BROKERS.items()
        }


@pytest.fixture(params=[*BROKERS])
def broker(brokers: dict[TransportKind, Broker], request: pytest.FixtureRequest) -> Broker:
    return brokers[request.param]


@pytest.fixture
def results_worker(database: Database, clock: MovedClock) -> ResultsWorker:
    return ResultsWorker(App().runtime(database), database, clock)
