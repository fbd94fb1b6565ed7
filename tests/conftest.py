"""Fixtures for all tests: `database` is a migrated one of the test's own, with a clock to move."""

import gc
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import invoice_contract
from tests.postgres import SETTINGS, START, Databases, folder_of_this_run, server_at
from tests.receiver import Receiver, receiving
from tests.statements import StatementCounter
from tests.twin import Twin, repeated_ids
from tests.world import EXPENSE, ORDER

_RUN_DIR = pytest.StashKey[Path]()

# No test writes files into the user's own folder; one that keeps some names a place of its own.
os.environ["ASSENT_BLOBS"] = "memory://"


def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder that all workers of this run share."""
    given = getattr(config, "workerinput", {}).get("assent_run_dir")
    folder = nullcontext(Path(given)) if given else folder_of_this_run()
    config.stash[_RUN_DIR] = folder.__enter__()
    config.add_cleanup(lambda: folder.__exit__(None, None, None))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["assent_run_dir"] = str(node.config.stash[_RUN_DIR])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long tests: one that is left to the end keeps a worker busy while the others have nothing."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Exempt from garbage collection what lives until the end: going through it took a fifth of the tests' time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    """Collect garbage after each module, so that what it forgot to close is its own failure, and no later test's."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def run_dir(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.stash[_RUN_DIR]


@pytest.fixture(scope="session")
def postgres_url(run_dir: Path) -> Iterator[str]:
    """The server's maintenance database; every worker joins the same server, the last one stops it."""
    with server_at(run_dir / "server") as url:
        yield url


@pytest.fixture(scope="session")
async def databases(postgres_url: str) -> AsyncIterator[Databases]:
    async with Databases.on(postgres_url) as databases:
        yield databases


@pytest.fixture(scope="session")
async def template(databases: Databases) -> str:
    return await databases.ensure_template()


@pytest.fixture
async def empty_database_url(databases: Databases) -> AsyncIterator[str]:
    """A database with nothing in it."""
    async with databases.fresh() as url:
        yield url


@pytest.fixture(scope="session")
async def twin(databases: Databases, template: str) -> AsyncIterator[Twin]:
    """A migrated database with the twin org in it; tests get copies."""
    async with databases.fresh(template) as url:
        yield await Twin.settle(url)


@pytest.fixture(autouse=True)
def _ids_of_the_twin() -> Iterator[None]:
    with repeated_ids():
        yield


@pytest.fixture
async def database_url(
    request: pytest.FixtureRequest, databases: Databases, template: str, twin: Twin
) -> AsyncIterator[str]:
    """A migrated database of this test's own, with the twin org beside whatever the test puts there.

    `without_twin` gives an empty one, to tests of what all orgs have together.
    """
    alone = request.node.get_closest_marker("without_twin") is not None
    async with databases.fresh(template if alone else twin.template) as url:
        yield url
        if not alone:
            await twin.assert_untouched(url)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(START)


@pytest.fixture
async def database(database_url: str, clock: MovedClock) -> AsyncIterator[Database]:
    """A migrated database of this test's own, which goes by `clock`."""
    database = await Database.open(database_url, settings=SETTINGS, clock=clock)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def app() -> App:
    """An application with the three documents of `tests.world`, to which a test may add."""
    return App([invoice_contract(), ORDER, EXPENSE])


@pytest.fixture
def runtime(app: App, database: Database) -> Runtime:
    return app.runtime(database)


@pytest.fixture
def kernel(app: App, database: Database) -> Kernel:
    return app.kernel(database)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A real HTTP server for effects to go to."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def statement_counter(database: Database) -> Iterator[StatementCounter]:
    """Counts the statements of `database` from the beginning of the test; `clear()` starts again."""
    counter = StatementCounter()
    with database.observe(counter):
        yield counter
