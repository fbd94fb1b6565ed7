"""What people do: see what waits for them, decide it, answer a step, move an entity on."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from assent.people.delegations import NewDelegation, delegate
from assent.people.directory import MembersDirectory
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from tests.cli.desk import Desk, lines
from tests.world import (
    LARGE,
    MIDDLE,
    ORG,
    actor,
    create_invoice,
    entity_row,
    request_id,
    rows,
    submit_invoice,
)


async def test_an_inbox_shows_what_waits_for_somebody_and_nobody_else(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, LARGE)
    result = await desk.run("inbox", user="bea")
    heading, item, total = lines(result)
    assert heading == ["age", "title", "figure", "step", "kind", "request"]
    assert item[3:] == ["20,000.00", "EUR", "budget", "approval", str(request_id(view, "budget"))]
    assert total == ["1", "for", "bea,", "0", "overdue"]
    assert (await desk.run("inbox", user="max")).stdout == "Nothing waits for max.\n"


async def test_an_inbox_as_json_can_be_paged_through(desk: Desk, runtime: Runtime) -> None:
    wanted = [request_id(await submit_invoice(runtime, MIDDLE), "one") for _ in range(3)]
    first = await desk.json("inbox", "--limit", 2, user="fin")
    second = await desk.json("inbox", "--limit", 2, "--cursor", first["next"], user="fin")
    found = [UUID(item["request_id"]) for page in (first, second) for item in page["items"]]
    assert (found, second["next"]) == (wanted, None)


async def test_an_inbox_is_filtered_and_sorted(desk: Desk, runtime: Runtime) -> None:
    await submit_invoice(runtime, MIDDLE)
    await submit_invoice(runtime, LARGE)
    items = (await desk.json("inbox", "--sort", "figure", user="fin"))["items"]
    assert [item["node_name"] for item in items] == ["finance", "one"]
    assert (await desk.json("inbox", "--overdue", user="fin"))["items"] == []
    assert (await desk.json("inbox", "--kind", "form", user="fin"))["items"] == []
    await desk.run("instances", "start", "orders")
    assert [item["kind"] for item in (await desk.json("inbox", "--kind", "form"))["items"]] == ["form"]


async def test_whoever_stands_in_sees_for_whom_and_decides_for_them(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    view = await submit_invoice(runtime, LARGE)
    await _delegate(company, "bea", "max")
    heading, item, _ = lines(await desk.run("inbox", user="max"))
    assert heading == ["age", "title", "figure", "step", "kind", "on", "behalf", "of", "request"]
    assert item[-2] == "bea"
    await desk.run(
        "approvals", "decide", request_id(view, "budget"), "approved", "--on-behalf-of", "bea", user="max"
    )
    (decision,) = await rows(company, "approval_decisions")
    assert (decision["approver_id"], decision["on_behalf_of"]) == ("max", "bea")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("approved",), ("approved", None)),
        (("rejected", "--reason", "too dear"), ("rejected", "too dear")),
        (("abstained",), ("abstained", None)),
    ],
    ids=["approve", "reject", "abstain"],
)
async def test_a_request_is_decided(
    desk: Desk, runtime: Runtime, company: Database, options: Any, kept: Any
) -> None:
    view = await submit_invoice(runtime, LARGE)
    await desk.run("approvals", "decide", request_id(view, "finance"), *options, user="fin")
    (decision,) = await rows(company, "approval_decisions")
    assert (decision["approver_id"], decision["decision"], decision["reason"]) == ("fin", *kept)


async def test_the_answer_shows_where_the_instance_stands_now(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, LARGE)
    decided = await desk.json("approvals", "decide", request_id(view, "finance"), "approved", user="fin")
    assert [(step["name"], step["asked"]) for step in decided["instance"]["steps"]] == [("budget", ["bea"])]
    done = await desk.run("approvals", "decide", request_id(view, "budget"), "approved", user="bea")
    assert lines(done)[0] == ["✓", "approved"]
    assert (await entity_row(runtime, view.entity_id))["state"] == "active"


async def test_the_beginning_of_an_id_is_enough_when_it_names_one(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, LARGE)
    finance, budget = str(request_id(view, "finance")), str(request_id(view, "budget"))
    shared = next(n for n in range(len(budget)) if budget[n] != finance[n])
    refused = await desk.refusal("approvals", "decide", budget[:shared], "approved", user="bea")
    assert refused["code"] == "AMBIGUOUS_ID"
    assert budget in refused["detail"]
    assert finance in refused["detail"]
    decided = await desk.json("approvals", "decide", budget[: shared + 1], "approved", user="bea")
    assert (decided["request"]["status"], decided["instance"]["status"]) == ("approved", "running")


async def test_two_answers_at_once_are_a_usage_error(desk: Desk) -> None:
    result = await desk.run("approvals", "decide", "01890a5d", "rejected", "abstained", code=2)
    assert "unexpected extra argument" in result.stderr


async def test_an_answer_that_the_step_does_not_know_changes_nothing(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    view = await submit_invoice(runtime, LARGE)
    refused = await desk.refusal("approvals", "decide", request_id(view, "finance"), "maybe", user="fin")
    assert refused["code"] == "INVALID_TRANSITION"
    assert await rows(company, "approval_decisions") == []


async def test_a_request_is_claimed_released_and_reassigned(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, LARGE)
    request = request_id(view, "finance")
    await desk.run("approvals", "claim", request, user="fin")
    (item,) = (await desk.json("inbox", user="fin"))["items"]
    assert item["claimed_by"] == "fin"
    await desk.run("approvals", "release", request, user="fin")
    (item,) = (await desk.json("inbox", user="fin"))["items"]
    assert item["claimed_by"] is None
    done = await desk.run("approvals", "reassign", request, "fin", "max", "--reason", "away", user="fin")
    assert done.stdout.startswith("✓ reassigned to max")
    assert [one["node_name"] for one in (await desk.json("inbox", user="max"))["items"]] == ["finance"]


async def test_nobody_approves_what_is_their_own_or_what_they_are_not_asked(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    request = request_id(await submit_invoice(runtime, LARGE), "finance")
    for user in ("ann", "max"):
        assert (await desk.refusal("approvals", "decide", request, "approved", user=user))["code"] in (
            "POLICY_DENIED",
            "SEPARATION_OF_DUTIES",
        )
    assert await rows(company, "approval_decisions") == []


async def test_a_request_that_is_not_there_is_refused_with_a_hint(desk: Desk) -> None:
    refused = await desk.refusal(
        "approvals", "decide", "01890a5d-ac96-774b-bcce-b302099a8057", "approved", user="fin"
    )
    assert refused["code"] == "NOT_FOUND"
    assert "`assent inbox`" in refused["hint"]


async def test_a_form_is_answered(desk: Desk, company: Database) -> None:
    started = await desk.json("instances", "start", "orders")
    done = await desk.json("instances", "advance", started["id"], "go", "--step", "ask", "-d", "note=soon")
    assert (done["status"], done["steps"]) == ("completed", [])
    refused = await desk.refusal("instances", "advance", started["id"], "go")
    assert refused["code"] == "WORKFLOW_NOT_ACTIVE"


async def test_an_event_that_the_step_does_not_know_changes_nothing(desk: Desk) -> None:
    started = await desk.json("instances", "start", "orders")
    refused = await desk.refusal("instances", "advance", started["id"], "nonsense")
    assert refused["code"] == "INVALID_TRANSITION"
    shown = await desk.json("instances", "show", started["id"])
    assert shown["instance"]["version"] == started["version"]


async def test_an_entity_moves_on_by_its_own_id(desk: Desk, runtime: Runtime) -> None:
    entity = await create_invoice(runtime, MIDDLE)
    moved = await desk.json("instances", "advance", entity.id, "submit")
    assert [step["name"] for step in moved["steps"]] == ["one"]
    assert (await entity_row(runtime, entity.id))["state"] == "submitted"


async def test_an_entitys_step_is_named_where_several_wait(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, LARGE)
    refused = await desk.refusal("instances", "advance", view.entity_id, "approved", user="fin")
    assert refused["code"] == "AMBIGUOUS_STEP"
    decided = await desk.json(
        "instances", "advance", view.entity_id, "approved", "--step", "finance", user="fin"
    )
    assert [step["name"] for step in decided["steps"]] == ["budget"]


async def test_whoever_may_not_submit_does_not(desk: Desk, runtime: Runtime) -> None:
    entity = await create_invoice(runtime, MIDDLE)
    assert (await desk.refusal("instances", "advance", entity.id, "submit", user="fin"))[
        "code"
    ] == "POLICY_DENIED"
    assert (await entity_row(runtime, entity.id))["state"] == "draft"


async def test_instances_of_another_org_are_not_there(
    desk: Desk, runtime: Runtime, company: Database
) -> None:
    view: InstanceView = await submit_invoice(runtime, MIDDLE)
    async with company.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ('globex', 'eve', 'Eve', '{operator}')"
        )
        await connection.execute(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ('globex', 'operator', '*')"
        )
    commands = [
        ("instances", "show", view.id),
        ("instances", "show", view.entity_id),
        ("instances", "advance", view.id, "approved"),
        ("instances", "advance", view.entity_id, "cancel"),
        ("approvals", "decide", request_id(view, "one"), "approved"),
        ("rebuild", view.id),
    ]
    for command in commands:
        assert (await desk.refusal(*command, "--org", "globex", user="eve"))["code"] == "NOT_FOUND"
    retried = await desk.json("dead-letters", "retry", view.id, "--org", "globex", user="eve", code=1)
    assert [one["code"] for one in retried["refused"]] == ["NOT_FOUND"]
    assert await desk.items("instances", "list", "--org", "globex", user="eve") == []


async def _delegate(database: Database, from_user: str, to_user: str) -> None:
    now = database.clock.now()
    wanted = NewDelegation(ORG, from_user, to_user, ends_at=now + timedelta(days=1))
    async with database.transaction(ORG) as connection:
        kept = await delegate(connection, MembersDirectory(), wanted, actor(from_user), now)
    assert kept.from_user == from_user
