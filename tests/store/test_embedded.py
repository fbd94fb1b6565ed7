"""The embedded server: shared while a process uses it, stopped after the last one, however that ends."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest

from assent.store.database import Database
from assent.store.embedded.cluster import OWNER, SUPERUSER, Cluster, read_postmaster
from assent.store.embedded.file_lock import FileLock
from assent.store.embedded.guard import START_LOCK, guard
from assent.store.embedded.programs import Account, account_for
from assent.store.embedded.server import EmbeddedServer
from assent.store.errors import StoreError
from assent.store.failures import is_outage
from assent.store.settings import Settings

LONG_S = 30
NO_ONES_UID = 65534


@pytest.fixture
def folder(run_dir):
    with tempfile.TemporaryDirectory(dir=run_dir, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def made_dir(run_dir):
    """A data folder made once, to copy from: making one takes half a second."""
    with tempfile.TemporaryDirectory(dir=run_dir, ignore_cleanup_errors=True) as path:
        EmbeddedServer.start(Path(path), fast=True).stop()
        yield path


@pytest.fixture
def data_dir(folder, made_dir):
    subprocess.run(["cp", "-a", made_dir, folder / "data"], check=True)
    return folder / "data"


async def fetch(server, sql, role=SUPERUSER):
    connection = await asyncpg.connect(server.url("postgres", role=role))
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def postmaster(data_dir):
    return psutil.Process(read_postmaster(data_dir / "cluster").pid)


def is_alive(process):
    # Where the first process is slow to bury the dead, they linger as zombies.
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def until(condition):
    """Ask until it is so; pytest's own time limit ends what never comes."""
    while not condition():
        continue


def guards(data_dir):
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"]
        and process.info["cmdline"][-2:] == ["assent.store.embedded.guard", str(data_dir)]
    ]


@contextmanager
def users(count, data_dir):
    """So many processes that use the server, started at once."""
    command = [sys.executable, "-m", "tests.store.server_user", str(data_dir)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def leave(process):
    process.communicate(timeout=LONG_S)
    return process.returncode


def end(process, how):
    process.send_signal(how)
    process.wait(LONG_S)


async def test_two_processes_that_start_at_once_share_one_server(folder):
    data_dir = folder / "new"
    with users(2, data_dir) as (one, two):
        pids = {int(process.stdout.readline()) for process in (one, two)}
        assert len(pids) == 1
        server = psutil.Process(pids.pop())
        assert leave(one) == 0
        assert is_alive(server)
        assert leave(two) == 0
        assert not is_alive(server)


async def test_our_processes_connect_as_an_owner_who_is_no_superuser(data_dir):
    database = await Database.open(settings=Settings(data_dir=data_dir))
    try:
        async with database.transaction(None) as connection:
            role = await connection.fetchrow("SELECT * FROM pg_roles WHERE rolname = session_user")
            owns = await connection.fetchval(
                "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
            )
    finally:
        await database.close()
    assert (role["rolname"], owns) == (OWNER, OWNER)
    assert (role["rolsuper"], role["rolbypassrls"], role["rolreplication"]) == (False, False, False)
    assert role["rolcreaterole"]


async def test_data_survives_a_restart(data_dir):
    with EmbeddedServer.start(data_dir) as server:
        await fetch(server, "create table kept as select 7 as seven")
        first = postmaster(data_dir)
    assert not is_alive(first)
    with EmbeddedServer.start(data_dir) as server:
        assert await fetch(server, "select seven from kept") == 7


async def test_the_last_user_stops_the_server_and_an_earlier_one_does_not(data_dir):
    first = EmbeddedServer.start(data_dir)
    second = EmbeddedServer.start(data_dir)
    process = postmaster(data_dir)
    first.stop()
    first.stop()
    assert await fetch(second, "select 1") == 1
    with pytest.raises(StoreError, match="was stopped here"):
        first.url("postgres")
    second.stop()
    assert not is_alive(process)


@pytest.mark.parametrize("who", ["its last user", "its guard"])
def test_a_server_is_stopped_only_by_who_holds_the_lock_for_starting(data_dir, monkeypatch, who):
    """A process may join at that moment, and would be cut off."""
    held, stop = [], Cluster.stop

    def watched(cluster):
        free = FileLock.exclusive_if_free(data_dir / START_LOCK)
        held.append(free is None)
        if free is not None:
            free.close()
        stop(cluster)

    monkeypatch.setattr(Cluster, "stop", watched)
    if who == "its guard":
        guard(data_dir)
    else:
        EmbeddedServer.start(data_dir, fast=True).stop()
    assert held == [True]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_with_its_only_user_however_that_ends(data_dir, how):
    with users(1, data_dir) as (user,):
        server = psutil.Process(int(user.stdout.readline()))
        end(user, how)
    until(lambda: not is_alive(server) and not guards(data_dir))


async def test_a_server_that_was_left_behind_is_taken_over_and_then_stopped(data_dir):
    with users(1, data_dir) as (user,):
        left_behind = psutil.Process(int(user.stdout.readline()))
        until(lambda: guards(data_dir))
        for guard in guards(data_dir):
            guard.kill()
        until(lambda: not guards(data_dir))
        end(user, signal.SIGKILL)
    assert is_alive(left_behind)
    with EmbeddedServer.start(data_dir) as server:
        assert await fetch(server, "select 1") == 1
        assert postmaster(data_dir) == left_behind
    assert not is_alive(left_behind)


async def test_a_crashed_server_is_started_again_with_its_data(folder):
    data_dir = folder / "new"
    with EmbeddedServer.start(data_dir) as first:
        await fetch(first, "create table kept as select 7 as seven")
        crashed = postmaster(data_dir)
        crashed.kill()
        with EmbeddedServer.start(data_dir) as second:
            assert postmaster(data_dir) != crashed
            assert await fetch(second, "select seven from kept") == 7


@pytest.mark.parametrize("name", ["data", "long" * 30])
async def test_server_whose_postmaster_was_killed_is_started_again_under_its_users(folder, name):
    """Requests meanwhile fail as those of a database that is away, and the same pool goes on afterwards."""
    settings = Settings(data_dir=folder / name)
    database = await Database.open(settings=settings)
    try:
        async with database.transaction(None) as connection:
            await connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        for _ in range(2):
            killed = postmaster(folder / name)
            killed.kill()
            errors, found, restarted = [], None, False
            async with asyncio.timeout(LONG_S):
                # Processes of the old server may answer until they notice.
                while found is None or not restarted:
                    restarted = postmaster_pid(folder / name) not in (killed.pid, None)
                    try:
                        async with database.transaction(None) as connection:
                            found = await connection.fetchval("SELECT seven FROM kept")
                    except (StoreError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
                        errors.append(error)
                        await asyncio.sleep(0.05)
            assert found == 7
            assert [error for error in errors if not is_outage(error)] == []
            assert postmaster(folder / name) != killed
    finally:
        last = postmaster(folder / name)
        await database.close()
    assert not is_alive(last)


async def test_users_in_two_processes_start_one_server_again(data_dir):
    with users(1, data_dir) as (user,), EmbeddedServer.start(data_dir) as server:
        killed = psutil.Process(int(user.stdout.readline()))
        killed.kill()
        until(lambda: postmaster_pid(data_dir) not in (killed.pid, None))
        until(
            lambda: (found := read_postmaster(data_dir / "cluster")) is not None and found.status == "ready"
        )
        assert await fetch(server, "select 1") == 1
        assert leave(user) == 0
        assert await fetch(server, "select 1") == 1


def postmaster_pid(data_dir):
    found = read_postmaster(data_dir / "cluster")
    return None if found is None else found.pid


async def test_a_pid_file_that_names_a_stranger_is_no_hindrance(data_dir):
    with EmbeddedServer.start(data_dir):
        lines = (data_dir / "cluster" / "postmaster.pid").read_text().splitlines()
    (data_dir / "cluster" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with EmbeddedServer.start(data_dir) as server:
        assert await fetch(server, "select 1") == 1


async def test_a_half_made_cluster_is_made_anew(folder):
    data_dir = folder / "new"
    (data_dir / "cluster.new").mkdir(parents=True)
    (data_dir / "cluster.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedServer.start(data_dir) as server:
        assert await fetch(server, "select 1") == 1


@pytest.mark.parametrize("name", ["long" * 30, "with, comma and space"])
async def test_a_folder_that_no_socket_fits_in_gets_one_elsewhere_and_leaves_nothing(folder, name):
    with EmbeddedServer.start(folder / name, fast=True) as server:
        socket_dir = read_postmaster(folder / name / "cluster").socket_dir
        assert folder not in socket_dir.parents
        assert socket_dir.stat().st_mode & 0o777 == 0o700
        assert await fetch(server, "select 1") == 1
    assert not socket_dir.exists()


def passes(path, uid):
    """Return whether a user reaches what is at a path."""
    asked = subprocess.run(["test", "-e", path], user=uid, group=uid, extra_groups=(), cwd="/", check=False)
    return asked.returncode == 0


def test_a_closed_folder_lets_the_servers_account_pass_and_no_other():
    with tempfile.TemporaryDirectory() as path:
        closed, data = Path(path), Path(path) / "data"
        data.touch()
        mode = closed.stat().st_mode
        account = account_for(data / "cluster")
        account.let_through(data)
        account.let_through(data)
        if account.is_ours:
            assert closed.stat().st_mode == mode
            return
        assert passes(data, account.uid)
        assert not passes(data, NO_ONES_UID)
        listing = subprocess.run(["ls", closed], user=account.uid, cwd="/", capture_output=True, check=False)
        assert not listing.stdout
        assert closed.stat().st_mode & 0o007 == 0
        Account(NO_ONES_UID, NO_ONES_UID, is_ours=False).let_through(data)
        assert passes(data, account.uid), "a second account takes nothing from the first"
        assert passes(data, NO_ONES_UID)


@pytest.mark.parametrize("left_out", ["no lists", "not on this system"])
def test_where_no_folder_has_a_list_it_is_opened_to_pass(monkeypatch, left_out):
    def refuse(*_):
        raise OSError(errno.ENOTSUP, "no lists here")

    if left_out == "no lists":
        monkeypatch.setattr(os, "getxattr", refuse)
    else:
        monkeypatch.delattr(os, "setxattr")
    with tempfile.TemporaryDirectory() as path:
        Account(NO_ONES_UID, NO_ONES_UID, is_ours=False).let_through(Path(path) / "data")
        assert Path(path).stat().st_mode & 0o007 == 0o001


async def test_text_is_ordered_by_code_point(data_dir):
    with EmbeddedServer.start(data_dir) as server:
        letters = "select string_agg(x, '' order by x) from unnest(array['b', 'é', 'A', 'a', 'B', 'Z']) x"
        assert await fetch(server, letters) == "ABZabé"
        assert await fetch(server, "select upper('é')") == "É"


def test_a_folder_of_another_major_version_is_refused_and_left_alone(data_dir):
    (data_dir / "cluster" / "PG_VERSION").write_text("14\n")
    with pytest.raises(StoreError, match=r"belongs to PostgreSQL 14, but the programs are of version 18"):
        EmbeddedServer.start(data_dir)


def test_a_folder_that_cannot_be_used_is_told(folder):
    (folder / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot be used: .*ASSENT_DATA_DIR"):
        EmbeddedServer.start(folder / "file")
    with pytest.raises(StoreError, match=r"its name holds \$"):
        EmbeddedServer.start(folder / "$(HOME)")


def test_a_server_that_does_not_start_shows_its_log(data_dir):
    with (data_dir / "cluster" / "assent.conf").open("a") as settings:
        settings.write("no_such_setting = on\n")
    with pytest.raises(StoreError, match=r'unrecognized configuration parameter "no_such_setting"'):
        EmbeddedServer.start(data_dir)


def test_a_fork_does_not_stop_its_parents_server(data_dir):
    script = """
import os, sys, asyncio, pathlib
from assent.store.embedded.server import EmbeddedServer
from tests.store.server_user import answer
server = EmbeddedServer.start(pathlib.Path(sys.argv[1]), fast=True)
if os.fork() == 0:
    server.stop()
    os._exit(0)
assert os.wait()[1] == 0
assert asyncio.run(answer(server.url("postgres"))) == 42
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(data_dir)], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert read_postmaster(data_dir / "cluster") is None


async def test_without_a_url_a_database_has_a_durable_server_of_its_own_and_stops_it(folder):
    data_dir = folder / "new"
    database = await Database.open(settings=Settings(data_dir=data_dir))
    async with database.transaction(None) as connection:
        names = ("fsync", "synchronous_commit", "timezone", "listen_addresses")
        found = [await connection.fetchval("select current_setting($1)", name) for name in names]
        assert await connection.fetchval("select current_database()") == "assent"
    process = postmaster(data_dir)
    await database.close()
    assert found == ["on", "on", "UTC", ""]
    assert not is_alive(process)


async def test_pool_and_listener_come_back_after_the_server_was_restarted(data_dir):
    database = await Database.open(settings=Settings(data_dir=data_dir))
    async with database.listen("events") as listener:
        cluster = database._server._cluster
        await asyncio.to_thread(cluster.stop)
        await asyncio.to_thread(cluster.start)
        assert await listener.wait(LONG_S) == {"events"}
        async with database.transaction(None) as connection:
            assert await connection.fetchval("select 1") == 1
    await database.close()
