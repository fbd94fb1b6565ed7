"""`assent tasks`, `assent forms` and `assent delegations`, with the rights of the member who acts."""

from uuid import UUID

import pytest

from assent.runtime import Runtime
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.loop import exhaust
from assent.worker.tasks import Tasks
from tests.authored import END, arrows, form
from tests.cli.desk import Desk, lines
from tests.world import LARGE, grant, hire_with, publish_steps, rows, submit_invoice

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
async def tia(company: Database) -> str:
    """A member who may do everything with tasks."""
    await hire_with(company, "tia", "tasks:*")
    return "tia"


@pytest.fixture
async def survey(company: Database, desk: Desk) -> str:
    """A form that clerks are asked to fill in."""
    asking = form(
        "ask", assignee={"role": "clerk"}, form={"rating": {"type": "integer", "required": True, "max": 5}}
    )
    await publish_steps(company, "survey", [asking, END], arrows("ask", "end"))
    step: str = (await desk.json("instances", "start", "survey"))["steps"][0]["step_id"]
    return step


async def test_a_task_is_submitted_run_and_shown(desk: Desk, runtime: Runtime, tia: str) -> None:
    submit = ("tasks", "submit", "report.build", "-d", "month=May", "--key", "may", "--priority", 200)
    task = (await desk.json(*submit, user=tia))["id"]
    assert (await desk.json(*submit, user=tia))["id"] == task
    await exhaust(Tasks(WorkerContext(runtime.database, runtime=runtime)), lambda run: None)
    shown = await desk.json("tasks", "show", task, user=tia)
    assert (shown["status"], shown["priority"], shown["output"]) == ("done", 200, {"pages": 3})
    (listed,) = await desk.items("tasks", "list", "--status", "done", "--type", "report.build", user=tia)
    assert (listed["id"], listed["submitted_by"]) == (task, tia)
    assert await desk.items("tasks", "list", "--status", "dead", user=tia) == []
    assert await desk.items("tasks", "list", "--instance", ID, user=tia) == []
    text = await desk.run("tasks", "show", task, user=tia)
    assert lines(text)[1][:4] == [task, "report.build", "done", "1/1"]
    assert '  output: {"pages":3}' in text.stdout.splitlines()
    refused = await desk.refusal("tasks", "retry", task, user=tia)
    assert refused["code"] == "TASK_NOT_DEAD"
    assert (await desk.refusal("tasks", "cancel", task, user=tia))["code"] == "TASK_HAS_ENDED"


async def test_a_task_waits_for_its_time_and_is_cancelled(desk: Desk, company: Database, tia: str) -> None:
    later = ("tasks", "submit", "report.build", "-d", "month=May", "--run-at", "2999-01-01")
    task = (await desk.json(*later, user=tia))["id"]
    assert (await desk.json("tasks", "show", task, user=tia))["run_at"].startswith(
        ("2998-12-31", "2999-01-01")
    )
    assert (await desk.run("tasks", "cancel", task, user=tia)).stdout == f"✓ cancelled {task}\n"
    (entry,) = [row for row in await rows(company, "audit_log") if row["action"] == "task.cancel"]
    assert (entry["actor_id"], entry["channel"]) == (tia, "cli")


async def test_an_input_that_does_not_fit_is_refused(desk: Desk, company: Database, tia: str) -> None:
    for words, code in (
        (("report.build",), "MISSING_KEY"),
        (("report.build", "-d", "month=May", "-d", "year=1"), "UNKNOWN_KEY"),
        (("nothing",), "UNKNOWN_TASK"),
    ):
        assert (await desk.refusal("tasks", "submit", *words, user=tia))["code"] == code
    assert await rows(company, "jobs") == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("submit", "report.build", "-d", "month=May"), "tasks:submit"),
        (("submit", "report.send", "-d", "month=May"), "reports:send"),
        (("list",), "tasks:read"),
        (("show", "{task}"), "tasks:read"),
        (("cancel", "{task}"), "tasks:cancel"),
        (("complete", "{task}"), "tasks:complete"),
        (("fail", "{task}", "--message", "no paper"), "tasks:complete"),
        (("retry", "{task}"), "tasks:retry"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
async def test_work_with_tasks_takes_a_capability(desk: Desk, runtime: Runtime, words, wanted) -> None:
    task = (await runtime.org("acme").tasks.submit("report.build", {"month": "May"})).id
    refused = await desk.refusal("tasks", *(word.format(task=task) for word in words))
    assert (refused["code"], refused["detail"].split()[-1]) == ("POLICY_DENIED", wanted)
    (row,) = await rows(runtime.database, "jobs")
    assert row["status"] == "queued"


async def test_who_may_cancel_a_task_and_not_read_it_is_shown_nothing(
    desk: Desk, company: Database, runtime: Runtime
) -> None:
    await hire_with(company, "cas", "tasks:cancel")
    task = (await runtime.org("acme").tasks.submit("report.build", {"month": "May"})).id
    assert await desk.json("tasks", "cancel", task, user="cas") is None
    assert (await runtime.org("acme").tasks.get(task)).status == "cancelled"


async def test_a_form_is_claimed_drafted_and_passed_on(desk: Desk, survey: str) -> None:
    assert (await desk.json("forms", "claim", survey))["claimed_by"] == "ann"
    assert (await desk.refusal("forms", "claim", survey, user="carl"))["code"] == "CLAIMED"
    saved = await desk.json("forms", "save-draft", survey, "-d", "rating=9")
    assert (saved["draft"], [one["code"] for one in saved["draft_problems"]]) == (
        {"rating": 9},
        ["OUT_OF_RANGE"],
    )
    text = await desk.run("forms", "show", survey)
    assert ["rating", "integer", "required", "9"] in lines(text)
    assert "OUT_OF_RANGE" in text.stdout
    assert (await desk.json("forms", "release", survey))["claimed_by"] is None
    passed = await desk.json("forms", "reassign", survey, "ann", "max", "--reason", "on leave")
    assert "max" in passed["asked"]
    assert "ann" not in passed["asked"]


async def test_a_form_is_not_for_other_members(desk: Desk, survey: str) -> None:
    for words in (
        ("claim", survey),
        ("save-draft", survey, "-d", "rating=4"),
        ("reassign", survey, "ann", "max"),
    ):
        assert (await desk.refusal("forms", *words, user="fin"))["code"] in (
            "POLICY_DENIED",
            "NOT_ASSIGNED",
        ), words
    assert (await desk.refusal("forms", "show", survey, user="fin"))["code"] == "POLICY_DENIED"
    assert (await desk.refusal("forms", "show", ID))["code"] == "NOT_FOUND"


async def test_a_member_stands_in_until_it_is_revoked(desk: Desk, runtime: Runtime) -> None:
    view = await submit_invoice(runtime, LARGE)
    create = (
        "delegations",
        "create",
        "max",
        "--entity-type",
        "invoice",
        "--ends-at",
        "2999-08-31",
        "--reason",
        "leave",
    )
    made = await desk.json(*create, user="bea")
    assert (made["from_user"], made["to_user"], made["entity_types"]) == ("bea", "max", ["invoice"])
    (item,) = await desk.items("inbox", user="max")
    assert (item["instance_id"], item["on_behalf_of"]) == (str(view.id), "bea")
    assert [one["id"] for one in await desk.items("delegations", "list", "--open", user="max")] == [
        made["id"]
    ]
    table = lines(await desk.run("delegations", "list", user="bea"))
    assert table[1][:3] == [made["id"], "bea", "max"]
    revoked = await desk.run("delegations", "revoke", made["id"], user="bea")
    assert revoked.stdout == f"✓ revoked {made['id']}\n"
    assert await desk.items("inbox", user="max") == []
    assert await desk.items("delegations", "list", "--open", user="max") == []


async def test_delegations_of_others_take_a_capability(desk: Desk, company: Database) -> None:
    made = (await desk.json("delegations", "create", "max", user="bea"))["id"]
    for words in (
        ("list", "--user", "bea"),
        ("list", "--all"),
        ("create", "max", "--from", "bea"),
        ("revoke", made),
    ):
        refused = await desk.refusal("delegations", *words)
        assert refused["code"] == "POLICY_DENIED", words
        assert (
            refused["detail"].endswith("it takes approvals:delegate")
            or "approvals:delegate" in refused["detail"]
        )
    async with company.transaction(None) as connection:
        await grant(connection, {"operator": ["approvals:delegate"]})
    assert [one["id"] for one in await desk.items("delegations", "list", "--all", user="ops")] == [made]
    assert UUID((await desk.json("delegations", "create", "fin", "--from", "fay", user="ops"))["id"])
    assert (await desk.refusal("delegations", "create", "ops", "--from", "fay", user="ops"))["code"] == (
        "SEPARATION_OF_DUTIES"
    )
    assert (await desk.json("delegations", "revoke", made, user="ops"))["revoked_at"] is not None
    assert (await desk.refusal("delegations", "revoke", ID))["code"] == "NOT_FOUND"
