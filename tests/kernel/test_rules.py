"""An org's rules: they deny, set or emit around an action, and leave evidence each time they are asked."""

from typing import Any

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.kernel.rules import save_rule
from assent.model.actor import SYSTEM
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid
from assent.store.database import Database
from tests.kernel.commands import command, counts, create_expense
from tests.world import MAX, insert_org, rows


def rule(**changes: Any) -> dict[str, Any]:
    return {
        "name": "limit",
        "entity_type": "expense",
        "action": "update",
        "timing": "before",
        "condition": "entity.total > org.limit",
        "outcome": "deny",
        "then": {"message": "{entity.total} is over the limit of {org.limit}"},
        **changes,
    }


async def keep(kernel: Kernel, **changes: Any) -> None:
    async with kernel.database.transaction("acme") as connection:
        await save_rule(connection, kernel.registry, "acme", rule(**changes), kernel.database.clock.now())


@pytest.fixture(autouse=True)
async def org(database: Database) -> None:
    async with database.transaction(None) as connection:
        await insert_org(connection, settings={"limit": 5000})


async def test_a_denying_rule_refuses_and_its_evidence_stays(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    await keep(kernel)
    before = await counts(database)
    with pytest.raises(Refused) as caught:
        await kernel.mutate(command("expense.update", entity=entity, payload={"total": 6000}, trace_id="t"))
    assert str(caught.value) == "RULE_DENIED at rules.limit: 6000 is over the limit of 5000"
    assert await counts(database) == before | {"workflow_rule_evaluations": 1}
    (evidence,) = await rows(database, "workflow_rule_evaluations")
    assert evidence == evidence | {
        "rule_name": "limit",
        "timing": "before",
        "action": "expense.update",
        "entity_id": entity.id,
        "entity_version": 1,
        "expression": "entity.total > org.limit",
        "variables": {"entity.total": 6000, "org.limit": 5000},
        "result": True,
        "outcome": "deny",
        "actor_id": "ann",
        "trace_id": "t",
    }


async def test_a_rule_that_does_not_apply_leaves_evidence_too(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    await keep(kernel)
    await kernel.mutate(command("expense.update", entity=entity, payload={"total": 4000}))
    (evidence,) = await rows(database, "workflow_rule_evaluations")
    assert (evidence["result"], evidence["outcome"]) == (False, None)


@pytest.mark.parametrize(
    ("condition", "denies"),
    [
        ("entity.total > org.budget", True),
        ("entity.note in org.blocked || entity.total > 5000000", True),
        ("entity.total > org.budgets[entity.note]", True),
        ({"field": "entity.total", "op": ">", "value": {"field": "org.budget"}}, True),
        ("entity.total > 900000 && entity.total > org.budget", False),  # it is not read
        ("org.budget != null && entity.total > org.budget", False),  # its absence is thought of
        ("org.budget == null && entity.total > 900000", False),
        ("entity.total > org.limit", False),
    ],
)
async def test_a_denying_rule_whose_setting_is_missing_denies(
    kernel: Kernel, database: Database, condition: Any, denies: bool
) -> None:
    entity = await create_expense(kernel)
    await keep(kernel, condition=condition)
    (outcome,) = await kernel.mutate_many([command("expense.update", entity=entity, payload={"total": 4000})])
    (evidence,) = await rows(database, "workflow_rule_evaluations")
    assert isinstance(outcome, Rejection) is denies
    assert (evidence["result"], evidence["outcome"]) == (denies, "deny" if denies else None)
    if isinstance(outcome, Rejection):
        assert (outcome.code, outcome.path) == ("RULE_DENIED", ("rules", "limit"))
        assert "`org.b" in outcome.message


@pytest.mark.parametrize("outcome", ["set", "emit"])
async def test_a_missing_setting_makes_no_other_rule_apply(kernel: Kernel, outcome: str) -> None:
    entity = await create_expense(kernel)
    then = {"set": {"note": "'large'"}, "emit": {"key": "large"}}[outcome]
    await keep(kernel, condition="entity.total > org.budget", outcome=outcome, then=then)
    changed = await kernel.mutate(command("expense.update", entity=entity, payload={"total": 4000}))
    assert changed.entity.data.get("note") is None


async def test_a_condition_may_be_json(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    await keep(kernel, condition={"field": "entity.total", "op": ">", "value": 5000})
    outcomes = await kernel.mutate_many(
        [command("expense.update", entity=entity, payload={"total": total}) for total in (5001, 5000)]
    )
    assert [isinstance(outcome, Rejection) for outcome in outcomes] == [True, False]


async def test_rules_before_see_the_entity_as_it_is_asked_to_be_on_create(kernel: Kernel) -> None:
    await keep(kernel, action="create")
    with pytest.raises(Refused, match="RULE_DENIED"):
        await create_expense(kernel, total=5001)


async def test_a_setting_rule_wins_over_the_payload(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    await keep(kernel, condition="entity.total > 100", outcome="set", then={"note": "'large'"})
    outcome = await kernel.mutate(
        command("expense.update", entity=entity, payload={"total": 200, "note": "small"})
    )
    assert (outcome.entity.data["note"], outcome.entity.version) == ("large", 2)


async def test_rules_after_see_what_an_action_made(app: App, kernel: Kernel) -> None:
    @app.action("expense.double")
    def double(entity: Any, payload: Any) -> dict[str, Any]:
        return {"total": entity.data["total"] * 2}

    entity = await create_expense(kernel, total=3000)
    await keep(kernel, action="*", timing="after", outcome="set", then={"note": "'over'"})
    outcome = await kernel.mutate(command("expense.double", SYSTEM, entity))
    assert (outcome.entity.data, outcome.entity.version) == (
        {"title": "Taxi", "total": 6000, "note": "over"},
        2,
    )


async def test_an_action_sees_what_a_rule_before_it_has_set(app: App, kernel: Kernel) -> None:
    @app.action("expense.shout")
    def shout(entity: Any, payload: Any) -> dict[str, Any]:
        return {"title": entity.data["note"].upper()}

    entity = await create_expense(kernel)
    await keep(kernel, action="shout", condition="true", outcome="set", then={"note": "'psst'"})
    outcome = await kernel.mutate(command("expense.shout", SYSTEM, entity))
    assert (outcome.entity.data["title"], outcome.entity.data["note"]) == ("PSST", "psst")


async def test_a_denial_after_an_async_action_undoes_what_it_wrote(
    app: App, kernel: Kernel, database: Database
) -> None:
    @app.action("expense.raise_it")
    async def raise_it(connection: Any, entity: Any, payload: Any) -> dict[str, Any]:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name) VALUES ('acme', 'gone', 'x')"
        )
        return {"total": 9000}

    entity = await create_expense(kernel)
    await keep(kernel, action="raise_it", timing="after")
    with pytest.raises(Refused, match="RULE_DENIED"):
        await kernel.mutate(command("expense.raise_it", SYSTEM, entity))
    assert await rows(database, "members") == []
    assert len(await rows(database, "workflow_rule_evaluations")) == 1


async def test_an_emitting_rule_puts_its_event_into_the_outbox(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    then = {"key": "expense:large:{entity.title}", "payload": {"total": "{entity.total}"}}
    await keep(kernel, outcome="emit", then=then)
    await kernel.mutate(command("expense.update", entity=entity, payload={"total": 6000}))
    (event,) = await rows(database, "workflow_events_outbox")
    (evidence,) = await rows(database, "workflow_rule_evaluations")
    assert (event["event_type"], event["instance_id"]) == ("on_event", None)
    assert event["payload_json"] == {
        "cause": str(evidence["id"]),
        "rule": "limit",
        "people": ["ann"],
        "key": "expense:large:Taxi",
        "data": {"total": 6000},
    }


async def test_rules_apply_in_the_order_of_their_priority(kernel: Kernel) -> None:
    entity = await create_expense(kernel)
    await keep(kernel, name="a", priority=2, condition="true", outcome="set", then={"note": "'second'"})
    await keep(kernel, name="b", priority=1, condition="true", outcome="set", then={"note": "'first'"})
    outcome = await kernel.mutate(command("expense.update", entity=entity, payload={"total": 1}))
    assert outcome.entity.data["note"] == "second"


async def test_a_rule_that_sets_cannot_edit_behind_a_lock(kernel: Kernel) -> None:
    entity = (await kernel.mutate(command("expense.post", MAX, await create_expense(kernel)))).entity
    await keep(kernel, action="void", condition="true", outcome="set", then={"note": "'void'"})
    with pytest.raises(Refused, match="WORKFLOW_EDIT_LOCKED"):
        await kernel.mutate(command("expense.void", MAX, entity))


async def test_a_disabled_rule_is_not_asked(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    await keep(kernel, enabled=False)
    await kernel.mutate(command("expense.update", entity=entity, payload={"total": 6000}))
    assert await rows(database, "workflow_rule_evaluations") == []


async def test_a_broken_rule_refuses_instead_of_letting_pass(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    await keep(kernel)
    async with database.transaction(None) as connection:
        await connection.execute(
            """UPDATE assent.workflow_rules SET condition = '"entity.gone > 1"' WHERE org_id = 'acme'"""
        )
    with pytest.raises(Refused, match=r"RULE_BROKEN at rules\.limit"):
        await kernel.mutate(command("expense.update", entity=entity, payload={"total": 1}))


async def test_an_edit_that_changes_nothing_leaves_no_evidence(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    await keep(kernel)
    await kernel.mutate(command("expense.update", entity=entity, payload={"total": 1000}))
    assert await rows(database, "workflow_rule_evaluations") == []


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"condition": "entity.totl > 1"}, "UNKNOWN_VARIABLE", "condition"),
        ({"condition": "entity.total >"}, "EXPRESSION_SYNTAX", "condition"),
        ({"then": {}}, "MISSING_KEY", "outcome.message"),
        ({"then": {"message": "x", "mesage": "y"}}, "UNKNOWN_KEY", "outcome.mesage"),
        ({"outcome": "set", "then": {"gone": "1"}}, "UNKNOWN_KEY", "outcome.gone"),
        ({"entity_type": "ship"}, "UNKNOWN_ENTITY_TYPE", "entity_type"),
        ({"action": "sail"}, "UNKNOWN_ACTION", "action"),
        ({"timing": "during"}, "BAD_VALUE", "timing"),
    ],
)
async def test_a_rule_that_could_not_be_applied_is_not_kept(
    kernel: Kernel, database: Database, changes: dict[str, Any], code: str, where: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await keep(kernel, **changes)
    assert (code, where) in [(problem.code, problem.where) for problem in caught.value.problems]
    assert await rows(database, "workflow_rules") == []


async def test_another_orgs_rules_are_not_asked(kernel: Kernel, database: Database) -> None:
    await keep(kernel)
    made = await kernel.mutate(command("expense.create", org_id="other", payload={"title": "x", "total": 1}))
    changed = await kernel.mutate(
        command("expense.update", entity=made.entity, org_id="other", payload={"total": 9000})
    )
    assert changed.changed


async def test_a_time_in_an_emitted_payload_is_text(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    then = {"key": "seen", "payload": {"at": "{now}"}}
    await keep(kernel, condition="true", outcome="emit", then=then)
    await kernel.mutate(command("expense.update", entity=entity, payload={"total": 1}))
    (event,) = await rows(database, "workflow_events_outbox")
    assert event["payload_json"]["data"] == {"at": database.clock.now().isoformat()}


async def test_a_rule_that_costs_too_much_lets_nothing_through(kernel: Kernel, database: Database) -> None:
    entity = await create_expense(kernel)
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.orgs SET settings = $1 WHERE org_id = 'acme'", {"vendors": ["v"] * 2_000}
        )
    await keep(kernel, condition="any(org.vendors, any(org.vendors, item == entity.title))")
    before = await counts(database)
    with pytest.raises(Invalid) as caught:
        await kernel.mutate(command("expense.update", entity=entity, payload={"total": 6000}))
    assert caught.value.problems[0].code == "EXPRESSION_TOO_COSTLY"
    assert await counts(database) == before
