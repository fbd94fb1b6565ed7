"""What operators do: tell events, look at what is open and at what was given up, try again, rebuild."""

from uuid import UUID

import pytest

from assent.runtime import Runtime
from assent.store.database import Database
from tests.cli import failing
from tests.cli.application import shop
from tests.cli.desk import Desk, lines
from tests.cli.failing import given_up, given_up_many, unsendable
from tests.postgres import past_the_guards
from tests.rows import insert
from tests.runtime.spoiling import projection, put_back
from tests.world import drain, effects, rows

NOTHING = {"events": 0, "effects": 0, "results": 0, "tasks": 0, "refused": []}


async def test_an_event_is_told_to_whoever_waits_for_it(desk: Desk, runtime: Runtime) -> None:
    started = await desk.json("instances", "start", "payment", "-d", "order=7")
    told = await desk.json("events", "emit", "paid:7", "-d", "amount=5", user="ops")
    assert told == {"key": "paid:7", "new": True}
    await drain(runtime)
    assert (await desk.json("instances", "show", started["id"]))["instance"]["status"] == "completed"


async def test_one_cause_is_told_once(desk: Desk) -> None:
    first = await desk.run("events", "emit", "paid:7", "--cause", "evt-1", user="ops")
    again = await desk.run("events", "emit", "paid:7", "--cause", "evt-1", user="ops")
    assert first.stdout == "paid:7: emitted; a worker processes it\n"
    assert again.stdout == "paid:7: this cause was emitted before; nothing happens\n"


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["events", "emit", "paid:7"], "events:emit"),
        (["events", "list"], "workflows:retry"),
        (["dead-letters", "list"], "workflows:retry"),
        (["dead-letters", "retry", "01890a5d-ac96-774b-bcce-b302099a8057"], "workflows:retry"),
        (["dead-letters", "retry-all"], "workflows:retry"),
        (
            ["dead-letters", "discard", "01890a5d-ac96-774b-bcce-b302099a8057", "--reason", "paid by hand"],
            "workflows:repair",
        ),
        (["incidents"], "workflows:retry"),
        (["incidents", "--each"], "workflows:retry"),
        (["rebuild", "01890a5d"], "workflows:repair"),
        (["rebuild", "--all-stuck"], "workflows:repair"),
        (["audit"], "audit:read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_operators_work_takes_a_capability(desk: Desk, company: Database, command, wanted) -> None:
    refused = await desk.refusal(*command)
    assert refused["code"] == "POLICY_DENIED"
    assert refused["detail"].endswith(f"it takes {wanted}")
    assert await rows(company, "workflow_events_outbox") == []


async def test_what_is_open_is_listed_queue_by_queue(desk: Desk, runtime: Runtime) -> None:
    assert (await desk.run("events", "list", user="ops")).stdout == "Nothing is open.\n"
    await desk.run("events", "emit", "paid:7", user="ops")
    await drain(runtime)
    await desk.run("events", "emit", "paid:8", user="ops")
    heading, event, kept = lines(await desk.run("events", "list", user="ops"))
    assert heading == ["queue", "what", "status", "age"]
    assert (event[:3], kept[:3]) == (["events", "paid:8", "pending"], ["kept", "paid:7", "kept"])
    found = await desk.items("events", "list", user="ops")
    assert [(item["queue"], item["event_key"]) for item in found] == [
        ("events", "paid:8"),
        ("kept", "paid:7"),
    ]


async def test_retry_all_ends_with_one_where_something_stays_dead_and_discard_takes_it_off_the_list(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    await unsendable(runtime, company, awaited=True)
    (letter,) = (await desk.json("dead-letters", "list", user="ops"))["items"]
    refused = await desk.json("dead-letters", "retry-all", user="ops", code=1)
    assert [(one["id"], one["code"]) for one in refused["refused"]] == [(letter["id"], "EFFECT_WAS_AWAITED")]
    done = await desk.json("dead-letters", "discard", letter["id"], "--reason", "called them", user="ops")
    assert done == NOTHING | {"effects": 1}
    assert await desk.json("dead-letters", "retry-all", user="ops") == NOTHING
    again = await desk.json("dead-letters", "discard", letter["id"], "--reason", "twice", user="ops", code=1)
    assert [one["code"] for one in again["refused"]] == ["NOT_FOUND"]


async def test_variables_are_edited_and_an_instance_is_failed_at_the_command_line(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    instance_id = await given_up(runtime, company)
    edited = await desk.json(
        "instances", "edit", instance_id, "-d", "order=8", "--reason", "wrong", user="ops"
    )
    assert (edited["status"], edited["context"]["order"]) == ("paused", 8)
    refused = await desk.refusal("instances", "cancel-token", instance_id, "9.9", user="ops")
    assert refused["code"] == "TOKEN_NOT_FOUND"
    failed = await desk.json("instances", "force-fail", instance_id, "--reason", "gone", user="ops")
    assert failed["status"] == "failed"


async def test_incidents_are_shown_in_groups_and_one_by_one_with_the_commands_that_help(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    assert (await desk.run("incidents", user="ops")).stdout == "There are no incidents.\n"
    confirming = await given_up(runtime, company)
    telling = await unsendable(runtime, company)
    found = await desk.json("incidents", user="ops")
    assert (len(found["items"]), found["next"]) == (2, None)
    groups = {group["kind"]: group for group in found["items"]}
    assert groups["instance"]["examples"] == [str(confirming)]
    assert groups["effect"]["definition"] == "telling"
    heading, *rows_shown, _ = lines(await desk.run("incidents", user="ops"))
    assert heading[:5] == ["code", "kind", "definition", "node", "number"]
    assert len(rows_shown) == 2

    (one,) = (await desk.json("incidents", "--kind", "effect", user="ops"))["items"]
    assert (one["instance_id"], one["node"]) == (str(telling), "tell")
    page = await desk.json("incidents", "--each", "--limit", "1", user="ops")
    more = await desk.json("incidents", "--each", "--cursor", page["next"], user="ops")
    assert {item["kind"] for item in page["items"] + more["items"]} == {"instance", "effect"}
    assert more["next"] is None
    shown = (await desk.run("incidents", "--code", groups["instance"]["code"], user="ops")).stdout
    assert f"  assent instances retry {confirming}\n" in shown


async def test_dead_events_and_dead_effects_are_one_list_newest_first(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    assert (await desk.run("dead-letters", "list", user="ops")).stdout == "There are no dead letters.\n"
    confirming = await given_up(runtime, company)
    telling = await unsendable(runtime, company)
    found = await desk.items("dead-letters", "list", user="ops")
    assert [(letter["kind"], letter["instance_id"]) for letter in found] == [
        ("effect", str(telling)),
        ("event", str(confirming)),
    ]
    assert "the shop is closed" in found[1]["error"]
    table = (await desk.run("dead-letters", "list", user="ops")).stdout
    assert all(letter["id"] in table and letter["error"][:40] in table for letter in found)


async def test_a_dead_event_is_tried_again_by_its_id(desk: Desk, runtime: Runtime, company: Database) -> None:
    instance_id = await given_up(runtime, company)
    (letter,) = await desk.items("dead-letters", "list", user="ops")
    shop.is_open = True
    result = await desk.run("dead-letters", "retry", letter["id"], user="ops")
    assert result.stdout == "✓ retried: 1 event\n"
    assert (await desk.json("instances", "show", instance_id))["instance"]["status"] == "completed"
    assert await desk.items("dead-letters", "list", user="ops") == []


async def test_an_instance_is_tried_again_as_its_page_says(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    instance_id = await given_up(runtime, company)
    shop.is_open = True
    retried = await desk.json("instances", "retry", instance_id, user="ops")
    assert retried["incident"] is None
    await drain(runtime)
    assert (await desk.json("instances", "show", instance_id))["instance"]["status"] == "completed"
    assert await desk.items("dead-letters", "list", user="ops") == []


async def test_a_dead_effect_is_sent_again(desk: Desk, runtime: Runtime, company: Database) -> None:
    await unsendable(runtime, company)
    (letter,) = await desk.items("dead-letters", "list", user="ops")
    assert await desk.json("dead-letters", "retry", letter["id"], user="ops") == {**NOTHING, "effects": 1}
    (effect,) = await effects(company)
    assert (effect["status"], effect["attempts"]) == ("queued", 1)


async def test_an_effect_that_was_awaited_is_tried_again_with_its_instance(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    instance_id = await unsendable(runtime, company, awaited=True)
    (letter,) = await desk.items("dead-letters", "list", user="ops")
    assert letter["awaited"]
    assert "retry the instance" in (await desk.run("dead-letters", "list", user="ops")).stdout
    refused = await desk.json("dead-letters", "retry", letter["id"], user="ops", code=1)
    assert [one["code"] for one in refused["refused"]] == ["EFFECT_WAS_AWAITED"]
    await desk.run("instances", "retry", instance_id, user="ops")
    statuses = sorted(effect["status"] for effect in await effects(company))
    assert statuses == ["dead", "queued"]


async def test_a_dead_task_is_among_them_and_is_tried_again(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    async def die() -> str:
        async with company.transaction(None) as connection:
            task_id = await connection.fetchval("SELECT assent.new_id()")
            end = {"id": task_id, "org_id": "acme"}
            await insert(connection, "jobs", **end, status="dead", attempts=8, ended_at=company.clock.now())
            await insert(connection, "task_submissions", **end)
        return str(task_id)

    task_id = await die()
    (letter,) = await desk.items("dead-letters", "list", user="ops")
    assert (letter["id"], letter["kind"], letter["what"]) == (task_id, "task", "report.build")
    assert await desk.json("dead-letters", "retry", task_id, user="ops") == {**NOTHING, "tasks": 1}
    await die()
    assert await desk.json("dead-letters", "retry-all", user="ops") == {**NOTHING, "tasks": 1}
    assert {task["status"] for task in await rows(company, "jobs")} == {"queued"}


async def test_what_is_refused_is_told_and_does_not_hold_the_others_back(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    instance_id = await given_up(runtime, company)
    shop.is_open = True
    (letter,) = await desk.items("dead-letters", "list", user="ops")
    nothing = "01890a5d-ac96-774b-bcce-b302099a8057"
    ids = (nothing, instance_id, letter["id"])
    result = await desk.run("dead-letters", "retry", *ids, user="ops", code=1)
    assert result.stdout == "✓ retried: 1 event\n"
    for unknown in (nothing, instance_id):
        assert f"{unknown}: ✗ NOT_FOUND id: no dead letter {unknown}" in result.stderr
    assert "`assent instances retry`" in result.stderr


async def test_an_instance_is_paused_resumed_and_cancelled(desk: Desk, company: Database) -> None:
    started = await desk.json("instances", "start", "orders")
    paused = await desk.run("instances", "pause", started["id"], "--reason", "a strike", user="ops")
    assert paused.stdout.startswith("✓ paused")
    page = (await desk.run("instances", "show", started["id"])).stdout
    assert f"Run `assent instances resume {started['id']}`" in page
    assert (await desk.json("instances", "resume", started["id"], user="ops"))["status"] == "running"
    cancelled = await desk.json("instances", "cancel", started["id"], "--reason", "no longer wanted")
    assert cancelled["status"] == "cancelled"
    refused = await desk.refusal("instances", "resume", started["id"], user="ops")
    assert refused["code"] == "WORKFLOW_NOT_ACTIVE"


async def test_resume_after_an_incident_retries(desk: Desk, company: Database, runtime: Runtime) -> None:
    instance_id = await given_up(runtime, company)
    shop.is_open = True
    assert (await desk.json("instances", "resume", instance_id, user="ops"))["status"] == "completed"


@pytest.mark.parametrize(
    ("command", "more", "capability"),
    [
        ("pause", (), "workflows:pause"),
        ("resume", (), "workflows:resume"),
        ("retry", (), "workflows:retry"),
        ("skip", ("ask", "go"), "workflows:repair"),
    ],
)
async def test_controlling_an_instance_takes_a_capability(
    desk: Desk, company: Database, command: str, more: tuple[str, ...], capability: str
) -> None:
    instance_id = (await desk.json("instances", "start", "orders"))["id"]
    refused = await desk.refusal("instances", command, instance_id, *more)
    assert refused["code"] == "POLICY_DENIED"
    assert capability in refused["detail"]


async def test_an_instance_of_others_is_not_cancelled(desk: Desk, company: Database) -> None:
    instance_id = (await desk.json("instances", "start", "orders"))["id"]
    assert (await desk.refusal("instances", "cancel", instance_id, user="max"))["code"] == "POLICY_DENIED"


async def test_everything_that_died_is_tried_again_more_than_a_batch_of_it(
    desk: Desk, runtime: Runtime, company: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.cli.letters.BATCH", 2)
    await given_up_many(runtime, company, 5)
    await unsendable(runtime, company)
    shop.is_open = True
    assert await desk.json("dead-letters", "retry-all", user="ops") == {**NOTHING, "events": 5, "effects": 1}
    assert await desk.items("dead-letters", "list", user="ops") == []
    done = await desk.items("instances", "list", "--workflow", "confirmation")
    assert [one["status"] for one in done] == ["completed"] * 5


async def test_whoever_sits_at_a_terminal_sees_how_far_it_is(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    await given_up_many(runtime, company, 3)
    shown = await desk.terminal("dead-letters", "retry-all", user="ops")
    assert "━" in shown
    assert "retried: 3 events" in shown


async def test_what_fails_again_stays_dead_and_is_told_once(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    await given_up_many(runtime, company, 3)
    retried = await desk.json("dead-letters", "retry-all", user="ops", code=1)
    assert retried["events"] == 0
    assert [one["code"] for one in retried["refused"]] == ["STEP_FAILED"] * 3
    assert len(await desk.items("dead-letters", "list", user="ops")) == 3


async def test_an_event_that_can_be_nobodys_is_not_said_to_be_tried_again(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    await desk.run("events", "emit", "paid:7", user="ops")
    async with company.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_events_outbox SET payload_json = '{}' WHERE org_id = 'acme'"
        )
    await drain(runtime)
    retried = await desk.json("dead-letters", "retry-all", user="ops", code=1)
    assert (retried["events"], len(retried["refused"])) == (0, 1)


async def spoiled(desk: Desk, company: Database) -> UUID:
    """An instance whose row was put back to before its last step, and that is older than it looks."""
    started = await desk.json("instances", "start", "payment", "-d", "order=7")
    before = await projection(company, UUID(started["id"]))
    await put_back(company, UUID(started["id"]), {**before, "active_tokens": [], "current_nodes": []})
    return UUID(started["id"])


async def test_a_sound_instance_is_as_its_steps_make_it(desk: Desk) -> None:
    started = await desk.json("instances", "start", "orders")
    result = await desk.run("rebuild", started["id"], user="ops")
    assert result.stdout == f"{started['id']}  ✓ as its steps make it\n"


async def test_check_finds_what_differs_and_changes_nothing(desk: Desk, company: Database) -> None:
    instance_id = await spoiled(desk, company)
    before = await projection(company, instance_id)
    (found,) = (await desk.json("rebuild", instance_id, "--check", user="ops", code=1))["items"]
    assert (found["changed"], list(found["differences"])) == (False, ["tokens"])
    assert found["differences"]["tokens"]["kept"] == []
    assert [token["node"] for token in found["differences"]["tokens"]["rebuilt"]] == ["wait"]
    assert await projection(company, instance_id) == before
    assert "✗ differs" in (await desk.run("rebuild", instance_id, "--check", user="ops", code=1)).stdout


async def test_a_rebuilt_instance_goes_on(desk: Desk, runtime: Runtime, company: Database) -> None:
    instance_id = await spoiled(desk, company)
    assert "✓ rebuilt" in (await desk.run("rebuild", instance_id, user="ops")).stdout
    assert await desk.json("rebuild", instance_id, "--check", user="ops")
    await desk.run("events", "emit", "paid:7", user="ops")
    await drain(runtime)
    assert (await desk.json("instances", "show", instance_id))["instance"]["status"] == "completed"


async def test_every_stuck_instance_is_rebuilt(desk: Desk, company: Database) -> None:
    assert (await desk.run("rebuild", "--all-stuck", user="ops")).stdout == "No instance is stuck.\n"
    stuck = await failing.stuck(desk, company)
    await desk.run("instances", "start", "orders")
    assert await desk.items("rebuild", "--all-stuck", "--still-for", "2h", user="ops") == []
    found = await desk.items("rebuild", "--all-stuck", user="ops")
    assert [(one["instance_id"], one["changed"]) for one in found] == [(str(stuck), True)]
    assert (await desk.json("instances", "show", stuck))["instance"]["status"] == "completed"


async def test_one_that_cannot_be_rebuilt_does_not_hold_the_others_back(
    desk: Desk, company: Database
) -> None:
    broken = (await desk.json("instances", "start", "payment", "-d", "order=7"))["id"]
    async with past_the_guards(company.url) as connection:
        await connection.execute(
            "UPDATE assent.workflow_step_executions SET output_json = '{}' WHERE org_id = 'acme'"
        )
    sound = (await desk.json("instances", "start", "orders"))["id"]
    found = (await desk.json("rebuild", broken, sound, user="ops", code=1))["items"]
    assert [one.get("error", {}).get("code") for one in found] == ["UNEXPECTED", None]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected the id of an instance, or --all-stuck"),
        (["01890a5d", "--all-stuck"], "expected the id of an instance, or --all-stuck"),
        (["--all-stuck", "--still-for", "soon"], "is not a duration"),
    ],
    ids=["neither", "both", "no length"],
)
async def test_what_is_to_be_rebuilt_must_be_said_once(desk: Desk, arguments, told) -> None:
    assert told in (await desk.run("rebuild", *arguments, user="ops", code=2)).stderr
