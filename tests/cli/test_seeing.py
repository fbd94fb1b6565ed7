"""`assent instances list` and `assent instances show`: what they say of instances, and what they keep to themselves."""

import re

from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END
from tests.cli.desk import Desk, lines
from tests.cli.failing import given_up
from tests.world import (
    ANN,
    FIN,
    LARGE,
    MIDDLE,
    ORG,
    actor,
    create_invoice,
    decide,
    drain,
    edit_invoice,
    publish_steps,
    request_id,
    steps_of,
    submit_invoice,
)


async def test_a_list_says_where_each_instance_stands_newest_first(desk: Desk, runtime: Runtime) -> None:
    older = await submit_invoice(runtime, MIDDLE)
    newer = await desk.json("instances", "start", "orders")
    heading, first, second = lines(await desk.run("instances", "list"))
    assert heading[:5] == ["instance", "workflow", "version", "status", "stands"]
    assert first[:6] == [newer["id"], "orders", "1", "running", "ask", "ann"]
    assert second[:6] == [str(older.id), "invoice", "1", "running", "one", "ann"]


async def test_a_list_is_filtered_and_goes_on_where_it_ended(desk: Desk, runtime: Runtime) -> None:
    about = await submit_invoice(runtime, MIDDLE)
    flows = [(await desk.json("instances", "start", "orders"))["id"] for _ in range(3)]
    await desk.run("instances", "advance", flows[0], "go")
    assert await ids(desk, "--status", "completed") == [flows[0]]
    assert (
        await ids(desk, "--status", "completed", "--status", "running", "--workflow", "orders") == flows[::-1]
    )
    assert await ids(desk, "--entity-type", "invoice") == [str(about.id)]
    page = await desk.json("instances", "list", "--limit", 2)
    assert [row["id"] for row in page["items"]] == [flows[2], flows[1]]
    assert await ids(desk, "--cursor", page["next"]) == [flows[0], str(about.id)]
    assert (
        f"There is more: --cursor {page['next']}"
        in (await desk.run("instances", "list", "--limit", 2)).stdout
    )
    assert (
        await desk.run("instances", "list", "--status", "failed")
    ).stdout == "There is no such instance.\n"


async def ids(desk: Desk, *options: object) -> list[str]:
    return [row["id"] for row in (await desk.json("instances", "list", *options))["items"]]


async def test_what_somebody_may_not_read_is_neither_listed_nor_shown(desk: Desk, runtime: Runtime) -> None:
    created = await runtime.core.kernel.mutate(Command(ORG, "secret.create", ANN, {"number": "7"}))
    await drain(runtime)
    (instance_id,) = await ids(desk)
    assert (await desk.json("instances", "show", instance_id))["entity"]["data"]["number"] == "7"
    assert await desk.items("instances", "list", user="fin") == []
    for named in (instance_id, created.entity.id):
        commands = (
            ["instances", "show", named],
            ["instances", "advance", named, "submit"],
            ["rebuild", named],
        )
        for words in commands:
            assert (await desk.refusal(*words, user="ops"))["code"] == "POLICY_DENIED"


async def test_a_page_says_who_is_waited_for_what_was_answered_and_what_happened(
    desk: Desk, runtime: Runtime
) -> None:
    view = await submit_invoice(runtime, LARGE)
    await decide(runtime, view, "finance", FIN, reason="fine by me")
    page = (await desk.run("instances", "show", view.id, user="bea")).stdout
    budget = str(request_id(view, "budget"))
    told = [" ".join(line.split()) for line in page.splitlines()]
    assert told[0] == f"invoice {view.entity_id} submitted, version 2, edits amend_only"
    assert told[1] == f"invoice 1 {view.id} running"
    assert told[3] == "waits at kind asks waiting request"
    assert told[4].startswith("budget approval bea ")
    assert told[4].endswith(budget)
    assert told[5] == "you could budget: abstained | approved | rejected"
    asked = [line.partition(" ")[2].partition(" ")[2] for line in told[told.index("asked") + 2 :]]
    assert asked[:3] == [
        "budget pending asks bea version 2",
        "finance approved asked by ann version 2",
        "approved fin fine by me",
    ]
    happened = [line.partition(" ")[2].partition(" ")[2] for line in told[told.index("happened") + 2 :]]
    assert happened[-2:] == ["budget approval waits ann", "finance approval completed → approved fin"]


async def test_whoever_is_asked_only_later_is_not_shown_as_asked(
    desk: Desk, runtime: Runtime, database: Database
) -> None:
    escalate = {"after": "48h", "to": {"user": "max"}}
    ask = {"id": "boss", "type": "approval", "assignee": {"user": "bea"}, "escalate": escalate}
    ways = [{"from": "boss", "event": event, "to": "end"} for event in ("approved", "rejected")]
    await publish_steps(database, "leave", [ask, END], ways)
    view = await runtime.org(ORG, ANN).instances.start("leave")
    told = [
        " ".join(line.split()) for line in (await desk.run("instances", "show", view.id)).stdout.splitlines()
    ]
    (line,) = [line for line in told if "boss pending" in line]
    assert line.endswith("boss pending asks bea, later max")
    (step,) = [step for step in await steps_of(database, view.id) if step["node_id"] == "boss"]
    assert step["output_json"]["asked"] == ["bea"]


async def test_what_one_could_do_is_shown_to_whoever_could(desk: Desk, runtime: Runtime) -> None:
    entity = await create_invoice(runtime, MIDDLE)
    await drain(runtime)
    assert "you could  draft: submit" in (await desk.run("instances", "show", entity.id)).stdout
    assert (
        "submit"
        not in (await desk.run("instances", "show", entity.id, user="bea")).stdout.partition("you could")[2]
    )


async def test_requests_of_all_rounds_are_shown(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, MIDDLE)
    await edit_invoice(runtime, view.entity_id, grand_total=80_000)
    await drain(runtime)
    await runtime.org(ORG, actor("ann")).entities.transition(view.entity_id, "submit")
    shown = await desk.json("instances", "show", view.entity_id)
    assert [request["status"] for request in shown["approvals"]] == ["pending", "void"]


async def test_an_instance_that_stopped_says_why_and_what_to_do(
    desk: Desk, runtime: Runtime, company
) -> None:
    instance_id = await given_up(runtime, company)
    result = await desk.run("instances", "show", instance_id)
    assert "stopped: ATTEMPTS_USED_UP at confirm: RuntimeError: the shop is closed" in result.stdout
    assert f"to do:   Correct the cause, then run `assent instances retry {instance_id}`." in result.stdout
    shown = await desk.json("instances", "show", instance_id)
    assert shown["instance"]["incident"]["code"] == "ATTEMPTS_USED_UP"
    assert str(instance_id) in shown["advice"]


async def test_an_entity_without_a_workflow_is_shown_as_it_is(desk: Desk, runtime: Runtime) -> None:
    created = await runtime.core.kernel.mutate(
        Command(ORG, "expense.create", ANN, {"title": "taxi", "total": 1})
    )
    result = await desk.run("instances", "show", created.entity.id)
    assert result.stdout.splitlines() == [
        f"expense {created.entity.id}  draft, version 1, edits editable",
        "No workflow has ever run for it.",
    ]
    assert (await desk.json("instances", "show", created.entity.id))["instance"] is None


async def test_an_entity_whose_workflow_ended_shows_the_one_that_ran(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, MIDDLE)
    await decide(runtime, view, "one", FIN)
    shown = await desk.json("instances", "show", view.entity_id)
    assert (shown["entity"]["state"], shown["instance"]["id"]) == ("active", str(view.id))
    assert shown["instance"]["status"] == "completed"


async def test_an_id_that_names_nothing_is_not_found(desk: Desk) -> None:
    refused = await desk.refusal("instances", "show", "01890a5d")
    assert (refused["code"], refused["detail"]) == ("NOT_FOUND", "no instance or entity 01890a5d")


async def test_data_cannot_steer_the_terminal(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, {**MIDDLE, "number": "\x1b[2Jgone"})
    for result in (await desk.run("inbox", user="fin"), await desk.run("instances", "show", view.id)):
        assert "\x1b" not in result.stdout


async def test_a_terminal_gets_colours_and_folded_columns_that_lose_nothing(
    desk: Desk, runtime: Runtime
) -> None:
    view = await submit_invoice(runtime, MIDDLE)
    shown = await desk.terminal("instances", "list", columns=80)
    assert "\x1b[32m" in shown
    heading, *rows = _without_colours(shown).splitlines()
    width = heading.index("workflow")
    # How wide a column is depends on the ages that stand in the last ones.
    assert "".join(row[:width] for row in rows).replace(" ", "") == str(view.id)


def _without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


async def test_effects_are_shown_with_their_attempts_the_last_answer_and_the_next_try(
    desk: Desk, runtime: Runtime, database: Database
) -> None:
    steps = [{"id": "tell", "type": "webhook_out", "url": "http://127.0.0.1:1/orders"}, END]
    await publish_steps(database, "told", steps, [{"from": "tell", "to": "end"}])
    view = await runtime.org(ORG, ANN).instances.start("told")
    waiting = await desk.json("instances", "show", view.id)
    (effect,) = waiting["instance"]["effects"]
    assert (effect["status"], effect["attempts"], effect["tried"], effect["step"]) == (
        "queued",
        0,
        [],
        "tell",
    )
    assert effect["next_at"] is not None
    async with database.transaction(None) as connection:
        for change in (
            """UPDATE assent.jobs SET status = 'running', attempts = 1, worker_id = gen_random_uuid(),
                                      claimed_at = assent.now() WHERE org_id = 'acme'""",
            """UPDATE assent.jobs SET status = 'retrying', worker_id = NULL, run_at = '2126-01-01T00:00:00Z'
                WHERE org_id = 'acme'""",
        ):
            await connection.execute(change)
        await connection.execute(
            """INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, code, error, ambiguous, output,
                                              worker_id, started_at, ended_at)
               SELECT org_id, id, 1, kind, 'failed', 'HTTP_STATUS', 'HTTP_STATUS: 503', true, '{"status": 503}',
                      gen_random_uuid(), assent.now(), assent.now() FROM assent.jobs WHERE org_id = 'acme'"""
        )
    (effect,) = (await desk.json("instances", "show", view.id))["instance"]["effects"]
    assert (effect["status"], effect["attempts"]) == ("retrying", 1)
    assert effect["next_at"].startswith("2126-01-01")
    (tried,) = effect["tried"]
    assert (tried["outcome"], tried["code"], tried["ambiguous"]) == ("failed", "HTTP_STATUS", True)
    assert tried["answer"] is None  # what receivers answered is for operators
    (seen,) = (await desk.json("instances", "show", view.id, user="ops"))["instance"]["effects"]
    assert seen["tried"][0]["answer"] == {"status": 503}
    told = [
        " ".join(line.split()) for line in (await desk.run("instances", "show", view.id)).stdout.splitlines()
    ]
    (line,) = [line for line in told if "retrying" in line]
    assert "1 of" in line
    assert line.endswith("HTTP_STATUS: 503 (it may have been received)")
    assert f"told 1 {view.id} completed" in told


async def test_a_person_of_a_request_that_has_ended_is_not_shown_as_asked(
    desk: Desk, runtime: Runtime
) -> None:
    view = await submit_invoice(runtime, LARGE)
    await desk.run("instances", "cancel", view.id, user="ops")
    page = (await desk.run("instances", "show", view.id, user="bea")).stdout
    assert "asks" not in page
