"""Server-sent events, from a real server: what changed is heard, what was missed is caught up, and streams end."""

import asyncio
import json
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
import pytest

from assent.http import changes, event_stream
from assent.http.app import create_app
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.jobs.job import RetryPolicy, Succeeded, next_state
from assent.people.api_keys import create_api_key
from assent.tasks.notes import Notes, news_of, write_news_if_claimed
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SECRET, bearer, problem, token
from tests.plain_sql import end_listeners
from tests.workers import TasksWorker

WAIT_S = 20


class Served:
    """A server in this process, on a port."""

    def __init__(self, serving, door, url, now) -> None:
        self.serving = serving
        self.house = door.state.services
        self._url = url
        self._now = now

    def client(self, user, org="acme", **more) -> httpx.AsyncClient:
        headers = bearer(token(self._now, user, org, **more))
        return httpx.AsyncClient(base_url=self._url, headers=headers, timeout=WAIT_S)

    @asynccontextmanager
    async def stream(self, user, path, last_id=None, **more):
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        async with self.client(user, **more) as client, client.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield Stream(answer)


class Stream:
    """Events one by one, as a client reads them."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def block(self) -> dict[str, str] | None:
        """The next lines up to an empty one; nothing when the stream has ended."""
        found = {}
        async with asyncio.timeout(WAIT_S):
            async for line in self._lines:
                if not line:
                    return found
                name, _, value = line.partition(": ")
                found[name] = value
        return None

    async def event(self) -> dict:
        """The next event, past heartbeats."""
        while "data" not in (found := await self.block() or {}):
            assert found or found == {"": ""}, "the stream ended"
        return {"id": found["id"], "event": found["event"], **json.loads(found["data"])}

    async def ended(self) -> bool:
        while (found := await self.block()) is not None:
            assert "data" not in found
        return True


@asynccontextmanager
async def served(database, clock, **settings):
    chosen = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, **settings)
    door = create_app(app, database, chosen)
    with listen("127.0.0.1", 0) as listening:
        serving = Serving(door, listening, chosen)
        running = asyncio.create_task(serving.run())
        try:
            host, port = listening.getsockname()
            yield Served(serving, door, f"http://{host}:{port}", clock.now())
        finally:
            serving.stop()
            await running


@pytest.fixture
async def house(furnished, clock):
    async with served(furnished, clock, stream_heartbeat_s=1) as server:
        yield server


async def start(house, **more) -> str:
    async with house.client("alice", **more) as client:
        made = await client.post("/api/flows/orders.approval/start", json={"order_id": "1"})
        return made.json()["id"]


async def approve(house, instance_id) -> None:
    async with house.client("bob") as client:
        done = await client.post(f"/api/instances/{instance_id}/advance", json={"event": "approved"})
        assert done.status_code == 200, done.text


async def test_an_instance_says_what_it_is_and_again_when_it_has_changed(house):
    instance_id = await start(house)
    path = f"/api/instances/{instance_id}/events"
    async with house.stream("alice", path) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert await stream.block() == {"retry": "2000"}
        first = await stream.event()
        assert (first["event"], first["status"], first["id"]) == ("instance", "running", instance_id)
        await approve(house, instance_id)
        last = await stream.event()
        assert (last["status"], last["version"] > first["version"]) == ("completed", True)
        assert await stream.ended()


async def test_whoever_comes_back_hears_what_they_missed_and_nothing_twice(house):
    instance_id = await start(house)
    path = f"/api/instances/{instance_id}/events"
    async with house.client("alice") as client:
        version = (await client.get(f"/api/instances/{instance_id}")).json()["version"]
    async with house.stream("alice", path, str(version)) as stream:
        assert await stream.block() == {"retry": "2000"}
        assert await stream.block() == {"": ""}  # nothing new: a heartbeat
    await approve(house, instance_id)
    async with house.stream("alice", path, str(version)) as stream:
        last = await stream.event()
        assert last["status"] == "completed"
        assert await stream.ended()
    async with house.client("alice") as client:
        again = await client.get(path, headers={"Last-Event-ID": str(last["version"])})
        assert again.status_code == 204


async def test_an_inbox_says_how_much_waits_whenever_something_comes_or_goes(house):
    async with house.stream("bob", "/api/inbox/events") as stream:
        assert (await stream.event())["roles"] == {"open": 0, "overdue": 0}
        instance_id = await start(house)
        came = await stream.event()
        assert (came["event"], came["roles"]["open"]) == ("inbox", 1)
        await approve(house, instance_id)
        assert (await stream.event())["roles"]["open"] == 0


async def test_a_delegate_hears_of_what_they_stand_in_for(house):
    async with house.stream("max", "/api/inbox/events") as stream:
        assert (await stream.event())["delegated"]["open"] == 0
        await start(house)
        async with house.client("bob") as client:
            await client.post("/api/delegations", json={"to_user": "max"})
        assert (await stream.event())["delegated"]["open"] == 1


async def test_many_streams_cost_one_look(furnished, clock, statement_counter, monkeypatch):
    monkeypatch.setattr(changes, "LOOK_EVERY_S", 300)
    async with served(furnished, clock, stream_heartbeat_s=300) as house:
        instance_id = await start(house)
        path = f"/api/instances/{instance_id}/events"
        async with (
            house.stream("alice", path) as one,
            house.stream("bob", path) as other,
            house.stream("alice", "/api/inbox/events") as inbox,
            house.stream("bob", "/api/inbox/events") as others,
        ):
            for stream in (one, other, inbox, others):
                await stream.event()
            watch = house.house.changes
            statement_counter.clear()
            await watch._look()
            assert sum("look_at_" in sql for sql in statement_counter.statements) == 2
            assert len(watch._topics) == 3
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(watch._watch, return_exceptions=True)  # it ends with the last stream
        assert (watch._topics, watch._callers) == ({}, {})


async def test_a_lost_connection_is_found_again(house, furnished):
    async with house.stream("bob", "/api/inbox/events") as stream:
        await stream.event()
        assert await end_listeners(furnished)
        await start(house)
        assert (await stream.event())["roles"]["open"] == 1


async def test_whoever_does_not_read_is_dropped(furnished, clock, monkeypatch):
    monkeypatch.setattr(event_stream, "SEND_WITHIN_S", 0.1)
    settings = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
    door = create_app(app, furnished, settings)
    sent = []

    async def send(message):
        sent.append(message["type"])
        if len(sent) > 2:
            await asyncio.Event().wait()  # the client takes nothing more, and never goes

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/inbox/events",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {token(clock.now(), 'bob')}".encode())],
        "client": ("203.0.113.7", 4711),
    }
    async with asyncio.timeout(WAIT_S):
        await door(scope, asyncio.Event().wait, send)
    assert sent == ["http.response.start"] + ["http.response.body"] * 2
    assert door.state.services.changes._topics == {}


async def test_what_is_another_orgs_or_partitions_is_not_there(house):
    instance_id = await start(house)
    for path, more in (
        (f"/api/instances/{uuid4()}/events", {}),
        (f"/api/instances/{instance_id}/events", {"org": "globex"}),
        (f"/api/instances/{instance_id}/events", {"partition_id": "north"}),
    ):
        async with house.client("alice", **more) as client:
            assert problem(await client.get(path), 404)["code"] == "NOT_FOUND"
    async with house.stream("bob", "/api/inbox/events", org="globex") as stream:
        assert (await stream.event())["roles"]["open"] == 0
        assert await stream.block() == {"": ""}


async def test_whoever_is_let_go_hears_no_more(house, furnished):
    async with house.stream("bob", "/api/inbox/events") as stream:
        await stream.event()
        async with furnished.transaction(None) as connection:
            await connection.execute(
                "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'bob'"
            )
        assert await stream.ended()


async def test_a_stream_that_is_long_open_ends_and_is_taken_up_again(furnished, clock):
    async with (
        served(furnished, clock, stream_heartbeat_s=300, stream_s_max=1) as house,
        house.stream("bob", "/api/inbox/events") as stream,
    ):
        await stream.event()
        assert await stream.ended()


async def test_a_server_that_stops_ends_its_streams_at_once(furnished, clock):
    async with (
        served(furnished, clock, stream_heartbeat_s=300, grace_period_s=60) as house,
        house.stream("bob", "/api/inbox/events") as stream,
    ):
        await stream.event()
        house.serving.stop()
        assert await stream.ended()


async def test_nobody_opens_streams_without_end(house, monkeypatch):
    monkeypatch.setattr(changes, "STREAMS_OF_CALLER_MAX", 1)
    async with house.stream("bob", "/api/inbox/events") as stream:
        await stream.event()
        async with house.client("bob") as client:
            refused = await client.get("/api/inbox/events")
        assert (problem(refused, 429)["code"], refused.headers["retry-after"]) == ("TOO_MANY_REQUESTS", "60")
        async with house.stream("carol", "/api/inbox/events") as other:
            await other.event()


async def test_streams_of_all_keys_of_a_member_are_counted_together(house, furnished, clock, monkeypatch):
    monkeypatch.setattr(changes, "STREAMS_OF_CALLER_MAX", 1)
    async with furnished.transaction("acme") as connection:
        text, _ = await create_api_key(connection, "acme", "bob", "another", clock.now())
    async with house.stream("bob", "/api/inbox/events") as stream:
        await stream.event()
        async with house.client("bob") as client:
            refused = await client.get("/api/inbox/events", headers=bearer(text))
        assert problem(refused, 429)["code"] == "TOO_MANY_REQUESTS"


class RunningTask:
    """A task that a worker has claimed, which says what the test wants it to."""

    def __init__(self, database, worker, task) -> None:
        self.database, self.worker, self.task = database, worker, task
        self.id = task.id
        self.notes = Notes(task.job)

    async def say(self, *lines: str, progress: float | None = None) -> None:
        for line in lines:
            self.notes.log(line, "info", self.database.clock.now())
        if progress is not None:
            self.notes.say(progress, "page 12 of 30", self.database.clock.now())
        async with self.database.transaction(None) as connection:
            news = news_of([self.notes])
            await write_news_if_claimed(connection, self.worker.duty._jobs.worker_id, news)
            for one in news:
                self.notes.wrote(one)

    async def end(self) -> None:
        result = next_state(self.task, Succeeded(result={"pages": 30}), RetryPolicy())
        await self.worker.duty._exchange([result], 0)


@pytest.fixture
async def running_task(furnished) -> RunningTask:
    worker = TasksWorker(app, furnished)
    await worker.submit("report.build", {"month": "May"})
    (task,) = await worker.claim(1)
    return RunningTask(furnished, worker, task)


async def test_task_streams_its_progress_and_its_log_until_it_ends(house, running_task):
    async with house.stream("adam", f"/api/tasks/{running_task.id}/events") as stream:
        assert await stream.block() == {"retry": "2000"}
        first = await stream.event()
        assert (first["event"], first["status"], first["progress"]) == ("task", "running", None)
        await running_task.say("read page 11", "read page 12", progress=0.4)
        lines = [await stream.event() for _ in range(2)]
        assert [(line["event"], line["id"], line["message"]) for line in lines] == [
            ("log", "1.1", "read page 11"),
            ("log", "1.2", "read page 12"),
        ]
        state = await stream.event()
        assert (state["event"], state["progress"]["fraction"]) == ("task", 0.4)
        await running_task.end()
        assert (await stream.event())["status"] == "done"
        assert await stream.ended()


async def test_stream_of_a_task_is_taken_up_after_the_last_line_that_was_received(house, running_task):
    """No line is sent twice and none is left out, whatever was written while nothing was connected."""
    path = f"/api/tasks/{running_task.id}/events"
    await running_task.say("a", "b")
    async with house.stream("adam", path) as stream:
        assert [(await stream.block() or {}).get("id") for _ in range(3)] == [None, "1.1", "1.2"]
    await running_task.say("c", "d", progress=0.5)
    async with house.stream("adam", path, "1.1") as stream:
        assert [(await stream.event())["message"] for _ in range(3)] == ["b", "c", "d"]
        assert (await stream.block())["event"] == "task"
    await running_task.end()
    async with house.stream("adam", path, "1.4") as stream:
        last = await stream.block() and await stream.block()
        assert json.loads(last["data"])["status"] == "done"
        assert await stream.ended()
    async with house.client("adam") as client:
        again = await client.get(path, headers={"Last-Event-ID": last["id"]})
        assert again.status_code == 204


async def test_log_of_a_thousand_lines_is_streamed_whole_and_in_order(house, running_task):
    await running_task.say(*(f"line {number}" for number in range(1, 1_000)))
    await running_task.end()
    async with house.stream("adam", f"/api/tasks/{running_task.id}/events") as stream:
        found = []
        while (
            (event := await stream.event())["event"] == "log" or event["status"] != "done" or len(found) < 999
        ):
            if event["event"] == "log":
                found.append(event["message"])
        assert found == [f"line {number}" for number in range(1, 1_000)]


async def test_notification_ends_the_wait_for_news_of_a_task(house, running_task, monkeypatch):
    """Without one, the next look would be an hour away."""
    monkeypatch.setattr(changes, "LOOK_EVERY_S", 3_600.0)
    async with house.stream("adam", f"/api/tasks/{running_task.id}/events") as stream:
        assert (await stream.event())["status"] == "running"
        await running_task.say(progress=0.7)
        assert (await stream.event())["progress"]["fraction"] == 0.7


async def test_stream_of_a_task_is_for_those_who_may_read_it(house, running_task):
    path = f"/api/tasks/{running_task.id}/events"
    async with house.client("alice") as client:
        assert problem(await client.get(path), 403)
    async with house.client("adam", "globex") as client:
        assert problem(await client.get(path), 404)
