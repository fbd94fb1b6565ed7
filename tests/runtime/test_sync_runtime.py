"""The runtime that blocks: the same commands, for threads, for processes that fork, and until a process ends."""

import inspect
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, assert_type
from uuid import UUID

import pytest

from assent import Actor, App, Entity, InstanceView, ItemPage, Refused, SyncRuntime
from assent.runtime.instance_commands import EntityCommands
from assent.runtime.sync_runtime import SyncOrgRuntime
from assent.store.database import Database
from tests.runtime import sync_commands
from tests.world import ANN, ORG

TAXI = {"title": "Taxi", "total": 1}


@pytest.fixture
def blocking(app: App, database: Database) -> Iterator[SyncRuntime]:
    with app.sync_runtime(database.url) as runtime:
        yield runtime


def test_commands_that_block_are_those_of_the_runtime() -> None:
    assert sync_commands.FILE.read_text(encoding="utf-8") == sync_commands.text(), "run `make sync`"


def test_a_command_has_the_parameters_and_the_docstring_of_the_asynchronous_one() -> None:
    command = SyncOrgRuntime(None, None).entities.mutate  # type: ignore[arg-type]
    assert inspect.signature(command) == inspect.signature(EntityCommands(None).mutate)  # type: ignore[arg-type]
    assert command.__doc__ == EntityCommands.mutate.__doc__
    assert not inspect.iscoroutinefunction(command)


if TYPE_CHECKING:

    def types_are_those_of_the_asynchronous_commands(acme: SyncOrgRuntime, an_id: UUID) -> None:
        """Checked by mypy: results, and what is not a parameter."""
        assert_type(acme.approvals.decide(an_id, "approved", reason="as agreed"), InstanceView)
        assert_type(acme.entities.list("expense"), ItemPage[Entity])
        assert_type(acme.events.emit("key"), bool)
        assert_type(acme.by(Actor("max")).instances.start("flow", {"a": 1}), InstanceView)
        acme.approvals.decide(an_id)  # type: ignore[call-arg]
        acme.approvals.decide(an_id, "approved", reason=7)  # type: ignore[arg-type]


def test_what_is_written_is_read_back(blocking: SyncRuntime) -> None:
    acme = blocking.org(ORG, ANN)
    made = acme.entities.mutate("expense.create", TAXI).entity
    assert acme.entities.get(made.id).data["title"] == "Taxi"
    assert blocking.org(ORG).by(ANN).entities.list("expense").items == [made]


def test_a_refusal_is_raised_with_the_place_it_comes_from(blocking: SyncRuntime) -> None:
    with pytest.raises(Refused, match="nobody") as caught:
        blocking.org(ORG, Actor("nobody")).entities.mutate("expense.create", TAXI)
    frames = [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert frames[0] == "test_a_refusal_is_raised_with_the_place_it_comes_from"
    assert "mutate" in frames


def test_many_threads_use_it_at_once(blocking: SyncRuntime) -> None:
    def make(number: int) -> UUID:
        return blocking.org(ORG, ANN).entities.mutate("expense.create", {**TAXI, "total": number}).entity.id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(make, range(1, 41)))
    assert len(set(ids)) == 40
    assert len(blocking.org(ORG, ANN).entities.list("expense", limit=100).items) == 40


TRACE: ContextVar[str] = ContextVar("trace")


def test_a_command_runs_in_the_context_of_its_caller(app: App, database: Database) -> None:
    async def read(database: Database) -> str:
        return TRACE.get()

    with app.sync_runtime(database.url) as runtime:
        TRACE.set("trace 7")
        assert runtime.run(read) == "trace 7"


def test_a_call_from_its_own_thread_is_refused_instead_of_waiting_for_itself(blocking: SyncRuntime) -> None:
    async def call_back(database: Database) -> None:
        blocking.org(ORG, ANN).entities.list("expense")

    with pytest.raises(RuntimeError, match="another thread"):
        blocking.run(call_back)


def test_an_exit_in_a_coroutine_is_for_the_thread_that_waits(blocking: SyncRuntime) -> None:
    async def leave(database: Database) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        blocking.run(leave)
    assert blocking.org(ORG, ANN).entities.list("expense").items == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of SIGINT: a process that a shell started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_command_and_frees_its_connection(blocking: SyncRuntime) -> None:
    began = threading.Event()
    ended: list[str] = []

    async def sleep(database: Database) -> None:
        try:
            async with database.transaction(None) as connection:
                began.set()
                await connection.execute("SELECT pg_sleep(60)")
        finally:
            ended.append("ended")

    def interrupt() -> None:
        began.wait(10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        blocking.run(sleep)
    thread.join()
    assert ended == ["ended"]  # not later: its transaction is over when the caller goes on

    async def used(database: Database) -> int:
        return database.connections[0]

    assert blocking.run(used) == 0


def test_closed_it_opens_again_with_the_next_command(blocking: SyncRuntime) -> None:
    acme = blocking.org(ORG, ANN)
    acme.entities.mutate("expense.create", TAXI)
    blocking.close()
    blocking.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "assent"]
    assert len(acme.entities.list("expense").items) == 1


def test_a_database_that_cannot_be_reached_leaves_no_thread(app: App) -> None:
    with pytest.raises(Exception, match="Cannot connect"):
        app.sync_runtime("postgresql://127.0.0.1:1/none").org(ORG, ANN).entities.list("expense")
    assert not [thread for thread in threading.enumerate() if thread.name == "assent"]


PROGRAM = """
import os, sys, assent
app = assent.App().add({
    "contract": "note", "version": 1, "fields": {"title": {"type": "text", "required": True}},
    "lifecycle": {"initial": "draft", "states": {"draft": {"edit": "editable"}}, "transitions": {}},
    "permissions": {"create": ["clerk"]},
})
ann = assent.Actor("ann", roles=["clerk"])
runtime = app.sync_runtime(sys.argv[1])
acme = runtime.org("acme", ann)

def note(title):
    acme.entities.mutate("note.create", {"title": title})

def forked(work):
    child = os.fork()
    if child == 0:
        work()
        sys.exit(0)  # not _exit: what runs at the end of a process runs
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""


def run_program(url: str, text: str) -> list[str]:
    """Run a program in a process of its own; return what it printed. It may write nothing to stderr."""
    environment = dict(os.environ)
    environment["PYTHONWARNINGS"] = (
        "error,ignore::DeprecationWarning"  # a fork with threads, from Python 3.12 on
    )
    command = [sys.executable, "-c", PROGRAM + textwrap.dedent(text), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.split()


def test_a_process_that_ends_closes_its_connections(database_url: str) -> None:
    assert run_program(database_url, "note('one'); print('done')") == ["done"]


def test_processes_that_are_forked_before_the_first_command_work(database_url: str) -> None:
    program = """
        for number in range(3):
            forked(lambda: note(str(number)))
        print(len(acme.entities.list("note").items))
    """
    assert run_program(database_url, program) == ["3"]


def test_processes_that_are_forked_from_one_that_is_connected_work_and_leave_it_alone(
    database_url: str,
) -> None:
    program = """
        SOURCE = {"contract": "memo", "version": 1, "fields": {}, "permissions": {},
                  "lifecycle": {"initial": "a", "states": {"a": {"edit": "editable"}}, "transitions": {}}}
        acme = runtime.org("acme", assent.Actor("ann", roles=["clerk"], capabilities=["workflows:publish"]))
        acme.definitions.publish(SOURCE)   # begins the thread that compiles, too
        for number in range(3):
            forked(lambda: (note(str(number)), acme.definitions.publish({**SOURCE, "contract": f"memo{number}"})))
            note("parent")
        print(len(acme.entities.list("note").items))
    """
    assert run_program(database_url, program) == ["6"]


def test_threads_that_run_while_another_forks_are_not_stopped(database_url: str) -> None:
    program = """
        import threading
        stop, made = threading.Event(), []
        def work():
            while not stop.is_set() and len(made) < 100:
                note("thread")
                made.append(1)
        threads = [threading.Thread(target=work) for _ in range(3)]
        [thread.start() for thread in threads]
        while len(made) < 10: pass
        for number in range(3):
            forked(lambda: note("child"))
        stop.set()
        [thread.join(20) for thread in threads]
        titles = [note.data["title"] for note in acme.entities.list("note", limit=200).items]
        print(titles.count("child"), len(made) >= 10)
    """
    assert run_program(database_url, program) == ["3", "True"]


def test_nothing_is_logged_at_the_end(blocking: SyncRuntime, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "asyncio"):
        blocking.org(ORG, ANN).entities.mutate("expense.create", TAXI)
        blocking.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
