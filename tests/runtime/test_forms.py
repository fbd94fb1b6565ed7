"""Forms end to end on rows: asked, claimed, drafted, answered, closed with their step whatever ends it."""

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import pytest
import yaml

from assent.engine.requests import REASSIGN_FORM
from assent.model.actor import SYSTEM, Actor
from assent.model.form import DRAFT_BYTES_MAX
from assent.model.mutation import Refused, Rejection
from assent.people import InboxQuery, read_inbox
from assent.people.delegations import NewDelegation, delegate
from assent.runtime import InstanceView, Runtime
from assent.runtime.approval_commands import FormCommands
from assent.runtime.batch import BatchItem
from assent.runtime.event_processor import EventProcessor
from assent.runtime.instance_commands import InstanceCommands
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.authored import END, arrows, form
from tests.statements import StatementCounter
from tests.world import (
    ANN,
    BEA,
    FAY,
    FIN,
    MAX,
    ORG,
    actor,
    drain,
    edit_invoice,
    entity_row,
    found_acme,
    found_acme_with_invoices,
    patch_of,
    publish_steps,
    rows,
    submit_invoice,
)

FIELDS = {"name": {"type": "text", "required": True}, "limit": {"type": "integer", "min": 1}}
LATE = {"id": "late", "type": "terminal"}
FINANCE = {"role": "finance_manager"}


async def publish_form(
    database: Database, *more: dict[str, Any], ways: tuple[dict[str, Any], ...] = (), **keys: Any
) -> None:
    await found_acme(database)
    await publish_steps(
        database, "intake", [form("ask", **keys), END, *more], [*arrows("ask", "end", event="sent"), *ways]
    )


async def started(runtime: Runtime, database: Database, **keys: Any) -> InstanceView:
    await publish_form(database, **keys)
    return await runtime.org(ORG, ANN).instances.start("intake")


def step_of(view: InstanceView) -> UUID:
    (waiting,) = view.waiting
    assert waiting.step_id is not None
    return waiting.step_id


async def the_form(database: Database) -> dict[str, Any]:
    (found,) = await rows(database, "workflow_forms")
    return found


async def seats(database: Database) -> dict[str, str]:
    return {row["user_id"]: row["status"] for row in await rows(database, "workflow_seats")}


async def send(runtime: Runtime, view: InstanceView, who: Actor, **data: Any) -> InstanceView:
    return await runtime.org(ORG, who).instances.advance(view.id, "sent", data)


async def test_entering_a_form_asks_people_with_a_schema_and_a_time(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    view = await started(runtime, database, assignee=FINANCE, form=FIELDS, due="1d", label="Intake")
    found = await the_form(database)
    (waiting,) = view.waiting
    assert (waiting.asked, waiting.request_id, waiting.due_at) == (
        ("fay", "fin"),
        found["id"],
        found["due_at"],
    )
    assert (found["id"], found["status"], found["label"]) == (step_of(view), "open", "Intake")
    assert (found["due_at"] - clock.now()).days == 1
    assert (found["answers"], found["assignee"]["declared"]) == (["sent"], FINANCE)
    assert found["assignee"]["people"] == [
        {"user": name, "via": "role:finance_manager"} for name in ("fay", "fin")
    ]
    jsonschema.Draft202012Validator.check_schema(found["schema_json"])
    assert found["schema_json"]["required"] == ["name"]
    assert {(row["kind"], row["request_id"]) for row in await rows(database, "workflow_seats")} == {
        ("form", found["id"])
    }


async def test_answering_closes_the_form_and_its_seats_and_the_step_says_who(
    runtime: Runtime, database: Database
) -> None:
    view = await started(runtime, database, assignee=FINANCE)
    done = await send(runtime, view, FIN, name="x")
    assert (done.status, done.context["name"]) == ("completed", "x")
    found = await the_form(database)
    assert (found["status"], found["reason"], found["ended_at"] is not None) == ("answered", "sent", True)
    assert await seats(database) == {"fay": "closed", "fin": "decided"}
    (step,) = [row for row in await rows(database, "workflow_step_executions") if row["node_id"] == "ask"]
    assert (step["output_json"]["by"], step["output_json"]["data"]) == ("fin", {"name": "x"})


async def test_problems_are_told_by_field_and_nothing_changes(runtime: Runtime, database: Database) -> None:
    view = await started(runtime, database, form=FIELDS)
    with pytest.raises(Refused) as refusal:
        await send(runtime, view, ANN, limit=0)
    assert [problem.path for problem in refusal.value.rejection.problems] == [
        ("data", "limit"),
        ("data", "name"),
    ]
    assert ((await the_form(database))["status"], await seats(database)) == ("open", {"ann": "open"})


async def test_whoever_has_the_role_answers_though_no_member_had_it(
    runtime: Runtime, database: Database
) -> None:
    view = await started(runtime, database, assignee={"role": "night_shift"})
    assert (view.status, view.waiting[0].asked) == ("running", ())
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await send(runtime, view, FIN)
    done = await send(runtime, view, Actor("joe", roles=frozenset({"night_shift"})))
    assert done.status == "completed"


@pytest.mark.parametrize("assignee", [{"user": "ghost"}, {"rule": "workflow.nobody"}, {"manager": True}])
async def test_nobody_to_ask_pauses_and_a_retry_finds_them(
    runtime: Runtime, database: Database, assignee: dict[str, Any]
) -> None:
    view = await started(runtime, database, assignee=assignee)
    assert view.incident is not None
    assert (view.status, view.incident["code"]) == ("paused", "NO_ASSIGNEE")
    assert await rows(database, "workflow_forms") == []
    if assignee != {"user": "ghost"}:
        return
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name) VALUES ($1, 'ghost', 'Ghost')", ORG
        )
    again = await runtime.org(ORG, actor("eve", "*")).instances.retry(view.id)
    assert [waiting.asked for waiting in again.waiting] == [("ghost",)]


async def test_what_the_system_started_names_an_assignee_or_stops(
    runtime: Runtime, database: Database
) -> None:
    await publish_form(database)
    view = await runtime.org(ORG, SYSTEM).instances.start("intake")
    assert view.incident is not None
    assert (view.status, view.incident["code"]) == ("paused", "NO_ASSIGNEE")


async def test_a_role_in_turn_may_fall_on_whoever_started(runtime: Runtime, database: Database) -> None:
    """No separation of duties: of two finance managers each gets every other form, also one that they started."""
    await publish_form(database, assignee={**FINANCE, "pick": "round_robin"})
    asked = [(await runtime.org(ORG, FIN).instances.start("intake")).waiting[0].asked for _ in range(4)]
    assert asked == [("fay",), ("fin",), ("fay",), ("fin",)]


async def test_a_claim_is_kept_until_it_is_released(runtime: Runtime, database: Database) -> None:
    view = await started(runtime, database, assignee=FINANCE)
    step = step_of(view)
    await runtime.org(ORG, FIN).forms.claim(step)
    assert (await the_form(database))["claimed_by"] == "fin"
    for refused in (runtime.org(ORG, FAY).forms.claim(step), send(runtime, view, FAY)):
        with pytest.raises(Refused, match="CLAIMED"):
            await refused
    await runtime.org(ORG, FIN).forms.release(step)
    assert (await the_form(database))["claimed_at"] is None
    assert (await send(runtime, view, FAY)).status == "completed"


async def test_a_draft_is_kept_with_its_problems_and_helps_only_the_person(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    view = await started(runtime, database, assignee=FINANCE, form=FIELDS)
    draft = await runtime.org(ORG, FIN).forms.save_draft(step_of(view), {"limit": 0, "note": "to do"})
    assert [problem.path for problem in draft.problems] == [
        ("data", "limit"),
        ("data", "note"),
        ("data", "name"),
    ]
    seen = await runtime.org(ORG).forms.get(step_of(view))
    assert (seen.draft, seen.draft_by, seen.draft_at) == ({"limit": 0, "note": "to do"}, "fin", clock.now())
    assert [tuple(problem["path"]) for problem in seen.draft_problems or ()] == [
        problem.path for problem in draft.problems
    ]
    better = await runtime.org(ORG, FAY).forms.save_draft(step_of(view), {"name": "draft", "limit": 7})
    assert (better.problems, (await the_form(database))["draft_by"]) == ((), "fay")
    done = await send(runtime, view, FIN, name="sent")
    assert done.context == {"name": "sent"}
    assert (await the_form(database))["draft_json"] is None


async def test_a_draft_that_was_never_sent_stays_with_a_form_that_was_cancelled(
    runtime: Runtime, database: Database
) -> None:
    view = await started(runtime, database)
    await runtime.org(ORG, ANN).forms.save_draft(step_of(view), {"name": "nearly"})
    await runtime.org(ORG, ANN).instances.cancel(view.id, "changed our minds")
    found = await the_form(database)
    assert (found["status"], found["reason"], found["draft_json"]) == (
        "cancelled",
        "changed our minds",
        {"name": "nearly"},
    )
    with pytest.raises(Refused, match="WORKFLOW_NOT_ACTIVE"):
        await runtime.org(ORG, ANN).forms.save_draft(step_of(view), {})


async def test_drafts_have_a_limit_and_are_json(runtime: Runtime, database: Database) -> None:
    view = await started(runtime, database)
    with pytest.raises(Refused, match="TOO_LARGE"):
        await runtime.org(ORG, ANN).forms.save_draft(step_of(view), {"name": "x" * DRAFT_BYTES_MAX})
    with pytest.raises(Refused, match="WRONG_TYPE"):
        await runtime.org(ORG, ANN).forms.save_draft(step_of(view), {"name": object()})
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await runtime.org(ORG, BEA).forms.save_draft(step_of(view), {})
    assert (await the_form(database))["draft_json"] is None


async def test_a_delegate_fills_in_with_both_names_in_the_record(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    view = await started(runtime, database, assignee={"user": "fin"})
    async with database.transaction(None) as connection:
        await delegate(connection, runtime.core.directory, NewDelegation(ORG, "fin", "max"), FIN, clock.now())
    await runtime.org(ORG, MAX).forms.claim(step_of(view))
    await runtime.org(ORG, MAX).forms.save_draft(step_of(view), {"name": "x"})
    assert (await send(runtime, view, MAX)).status == "completed"
    (step,) = [row for row in await rows(database, "workflow_step_executions") if row["node_id"] == "ask"]
    assert (step["output_json"]["by"], step["output_json"]["for"]) == ("max", "fin")


async def test_handing_on_closes_a_seat_and_opens_another_where_reminders_go(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    view = await started(runtime, database, assignee={"user": "fin"}, notify="email", remind="1d")
    await runtime.org(ORG, FIN).forms.reassign(
        step_of(view), from_user="fin", to_user="max", reason="on leave"
    )
    with pytest.raises(Refused, match="UNKNOWN_USER"):
        await runtime.org(ORG, MAX).forms.reassign(step_of(view), from_user="max", to_user="ghost")
    clock.advance("1d")
    await Timers(WorkerContext(database)).run_once()
    await drain(runtime)
    sent = [(row["payload"]["occasion"], row["payload"]["to"]) for row in await _effects(database)]
    assert sent == [
        ("asked", "fin@acme.example"),
        ("asked", "max@acme.example"),
        ("reminded", "max@acme.example"),
    ]
    found = {row["user_id"]: row for row in await rows(database, "workflow_seats")}
    assert (found["max"]["replaces_id"], found["fin"]["status"]) == (found["fin"]["id"], "closed")
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await send(runtime, view, FIN)
    assert (await send(runtime, view, MAX)).status == "completed"


async def _effects(database: Database) -> list[dict[str, Any]]:
    found = await rows(database, "effects")
    return sorted(found, key=lambda row: row["created_at"])


async def test_time_closes_the_form_unread(runtime: Runtime, database: Database, clock: MovedClock) -> None:
    await publish_form(
        database,
        LATE,
        ways=({"from": "ask", "event": "timeout", "to": "late"},),
        assignee=FINANCE,
        timeout="1d",
    )
    view = await runtime.org(ORG, ANN).instances.start("intake")
    clock.advance("1d")
    await Timers(WorkerContext(database)).run_once()
    await drain(runtime)
    found = await the_form(database)
    assert (found["status"], found["reason"]) == ("cancelled", "timeout")
    assert set((await seats(database)).values()) == {"closed"}
    with pytest.raises(Refused, match="WORKFLOW_NOT_ACTIVE"):
        await runtime.org(ORG, FIN).forms.claim(step_of(view))


LOOK = {"id": "look", "type": "form", "assignee": FINANCE, "waives_approval": True}


async def test_an_edit_in_a_stable_region_closes_what_was_asked_about_the_version_before(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database, patch_of(LOOK))
    view = await submit_invoice(runtime)
    found = await the_form(database)
    assert (found["entity_type"], found["entity_id"], found["title"], found["figure"]) == (
        "invoice",
        view.entity_id,
        "1",
        2_000_000,
    )
    await edit_invoice(runtime, view.entity_id, grand_total=2_100_000)
    await drain(runtime)
    closed = await the_form(database)
    assert (closed["status"], closed["reason"]) == ("cancelled", "drift")
    again = await runtime.org(ORG, ANN).entities.transition(view.entity_id, "submit")  # type: ignore[arg-type]
    await runtime.org(ORG, FIN).instances.advance(again.id, "completed")
    assert (await entity_row(runtime, view.entity_id))["state"] == "active"
    assert sorted(row["status"] for row in await rows(database, "workflow_forms")) == [
        "answered",
        "cancelled",
    ]


async def test_a_branch_that_lost_closes_its_form_though_nobody_read_it(
    runtime: Runtime, database: Database
) -> None:
    """An event wins the join; the form on the other branch is closed by its step alone."""
    await found_acme(database)
    steps = [
        {"id": "fork", "type": "parallel_split"},
        form("ask", assignee=FINANCE),
        {"id": "paid", "type": "wait", "key": "paid"},
        {"id": "join", "type": "parallel_join", "mode": "any"},
        END,
    ]
    ways = [*arrows("fork", "ask"), *arrows("fork", "paid"), *arrows("ask", "join", event="sent")]
    await publish_steps(database, "race", steps, [*ways, *arrows("paid", "join"), *arrows("join", "end")])
    await runtime.org(ORG, ANN).instances.start("race")
    await runtime.org(ORG).events.emit("paid")
    with database.observe(counter := StatementCounter()):
        await drain(runtime)
    assert not [text for text in counter.statements if "FROM assent.workflow_forms" in text]
    assert ((await the_form(database))["status"], set((await seats(database)).values())) == (
        "cancelled",
        {"closed"},
    )


async def test_another_orgs_and_another_partitions_form_is_not_there(
    runtime: Runtime, database: Database
) -> None:
    await publish_form(database)
    view = await runtime.org(ORG, ANN, partition_id="north").instances.start("intake")
    step = step_of(view)
    assert (await runtime.org(ORG, partition_id="north").forms.get(step)).asked == ("ann",)
    for refused in (
        runtime.org("other", ANN).forms.claim(step),
        runtime.org(ORG, ANN, partition_id="south").forms.claim(step),
        runtime.org(ORG, ANN, partition_id="south").forms.save_draft(step, {}),
        runtime.org(ORG, partition_id="south").forms.get(step),
        runtime.org(ORG, ANN).forms.release(UUID(int=7)),
    ):
        with pytest.raises(Refused, match="NOT_FOUND"):
            await refused


async def test_forms_are_in_the_inbox_beside_approvals(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    await found_acme_with_invoices(database, patch_of(LOOK))
    view = await submit_invoice(runtime)
    await runtime.org(ORG, FAY).forms.claim(step_of(view))
    async with database.transaction(ORG) as connection:
        page = await read_inbox(connection, ORG, "fin", InboxQuery(kind="form"), clock.now())
        assert not isinstance(page, Rejection)
        (item,) = page.items
        assert (item.kind, item.bucket, item.request_id, item.node_name) == (
            "form",
            "roles",
            step_of(view),
            "look",
        )
        assert (item.title, item.figure, item.state, item.claimed_by) == ("1", 2_000_000, "submitted", "fay")
        for empty in (("fin", InboxQuery(kind="approval")), ("ann", InboxQuery())):
            nothing = await read_inbox(connection, ORG, *empty, clock.now())
            assert not isinstance(nothing, Rejection)
            assert nothing.items == ()


async def test_whoever_wrote_the_entity_and_fills_in_the_form_sees_it_too(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Nobody is too close to a form: the author is asked as good as any other."""
    await found_acme_with_invoices(database, patch_of({**LOOK, "assignee": {"user": "ann"}}))
    view = await submit_invoice(runtime)
    async with database.transaction(ORG) as connection:
        page = await read_inbox(connection, ORG, "ann", InboxQuery(), clock.now())
    assert not isinstance(page, Rejection)
    assert [(item.kind, item.bucket) for item in page.items] == [("form", "mine")]
    assert [w.asked for w in view.waiting] == [("ann",)]


async def test_a_large_wave_of_forms_takes_as_many_statements_as_a_small_one(
    runtime: Runtime, database: Database
) -> None:
    await publish_form(database, assignee=FINANCE, form=FIELDS, notify="email")
    counts = []
    for size in (1, 2, 200):
        await runtime.org(ORG, ANN).instances.start_many("intake", [{} for _ in range(size)])
        with database.observe(counter := StatementCounter()):
            assert await EventProcessor(runtime.core).process_events(400) == size
        counts.append(len(counter))
    assert counts[1] == counts[2]
    assert len(await rows(database, "workflow_forms")) == 203


async def test_a_workflow_without_forms_pays_nothing_for_them(runtime: Runtime, database: Database) -> None:
    await found_acme(database)
    ends = [{"id": name, "type": "terminal"} for name in ("approved", "rejected")]
    ways = [{"from": "ask", "event": end["id"], "to": end["id"]} for end in ends]
    await publish_steps(
        database, "asks", [{"id": "ask", "type": "approval", "assignee": FINANCE}, *ends], ways
    )
    with database.observe(counter := StatementCounter()):
        view = await runtime.org(ORG, ANN).instances.start("asks")
        await runtime.org(ORG, FIN).instances.advance(view.id, "approved")
    reading = [text for text in counter.statements if not text.startswith("/* find_instances */")]
    assert not [text for text in reading if "workflow_forms" in text]


async def test_a_form_that_somebody_claims_meanwhile_is_not_taken_from_them(
    runtime: Runtime, database: Database
) -> None:
    """Two people claim at once: one has it, the other is told whose it is."""
    view = await started(runtime, database, assignee=FINANCE)
    step = step_of(view)
    answers = await asyncio.gather(
        *(runtime.org(ORG, who).forms.claim(step) for who in (FIN, FAY)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert [refusal.code for refusal in refused] == ["CLAIMED"]
    assert (await the_form(database))["claimed_by"] in refused[0].rejection.message


@pytest.mark.parametrize("way", ["skip", "force_fail", "cancel"])
async def test_however_the_step_ends_the_form_ends_with_it(
    runtime: Runtime, database: Database, way: str
) -> None:
    view = await started(runtime, database, assignee=FINANCE)
    admin = actor("eve", "*")
    if way == "skip":
        (arrow,) = await _arrows_of(runtime, view)
        await runtime.org(ORG, admin).instances.skip(view.id, "ask", arrow, "nobody is there")
    else:
        await getattr(runtime.org(ORG, admin).instances, way)(view.id, "nobody is there")
    found = await the_form(database)
    assert (found["status"], found["reason"]) == ("cancelled", "nobody is there")
    assert set((await seats(database)).values()) == {"closed"}


async def _arrows_of(runtime: Runtime, view: InstanceView) -> list[str]:
    async with runtime.database.transaction(ORG) as connection:
        job = await runtime.core.advancing.loader.look(
            connection, BatchItem(ORG, view.id), runtime.database.clock.now()
        )
    assert job is not None
    return [edge.id for edge in job.run.plan.nodes["ask"].everything]


async def test_a_paused_instance_keeps_its_form_and_says_who_is_asked(
    runtime: Runtime, database: Database
) -> None:
    view = await started(runtime, database, assignee=FINANCE)
    paused = await runtime.org(ORG, actor("eve", "*")).instances.pause(view.id)
    assert [waiting.asked for waiting in paused.waiting] == [("fay", "fin")]
    with pytest.raises(Refused, match="WORKFLOW_NOT_ACTIVE"):
        await send(runtime, view, FIN)
    await runtime.org(ORG, actor("eve", "*")).instances.resume(view.id)
    assert (await send(runtime, view, FIN)).status == "completed"


GUIDE = (Path(__file__).parents[2] / "docs" / "forms.md").read_text()


async def test_the_guides_flow_runs_as_written(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    (source,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    flow = yaml.safe_load(source)
    await found_acme(database, {"cal": ["purchasing"], "dee": ["purchasing"]})
    await publish_steps(database, flow.pop("flow"), flow.pop("steps"), flow.pop("transitions"), **flow)
    cal = Actor("cal", roles=frozenset({"purchasing"}))
    view = await runtime.org(ORG, ANN).instances.start("vendors.intake")
    assert (await runtime.org(ORG).forms.get(step_of(view))).answers == ("declined", "submitted")
    answered = {"name": "Acme", "currency": "EUR"}
    done = await runtime.org(ORG, cal).instances.advance(view.id, "submitted", answered, step="details")
    assert (done.status, done.context) == ("completed", answered)
    await runtime.org(ORG, ANN).instances.start("vendors.intake")
    clock.advance("14d")
    await Timers(WorkerContext(database)).run_once()
    await drain(runtime)
    assert sorted(row["reason"] for row in await rows(database, "workflow_forms")) == ["submitted", "timeout"]


def test_what_the_guide_names_is_there() -> None:
    assert f"{DRAFT_BYTES_MAX:,} bytes" in GUIDE
    assert f"`{REASSIGN_FORM}`" in GUIDE
    assert set(re.findall(r"acme\.forms\.(\w+)\(", GUIDE)) <= set(dir(FormCommands))
    assert set(re.findall(r"acme\.instances\.(\w+)\(", GUIDE)) <= set(dir(InstanceCommands))
    source = "".join(path.read_text() for path in (Path(__file__).parents[2] / "src/assent").rglob("*.py"))
    codes = set(re.findall(r"`([A-Z][A-Z_]{5,})`", GUIDE)) - {"SYSTEM"}
    assert codes
    assert {code for code in codes if f'"{code}"' not in source} == set()
