"""What fails is alone with it: the others of its batch go on, and it ends where a person looks at it (D10, D26)."""

import random
import secrets
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.runtime import Runtime
from assent.runtime.errors import StepFailed
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.processes.application import app as processes_app
from tests.processes.application import calls, keep_calls
from tests.rows import insert_event
from tests.runtime.definitions import older_compiler
from tests.statements import StatementCounter
from tests.world import ANN, OPS, ORG, drain, fetch, publish_steps, rows, steps_of

WRITE = call("write", "tests.fail", input={"what": "workflow.n", "fails": "workflow.fails"})
ATTEMPTS = 5


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    return processes_app.runtime(database)


async def publish_writing(database: Database, *more: dict[str, Any]) -> None:
    await publish_steps(
        database,
        "writing",
        [script("one"), WRITE, form("repair"), END],
        [*arrows("one", "write", "end"), *more],
    )


TO_REPAIR = [{"from": "write", "event": "error", "to": "repair"}, *arrows("repair", "end", event="done")]


async def start(runtime: Runtime, number: int, poisoned: set[int]) -> list[UUID]:
    inputs: list[Any] = [{"n": n, "fails": n in poisoned} for n in range(number)]
    return await runtime.org(ORG, ANN).instances.start_many("writing", inputs)


async def statuses(database: Database) -> dict[UUID, str]:
    return {row["id"]: row["status"] for row in await rows(database, "workflow_instances")}


async def event_of(database: Database, instance_id: UUID) -> dict[str, Any]:
    events = await rows(database, "workflow_events_outbox")
    (found,) = [row for row in events if row["instance_id"] == instance_id]
    return found


async def wait_until_given_up(runtime: Runtime, clock: MovedClock) -> None:
    for _ in range(ATTEMPTS):
        await drain(runtime)
        clock.advance("10m")


async def test_one_poisoned_instance_of_two_hundred_is_a_dead_letter_and_the_others_complete(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    ids = await start(runtime, 200, {77})
    await drain(runtime)
    done = await statuses(database)
    assert set(done) == {*ids} - {ids[77]}, "on the first day already"
    assert set(done.values()) == {"completed"}
    await wait_until_given_up(runtime, clock)
    event = await event_of(database, ids[77])
    assert (event["status"], event["attempts"]) == ("dead", ATTEMPTS)
    assert event["error"] == "StepFailed: write: RuntimeError: 77 is poisoned"
    assert sorted(await calls(database), key=int) == [str(n) for n in range(200) if n != 77]
    assert await rows(database, "workflow_batches") == []


async def test_errors_with_any_text_can_be_kept(
    runtime: Runtime, database: Database, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL keeps no NUL and no half of a surrogate pair; the event is counted and ends all the same."""

    def odd(connection: object, arguments: Any) -> None:
        raise RuntimeError("\0 and \ud800" + "x" * 5_000)

    monkeypatch.setitem(runtime.core.advancing.operations, "tests.fail", odd)  # type: ignore[arg-type]
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    (instance_id,) = await start(runtime, 1, {0})
    await wait_until_given_up(runtime, clock)
    event = await event_of(database, instance_id)
    assert (event["status"], event["attempts"]) == ("dead", ATTEMPTS)
    assert len(event["error"]) <= 2_000


async def test_attempts_are_spaced_out_and_none_is_made_before_its_time(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    (instance_id,) = await start(runtime, 1, {0})
    for attempt in range(1, ATTEMPTS):
        await drain(runtime)
        event = await event_of(database, instance_id)
        assert (event["status"], event["attempts"]) == ("failed", attempt)
        pause_s = (event["retry_at"] - clock.now()).total_seconds()
        assert 0.8 * 2 ** (attempt - 1) <= pause_s <= 1.2 * 2 ** (attempt - 1)
        assert await drain(runtime) == 0, "it is not due"
        assert (await event_of(database, instance_id))["attempts"] == attempt
        clock.move_to(event["retry_at"])
    await drain(runtime)
    assert (await event_of(database, instance_id))["status"] == "dead"


async def test_step_is_recorded_as_failed_and_the_instance_pauses_until_somebody_tries_again(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    (instance_id,) = await start(runtime, 1, {0})
    await wait_until_given_up(runtime, clock)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["incident"]["code"]) == ("paused", "ATTEMPTS_USED_UP")
    assert instance["incident"]["message"] == "RuntimeError: 0 is poisoned"
    steps = await steps_of(database, instance_id)
    assert [(s["node_id"], s["status"]) for s in steps][-2:] == [
        ("write", "failed"),
        ("ctl:pause", "completed"),
    ]

    async def heal(connection: Any, arguments: Any) -> str:
        return "healed"

    runtime.core.advancing.operations["tests.fail"] = heal
    assert (await runtime.org(ORG, OPS).instances.retry(instance_id)).status == "completed"
    await drain(runtime)
    assert (await event_of(database, instance_id))["status"] == "completed", "the dead letter is settled too"


async def test_what_a_function_wrote_before_it_refused_is_undone(
    runtime: Runtime, database: Database
) -> None:
    """The refusal is an answer: the instance goes on along its error edge, in the same transaction."""
    write = runtime.core.advancing.operations["tests.fail"]

    async def refuse(connection: Any, arguments: Any) -> None:
        await write(connection, {**arguments, "fails": False})
        raise Refused(Rejection("CLOSED", "the shop is closed"))

    runtime.core.advancing.operations["tests.fail"] = refuse
    await publish_writing(database, *TO_REPAIR)
    (instance_id,) = await start(runtime, 1, set())
    await drain(runtime)
    assert (await rows(database, "workflow_instances"))[0]["current_nodes"] == ["repair"]
    assert [
        step["error"] for step in await steps_of(database, instance_id) if step["status"] == "failed"
    ] == ["the shop is closed"]
    assert await calls(database) == []


async def test_error_edge_is_taken_when_the_attempts_are_used_up(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_writing(database, *TO_REPAIR)
    (instance_id,) = await start(runtime, 1, {0})
    await drain(runtime)
    assert await statuses(database) == {}, "not at the first failure"
    await wait_until_given_up(runtime, clock)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["current_nodes"]) == ("running", ["repair"])
    event = await event_of(database, instance_id)
    assert (event["status"], event["error"]) == (
        "completed",
        "StepFailed: write: RuntimeError: 0 is poisoned",
    )
    assert (await runtime.org(ORG, ANN).instances.advance(instance_id, "done")).status == "completed"


async def test_event_that_was_handled_is_not_blamed_for_the_one_behind_it(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Two events of one instance; the second one's step is poisoned."""
    wait = {"id": "wait", "type": "wait", "for": "1h"}
    transitions = [*arrows("ask", "wait", event="done"), *arrows("wait", "write", "end")]
    await publish_steps(database, "writing", [form("ask"), wait, WRITE, END], transitions)
    view = await runtime.org(ORG, ANN).instances.start("writing", {"n": 1, "fails": True})
    await runtime.org(ORG, ANN).instances.advance(view.id, "done")
    (step,) = [s for s in await steps_of(database, view.id) if s["node_id"] == "wait"]
    await runtime.org(ORG).operations.reenqueue(view.id)
    async with database.transaction(None) as connection:
        about = {"instance_id": view.id, "event_type": "on_timer", "payload_json": {"step": str(step["id"])}}
        await insert_event(connection, **about, id=new_id(clock.now()))
    await wait_until_given_up(runtime, clock)
    await drain(runtime)
    ended = {
        e["event_type"]: (e["status"], e["attempts"]) for e in await rows(database, "workflow_events_outbox")
    }
    assert ended == {"on_poke": ("completed", 1), "on_timer": ("dead", ATTEMPTS)}


async def test_events_behind_one_that_must_wait_do_not_hold_others_back(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """An instance whose first event failed has a whole batch of later ones; they are the oldest of the org."""
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    ids = await start(runtime, 1, {0})
    await drain(runtime)
    async with database.transaction(None) as connection:
        for _ in range(12):
            about = {"instance_id": ids[0], "event_type": "on_poke"}
            await insert_event(connection, **about, id=new_id(clock.now()))
    others = await start(runtime, 3, set())
    for _ in range(4):
        await EventProcessor(runtime.core).process_events(5)
    assert {*others} == set(await statuses(database))


@pytest.mark.without_twin("every org with events has a share of a batch")
async def test_events_of_paused_instances_do_not_hold_others_back(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end", event="done"))
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    paused = [(await runtime.org(ORG, ANN).instances.start("asking")).id for _ in range(6)]
    for instance_id in paused:
        await runtime.org(ORG, OPS).instances.pause(instance_id)
        await runtime.org(ORG).operations.reenqueue(instance_id)
    await drain(runtime)
    for instance_id in paused:
        await runtime.org(ORG).operations.reenqueue(instance_id)
    others = await start(runtime, 1, set())
    for _ in range(4):
        await EventProcessor(runtime.core).process_events(3)
    assert (await statuses(database)).get(others[0]) == "completed"


async def test_poison_anywhere_in_a_batch_leaves_every_other_as_it_would_be(
    runtime: Runtime, database: Database
) -> None:
    seed = secrets.randbelow(10**6)
    print(f"seed {seed}")
    poisoned = set(random.Random(seed).sample(range(60), 7))  # noqa: S311
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    ids = await start(runtime, 60, poisoned)
    await drain(runtime, 60)
    assert set(await statuses(database)) == {ids[n] for n in range(60) if n not in poisoned}
    attempts = {row["instance_id"]: row["attempts"] for row in await rows(database, "workflow_events_outbox")}
    assert set(attempts.values()) == {1}


STRANGE = {"object": object(), "nul": "a \0 in it", "nan": float("nan"), "deep": [[{"x": {1: object}}]]}


@pytest.mark.parametrize("answer", STRANGE.values(), ids=STRANGE)
async def test_answer_that_cannot_be_kept_fails_its_step_and_nobody_elses(
    runtime: Runtime, database: Database, clock: MovedClock, answer: Any
) -> None:
    async def strange(connection: Any, arguments: Any) -> Any:
        return answer if arguments["fails"] else "fine"

    runtime.core.advancing.operations["tests.fail"] = strange
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    ids = await start(runtime, 5, {3})
    await wait_until_given_up(runtime, clock)
    found = await statuses(database)
    assert [found[instance_id] for instance_id in ids] == ["completed"] * 3 + ["paused", "completed"]
    steps = await steps_of(database, ids[3])
    assert [s["status"] for s in steps if s["node_id"] == "write"] == ["failed"]


async def test_command_of_a_person_is_told_what_failed_and_leaves_nothing(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    with pytest.raises(StepFailed, match="7 is poisoned"):
        await runtime.org(ORG, ANN).instances.start("writing", {"n": 7, "fails": True})
    for table in ("workflow_instances", "workflow_step_executions", "workflow_step_receipts"):
        assert await rows(database, table) == []


@pytest.mark.without_twin("every org with events has a share of a batch")
async def test_statements_of_a_batch_do_not_depend_on_its_size(
    runtime: Runtime, database: Database, statement_counter: StatementCounter
) -> None:
    """COPY is not among them: nobody is told of it. The first batch is not counted: it asks for types."""
    steps = [script("one"), {"id": "size", "type": "condition"}, script("large"), form("ask"), END]
    transitions = [
        *arrows("one", "size"),
        {"from": "size", "to": "large", "condition": "workflow.n > 2", "priority": 1},
        {"from": "size", "to": "ask", "priority": 2},
        *arrows("large", "ask"),
        *arrows("ask", "end", event="done"),
    ]
    await publish_steps(database, "asking", steps, transitions)
    counts = []
    for instances in (5, 5, 200):
        await runtime.org(ORG, ANN).instances.start_many("asking", [{"n": n} for n in range(instances)])
        statement_counter.clear()
        assert await EventProcessor(runtime.core).process_events(instances) == instances
        counts.append(len(statement_counter))
    assert counts[1] == counts[2] < 30


async def test_event_for_an_instance_that_is_not_there_is_ignored(
    runtime: Runtime, database: Database
) -> None:
    async with database.transaction(None) as connection:
        for event_type in ("on_timer", "on_expired", "on_poke"):
            payload = {"step": str(UUID(int=1))}
            await insert_event(
                connection, instance_id=UUID(int=9), event_type=event_type, payload_json=payload
            )
    await drain(runtime)
    found = await rows(database, "workflow_events_outbox")
    assert {(row["status"], row["error"]) for row in found} == {("completed", "ignored: NOT_FOUND")}


async def test_event_of_a_type_that_nobody_knows_is_ignored_and_jams_nothing(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("asking")
    async with database.transaction(None) as connection:
        await insert_event(connection, instance_id=view.id, event_type="on_full_moon")
    await runtime.org(ORG).operations.reenqueue(view.id)
    await drain(runtime)
    found = {row["event_type"]: row["error"] for row in await rows(database, "workflow_events_outbox")}
    assert found == {"on_full_moon": "ignored: UNKNOWN_EVENT", "on_poke": None}


async def test_event_with_a_payload_that_makes_no_sense_is_a_dead_letter(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("asking")
    async with database.transaction(None) as connection:
        about = {"instance_id": view.id, "event_type": "on_timer", "payload_json": {"step": "tomorrow"}}
        await insert_event(connection, **about)
    await wait_until_given_up(runtime, clock)
    (event,) = await rows(database, "workflow_events_outbox")
    assert event["status"] == "dead"
    assert "tomorrow" in event["error"] or "UUID" in event["error"]
    (instance,) = await rows(database, "workflow_instances")
    assert instance["status"] == "paused"


async def test_stale_definition_waits_for_the_recompile_without_using_attempts(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    with older_compiler():
        await publish_steps(database, "old", [script("one"), END], arrows("one", "end"))
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    (stale,) = await runtime.org(ORG, ANN).instances.start_many("old", [{}])
    others = await start(runtime, 3, set())
    for _ in range(ATTEMPTS + 2):
        await drain(runtime)
        clock.advance("10m")
    assert set(await statuses(database)) == {*others}
    event = await event_of(database, stale)
    assert (event["status"], event["attempts"]) == ("pending", 0)
    assert event["error"].startswith("WORKFLOW_COMPILER_STALE")
    with pytest.raises(Refused, match="WORKFLOW_COMPILER_STALE"):
        await runtime.org(ORG, ANN).instances.start("old")


async def test_dead_letter_of_an_instance_that_never_began_can_be_delivered_again(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """The flow was not there: nothing could be recorded but the dead letter."""
    (instance_id,) = await runtime.org(ORG, ANN).instances.start_many("late", [{}])
    await wait_until_given_up(runtime, clock)
    event = await event_of(database, instance_id)
    assert (event["status"], event["attempts"]) == ("dead", ATTEMPTS)
    await publish_steps(database, "late", [script("one"), END], arrows("one", "end"))
    await runtime.org(ORG, OPS).dead_letters.retry(event["id"], "event")
    assert await statuses(database) == {instance_id: "completed"}


async def test_batch_of_failures_is_not_taken_for_an_empty_queue(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "writing", [script("one"), WRITE, END], arrows("one", "write", "end"))
    ids = await start(runtime, 3, {0, 1})
    assert [await EventProcessor(runtime.core).process_events(1) for _ in range(4)] == [1, 1, 1, 0]
    assert await statuses(database) == {ids[2]: "completed"}


FORK = {"id": "fork", "type": "parallel_split"}
JOIN = {"id": "join", "type": "parallel_join", "mode": "all"}
OPERATIONS: dict[str, Callable[[Any, UUID], Awaitable[Any]]] = {
    "pause": lambda ops, one: ops.pause(one, "look at it"),
    "resume": lambda ops, one: ops.resume(one),
    "retry": lambda ops, one: ops.retry(one),
    "skip the failed step": lambda ops, one: ops.skip(one, "write", "write->join"),
    "skip the step beside it": lambda ops, one: ops.skip(one, "ask", "ask->join:done"),
    "cancel": lambda ops, one: ops.cancel(one, "enough"),
    "force-fail": lambda ops, one: ops.force_fail(one, "hopeless"),
}


async def token_states(database: Database, instance_id: UUID) -> set[str]:
    """Return the states of the tokens of an instance that runs; nothing of one that does not."""
    sql = "SELECT status, active_tokens FROM assent.workflow_instances WHERE org_id = $1 AND id = $2"
    (row,) = await fetch(database, sql, ORG, instance_id)
    return {token["state"] for token in row["active_tokens"]} if row["status"] == "running" else set()


@pytest.mark.parametrize("repaired", [False, True], ids=["fails again", "succeeds"])
async def test_no_sequence_of_commands_leaves_an_instance_running_with_a_failed_step(
    runtime: Runtime, database: Database, monkeypatch: pytest.MonkeyPatch, repaired: bool
) -> None:
    """Every sequence of two commands of an operator, after a step that failed beside one that waits."""
    is_down = True

    def write(connection: object, arguments: Any) -> None:
        if is_down:
            raise Refused(Rejection("CLOSED", "the shop is closed"))

    monkeypatch.setitem(runtime.core.advancing.operations, "tests.fail", write)  # type: ignore[arg-type]
    ways = [*arrows("fork", "ask"), *arrows("fork", "write", "join", "end")]
    steps = [FORK, form("ask"), WRITE, JOIN, END]
    await publish_steps(database, "writing", steps, [*ways, *arrows("ask", "join", event="done")])
    ops, ann = runtime.org(ORG, OPS).instances, runtime.org(ORG, ANN).instances
    for sequence in product(OPERATIONS, repeat=2):
        is_down = True
        view = await ann.start("writing", {"n": 1, "fails": False})
        assert view.status == "paused"
        is_down = not repaired
        done = []
        for name in sequence:
            try:
                await OPERATIONS[name](ops, view.id)
                done.append(name)
            except Refused:
                done.append(f"{name}: refused")
            assert await token_states(database, view.id) <= {"resting", "arrived", "split"}, done


async def test_resume_retries_the_event_that_could_not_be_handled(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("asking")
    async with database.transaction(None) as connection:
        about = {"instance_id": view.id, "event_type": "on_timer", "payload_json": {"step": "tomorrow"}}
        await insert_event(connection, **about)
    await wait_until_given_up(runtime, clock)
    assert (await runtime.org(ORG, OPS).instances.resume(view.id)).status == "running"
    (event,) = await rows(database, "workflow_events_outbox")
    assert (event["status"], event["attempts"]) == ("pending", 0)
