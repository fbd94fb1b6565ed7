"""mutate: every command ends as one version with one audit row, or as one rejection and nothing written."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.model.actor import SYSTEM, Actor
from assent.model.contract import EditWindow
from assent.model.mutation import Mutation, Refused, Rejection
from assent.store.database import Database
from tests.kernel.commands import command, counts, create_expense, posted_expense, refused, start_instance
from tests.world import ANN, EVE, EXPENSE, MAX, create, rows


async def test_create_makes_version_one_with_its_audit_row(kernel: Kernel, database: Database) -> None:
    made = await kernel.mutate(
        command(
            "expense.create",
            payload={"title": "Taxi", "total": 1000},
            reason="trip to Kiel",
            place="10.0.0.7",
            channel="http",
            trace_id="t-1",
        )
    )
    (version,), (audit,) = await rows(database, "entity_versions"), await rows(database, "audit_log")
    assert (version["version"], version["data"]) == (1, {"title": "Taxi", "total": 1000})
    assert version["id"] == made.entity.version_id
    assert audit["id"] == made.audit_id
    assert audit == audit | {
        "actor_id": "ann",
        "actor_kind": "user",
        "actor_roles": ["clerk"],
        "action": "expense.create",
        "entity_id": made.entity.id,
        "from_version": None,
        "to_version": 1,
        "to_state": "draft",
        "changes": {"title": [None, "Taxi"], "total": [None, 1000]},
        "reason": "trip to Kiel",
        "place": "10.0.0.7",
        "channel": "http",
        "trace_id": "t-1",
        "at": database.clock.now(),
    }


async def test_update_makes_the_next_version_and_keeps_the_old_one(
    kernel: Kernel, database: Database
) -> None:
    entity = await create_expense(kernel)
    changed = await kernel.mutate(command("expense.update", entity=entity, payload={"total": 1200}))
    assert (changed.entity.version, changed.entity.data["total"]) == (2, 1200)
    versions = {row["version"]: row["data"]["total"] for row in await rows(database, "entity_versions")}
    assert versions == {1: 1000, 2: 1200}


async def test_null_removes_a_field(kernel: Kernel) -> None:
    entity = await create_expense(kernel, note="late")
    changed = await kernel.mutate(command("expense.update", entity=entity, payload={"note": None}))
    assert "note" not in changed.entity.data


async def test_an_edit_that_changes_nothing_writes_nothing(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    before = await counts(database)
    outcome = await kernel.mutate(command("expense.update", entity=entity, payload={"total": 1000}))
    assert (outcome.changed, outcome.entity.version, outcome.audit_id) == (False, 1, None)
    assert await counts(database) == before


async def test_a_stale_expected_version_is_a_conflict(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    await kernel.mutate(command("expense.update", entity=entity, payload={"total": 2}, expected_version=1))
    rejection = await refused(
        kernel, "expense.update", entity=entity, payload={"total": 3}, expected_version=1
    )
    assert rejection.code == "VERSION_CONFLICT"
    assert "found version 2" in rejection.message


async def test_a_locked_entity_refuses_edits_with_no_worker_running(kernel: Kernel) -> None:
    entity = await posted_expense(kernel)
    assert entity.edit_window is EditWindow.LOCKED
    rejection = await refused(kernel, "expense.update", entity=entity, payload={"total": 1})
    assert rejection.code == "WORKFLOW_EDIT_LOCKED"


async def test_a_transition_may_leave_a_locked_state(kernel: Kernel) -> None:
    entity = await posted_expense(kernel)
    assert (await kernel.mutate(command("expense.void", MAX, entity))).entity.state == "void"


async def test_the_builtin_transition_is_the_same_as_the_transitions_own_name(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    moved = await kernel.mutate(command("expense.transition", MAX, entity, payload={"transition": "post"}))
    assert moved.entity.state == "posted"


async def test_the_builtin_transition_needs_the_right_of_that_transition(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    rejection = await refused(kernel, "expense.transition", ANN, entity, payload={"transition": "post"})
    assert rejection.code == "POLICY_DENIED"


async def test_a_transition_from_the_wrong_state_is_illegal(kernel: Kernel) -> None:
    rejection = await refused(kernel, "expense.void", MAX, await create_expense(kernel))
    assert rejection.code == "ILLEGAL_TRANSITION"
    assert "leaves from posted, found draft" in rejection.message


async def test_a_person_cannot_make_a_transition_that_a_workflow_makes(kernel: Kernel) -> None:
    rejection = await refused(kernel, "order.submit", entity=await create(kernel, "order", {"number": "1"}))
    assert rejection.code == "WORKFLOW_REQUIRED"


@pytest.mark.parametrize(
    ("action", "actor"), [("expense.create", EVE), ("expense.update", MAX), ("expense.post", ANN)]
)
async def test_nobody_does_what_is_not_granted(kernel: Kernel, action: str, actor: Actor) -> None:
    entity = None if action.endswith("create") else await create_expense(kernel)
    payload = {"title": "x", "total": 1} if action.endswith("create") else {}
    assert (await refused(kernel, action, actor, entity, payload=payload)).code == "POLICY_DENIED"


@pytest.mark.parametrize("capability", ["expense:update", "expense:*", "*"])
async def test_a_capability_grants_what_roles_do_not(kernel: Kernel, capability: str) -> None:
    entity = await create_expense(kernel)
    robot = Actor("robot", kind="service_account", capabilities=frozenset({capability}))
    outcome = await kernel.mutate(command("expense.update", robot, entity, payload={"total": 7}))
    assert outcome.changed


async def test_another_orgs_entity_is_not_found(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    rejection = await refused(kernel, "expense.update", entity=entity, org_id="other", payload={"total": 1})
    assert rejection.code == "NOT_FOUND"


async def test_another_partitions_entity_is_not_found(kernel: Kernel) -> None:
    made = await kernel.mutate(
        command("expense.create", payload={"title": "x", "total": 1}, partition_id="north")
    )
    rejection = await refused(
        kernel, "expense.update", entity=made.entity, partition_id="south", payload={"total": 2}
    )
    assert rejection.code == "NOT_FOUND"


async def test_an_entity_is_not_found_under_another_type(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    assert (await refused(kernel, "order.update", entity=entity, payload={})).code == "NOT_FOUND"


async def test_create_with_an_id_that_exists_is_refused(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    rejection = await refused(kernel, "expense.create", entity=entity, payload={"title": "x", "total": 1})
    assert rejection.code == "ALREADY_EXISTS"


async def test_a_person_cannot_write_a_system_field(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    payload = {"posted_at": "2026-01-01T00:00:00Z"}
    assert (await refused(kernel, "expense.update", entity=entity, payload=payload)).code == "SYSTEM_FIELD"
    assert (await kernel.mutate(command("expense.update", SYSTEM, entity, payload=payload))).changed


async def test_create_tells_the_instance_to_come(kernel: Kernel, database: Database) -> None:
    entity = await create(kernel, "order", {"number": "1"})
    (event,) = await rows(database, "workflow_events_outbox")
    assert entity.instance_id is not None
    assert (event["event_type"], event["instance_id"], event["status"]) == (
        "on_create",
        entity.instance_id,
        "pending",
    )
    (receipt,) = await rows(database, "workflow_outbox_receipts")
    assert receipt["event_idempotency_key"] == event["event_idempotency_key"]


async def test_an_edit_in_an_amend_only_window_forces_an_amendment_event(
    kernel: Kernel, database: Database
) -> None:
    entity = await create(kernel, "order", {"number": "1"})
    await start_instance(database, entity.id, entity.instance_id, window="amend_only")
    await kernel.mutate(command("order.update", entity=entity, payload={"total": 5}))
    events = await rows(database, "workflow_events_outbox")
    assert [event["event_type"] for event in events] == ["on_create", "on_amendment"]
    assert events[1]["entity_version"] == 2


async def test_an_amendment_of_a_locked_entity_is_a_new_entity(kernel: Kernel, database: Database) -> None:
    entity = await create(kernel, "order", {"number": "1", "total": 5})
    await start_instance(database, entity.id, entity.instance_id, window="locked")
    amended = (await kernel.mutate(command("order.amend", entity=entity, payload={"total": 6}))).entity
    assert (amended.amended_from_id, amended.state, amended.version) == (entity.id, "draft", 1)
    assert amended.data == {"number": "1", "total": 6}
    assert amended.instance_id not in (None, entity.instance_id)
    events = {event["event_type"]: event for event in await rows(database, "workflow_events_outbox")}
    superseded = events["on_superseded"]
    assert superseded["instance_id"] == entity.instance_id
    assert superseded["payload_json"]["reason"] == "amended"


async def test_what_is_not_locked_is_not_amended_but_edited(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    rejection = await refused(kernel, "expense.amend", entity=entity, payload={"total": 6})
    assert (rejection.code, rejection.hint) == ("AMEND_NOT_LOCKED", "use `expense.update`")


async def test_an_amendment_leaves_what_the_workflow_had_written(kernel: Kernel) -> None:
    made = await kernel.mutate(
        command(
            "expense.create", SYSTEM, payload={"title": "x", "total": 1, "posted_at": "2026-01-01T00:00:00Z"}
        )
    )
    posted = (await kernel.mutate(command("expense.post", MAX, made.entity))).entity
    amended = (await kernel.mutate(command("expense.amend", entity=posted, payload={"total": 2}))).entity
    assert amended.data == {"title": "x", "total": 2}


async def test_the_instances_own_write_passes_its_window_and_is_not_told_back(
    kernel: Kernel, database: Database
) -> None:
    entity = await create(kernel, "order", {"number": "1"})
    await start_instance(database, entity.id, entity.instance_id, window="locked")
    outcome = await kernel.mutate(command("order.submit", SYSTEM, entity, by_instance=entity.instance_id))
    edited = await kernel.mutate(
        command("order.update", SYSTEM, entity, by_instance=entity.instance_id, payload={"total": 9})
    )
    assert (outcome.entity.state, edited.entity.version) == ("submitted", 3)
    assert edited.entity.edit_window is EditWindow.LOCKED
    assert [event["event_type"] for event in await rows(database, "workflow_events_outbox")] == ["on_create"]


async def test_another_instances_write_is_refused(kernel: Kernel) -> None:
    entity = await create(kernel, "order", {"number": "1"})
    rejection = await refused(kernel, "order.submit", SYSTEM, entity, by_instance=UUID(int=7))
    assert rejection.code == "NOT_OWN_ENTITY"


async def test_a_pure_action_changes_what_it_returns(app: App, kernel: Kernel) -> None:
    @app.action("expense.double")
    def double(entity: Any, payload: Any) -> dict[str, Any]:
        return {"total": entity.data["total"] * 2}

    entity = await create_expense(kernel)
    outcome = await kernel.mutate(command("expense.double", SYSTEM, entity))
    assert outcome.entity.data["total"] == 2000


async def test_an_action_does_not_even_run_on_a_locked_entity(app: App, kernel: Kernel) -> None:
    ran = []

    @app.action("expense.remark")
    def remark(entity: Any, payload: Any) -> dict[str, Any]:
        ran.append(entity.id)
        return {}

    rejection = await refused(kernel, "expense.remark", SYSTEM, await posted_expense(kernel))
    assert (rejection.code, ran) == ("WORKFLOW_EDIT_LOCKED", [])


async def test_an_action_whose_result_breaks_the_contract_is_refused(
    app: App, kernel: Kernel, database: Database
) -> None:
    @app.action("expense.negate")
    def negate(entity: Any, payload: Any) -> dict[str, Any]:
        return {"total": -1, "surprise": True}

    entity = await create_expense(kernel)
    before = await counts(database)
    rejection = await refused(kernel, "expense.negate", SYSTEM, entity)
    assert {problem.code for problem in rejection.problems} == {"OUT_OF_RANGE", "UNKNOWN_FIELD"}
    assert await counts(database) == before


async def test_what_an_async_action_writes_commits_with_the_mutation(
    app: App, kernel: Kernel, database: Database
) -> None:
    @app.action("expense.remark", payload={"text": {"type": "text", "required": True}})
    async def remark(connection: Any, entity: Any, payload: Any) -> dict[str, Any]:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name) VALUES ('acme', $1, 'x')", payload["text"]
        )
        return {"note": payload["text"]}

    entity = await create_expense(kernel)
    await kernel.mutate(command("expense.remark", SYSTEM, entity, payload={"text": "kept"}))
    assert [row["user_id"] for row in await rows(database, "members")] == ["kept"]


async def test_a_refusal_undoes_what_an_async_action_wrote_and_nothing_else(
    app: App, kernel: Kernel, database: Database
) -> None:
    @app.action("expense.remark")
    async def remark(connection: Any, entity: Any, payload: Any) -> dict[str, Any]:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name) VALUES ('acme', 'gone', 'x')"
        )
        raise Refused(Rejection("NOT_TODAY", "come back tomorrow"))

    entity = await create_expense(kernel)
    outcomes = await kernel.mutate_many(
        [
            command("expense.remark", SYSTEM, entity),
            command("expense.update", entity=entity, payload={"total": 5}),
        ]
    )
    assert [getattr(outcome, "code", "done") for outcome in outcomes] == ["NOT_TODAY", "done"]
    assert await rows(database, "members") == []


async def test_many_commands_on_one_entity_are_as_many_versions(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    outcomes = await kernel.mutate_many(
        [command("expense.update", entity=entity, payload={"total": total}) for total in (1, 2, 2, 3)]
    )
    assert [outcome.entity.version for outcome in outcomes if isinstance(outcome, Mutation)] == [2, 3, 3, 4]
    assert len(await rows(database, "entity_versions")) == 4


async def test_later_commands_of_a_set_meet_what_earlier_ones_did(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    outcomes = await kernel.mutate_many(
        [
            command("expense.post", MAX, entity),
            command("expense.update", entity=entity, payload={"total": 5}),
        ]
    )
    assert [getattr(outcome, "code", "done") for outcome in outcomes] == ["done", "WORKFLOW_EDIT_LOCKED"]


async def test_a_rejected_command_does_not_hold_the_others_back(kernel: Kernel) -> None:
    entities = [await create_expense(kernel) for _ in range(3)]
    commands = [command("expense.update", entity=entity, payload={"total": 9}) for entity in entities]
    commands[1] = replace(commands[1], payload={"total": "nine"})
    outcomes = await kernel.mutate_many(commands)
    assert [isinstance(outcome, Mutation) for outcome in outcomes] == [True, False, True]


async def test_commands_of_two_orgs_are_not_one_set(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="one org"):
        await kernel.mutate_many([command("expense.create"), command("expense.create", org_id="other")])


async def test_mutate_in_the_callers_transaction_rolls_back_with_it(
    kernel: Kernel, database: Database
) -> None:
    entity = await create_expense(kernel)
    before = await counts(database)

    async def caller() -> None:
        async with database.transaction("acme") as connection:
            await kernel.mutate_in(
                connection, [command("expense.update", entity=entity, payload={"total": 5})]
            )
            raise RuntimeError("the caller changed its mind")

    with pytest.raises(RuntimeError):
        await caller()
    assert await counts(database) == before


async def test_a_worker_mutates_entities_of_several_orgs_at_once(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    other = (
        await kernel.mutate(command("expense.create", org_id="other", payload={"title": "x", "total": 1}))
    ).entity
    async with database.transaction(None) as connection:
        outcomes = await kernel.mutate_in(
            connection,
            [
                command("expense.update", SYSTEM, entity, payload={"total": 5}),
                command("expense.update", SYSTEM, other, org_id="other", payload={"total": 6}),
            ],
        )
    assert all(isinstance(outcome, Mutation) and outcome.changed for outcome in outcomes)


async def test_one_orgs_transaction_cannot_mutate_for_another(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)

    async def stranger() -> None:
        async with database.transaction("other") as connection:
            await kernel.mutate_in(
                connection, [command("expense.update", entity=entity, payload={"total": 5})]
            )

    with pytest.raises(Exception, match="acts for org 'other', not for 'acme'"):
        await stranger()


def test_a_contract_without_a_workflow_cannot_ask_for_approval() -> None:
    transitions = {"post": {"from": "draft", "to": "posted", "approval": "required"}}
    lifecycle = {**EXPENSE["lifecycle"], "transitions": transitions}
    with pytest.raises(Exception, match="NEEDS_WORKFLOW"):
        App([{**EXPENSE, "lifecycle": lifecycle}])
