"""Nobody publishes a definition that does more than they could do themselves, or were trusted to publish."""

from typing import Any

import pytest

from assent.app import App
from assent.definitions import archive, publish_contract, publish_flow, publish_patch, rollback
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused
from assent.store.database import Database
from tests.authored import DESIGN, END, data_of
from tests.world import ORG, rows

PUBLISH = "definitions:publish"
WAIVE = "workflow:publish:waive_approval"
NO = {"id": "no", "type": "terminal"}
MANAGERS = {"role": "manager"}


def flow(*steps: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """A flow of steps one after the other."""
    arrows, ends = [], [END]
    for step, following in zip(steps, [*steps[1:], END], strict=True):
        arrows.append({"from": step["id"], "to": following["id"]})
        if step["type"] == "approval":
            arrows.append({"from": step["id"], "event": "rejected", "to": "no"})
            ends = [END, NO]
    return {
        "flow": "tried",
        "version": 1,
        "start": steps[0]["id"],
        "steps": [*steps, *ends],
        "transitions": arrows,
        **rest,
    }


def ask(**rest: Any) -> dict[str, Any]:
    return {"id": "ask", "type": "approval", "assignee": MANAGERS} | rest


PAY = {"id": "pay", "type": "system", "operation": {"sdk": "payroll.reimburse"}, "input": {"amount": 1}}
CALL = {"id": "call", "type": "system", "operation": {"openapi": "billing.createInvoice"}}
REPORT = {"id": "report", "type": "task", "task": "report.build", "input": {"month": '"May"'}}
OWN_GROUPS = {
    "finance": {"approvers": {"role": "finance"}},
    "boss": {"approvers": {"user": "eve"}},
}
TIERS = [{"up_to": 10, "approvers": {"user": "eve"}}, {"approvers": MANAGERS}]

USES = {
    "operation": (
        flow(PAY),
        "operation:payroll.reimburse:use",
        "`pay` calls the operation payroll.reimburse",
    ),
    "service": (flow(CALL), "service:billing:use", "`call` calls the service billing"),
    "event": (
        flow({"id": "paid", "type": "emit", "key": "order:paid"}),
        "events:emit",
        "`paid` emits events under the key order:paid",
    ),
    "task": (flow(REPORT), "tasks:submit", "`report` submits the task report.build"),
    "as the system": (
        flow({**REPORT, "run_as": "system"}),
        "workflow:publish:run_as_system",
        "`report` acts as system",
    ),
    "approved by default": (
        flow(ask(timeout="1s", default="approved")),
        WAIVE,
        "`ask` counts as approved when no approver answers",
    ),
    "originator approves": (
        flow(ask(), separation={"originator": "allowed"}),
        WAIVE,
        "`ask` lets one person do duties that are kept apart",
    ),
    "one approves twice": (
        flow(ask(), separation={"twice": "allowed"}),
        WAIVE,
        "`ask` lets one person do duties that are kept apart",
    ),
    "approver is the publisher": (flow(ask(assignee={"user": "eve"})), WAIVE, "eve, who publishes it, alone"),
    "rule computes the publisher": (flow(ask(assignee={"rule": "concat('e', 've')"})), WAIVE, "alone"),
    "script computes the publisher": (
        flow(
            {"id": "who", "type": "script", "set": {"boss": "replace('xve', 'x', 'e')"}},
            ask(assignee={"rule": "workflow.boss"}),
        ),
        WAIVE,
        "alone",
    ),
    "rule names the publisher": (flow(ask(assignee={"rule": '["eve"]'})), WAIVE, "alone"),
    "variable names the publisher": (
        flow(
            {"id": "who", "type": "script", "set": {"boss": '"eve"'}}, ask(assignee={"rule": "workflow.boss"})
        ),
        WAIVE,
        "alone",
    ),
    "publisher is enough": (
        flow({"id": "ask", "type": "approval", "groups": OWN_GROUPS, "enough": "finance || boss"}),
        WAIVE,
        "alone",
    ),
    "publisher is a tier": (
        flow({"id": "ask", "type": "approval", "tiers": TIERS, "amount": "workflow.amount"}),
        WAIVE,
        "alone",
    ),
    "escalated to the publisher": (
        flow(ask(escalate={"after": "1m", "to": {"user": "eve"}})),
        WAIVE,
        "alone",
    ),
}


def eve(*held: str, **rest: Any) -> Actor:
    return Actor("eve", capabilities=frozenset({PUBLISH, *held}), **rest)


async def attempt(database: Database, source: dict[str, Any], actor: Actor, **more: Any) -> None:
    async with database.transaction(ORG) as connection:
        await publish_flow(connection, ORG, source, actor, database.clock.now(), **more)


@pytest.mark.parametrize("use", USES)
async def test_publishing_takes_the_capability_for_what_a_step_uses(database: Database, use: str) -> None:
    source, capability, why = USES[use]
    also = ["tasks:submit"] if capability == "workflow:publish:run_as_system" else []
    with pytest.raises(Refused) as refused:
        await attempt(database, source, eve(*also))
    assert refused.value.code == "POLICY_DENIED"
    assert why in refused.value.rejection.message
    assert capability in refused.value.rejection.message
    assert await rows(database, "workflow_definitions") == []
    await attempt(database, source, eve(capability, *also))
    assert len(await rows(database, "workflow_definitions")) == 1


@pytest.mark.parametrize(
    "source",
    [
        flow(ask()),
        flow(ask(timeout="1h", default="rejected")),
        flow(ask(assignee={"user": "bea"})),
        flow({"id": "ask", "type": "approval", "groups": OWN_GROUPS, "enough": "finance && boss"}),
        flow({"id": "ask", "type": "approval", "groups": OWN_GROUPS}),
        flow(ask(), separation={"originator": "refused", "twice": "refused"}),
        flow({"id": "tell", "type": "webhook_out", "url": "https://erp.example/x"}),
    ],
)
async def test_publishing_what_weakens_nothing_takes_nothing_more(
    database: Database, source: dict[str, Any]
) -> None:
    await attempt(database, source, eve())


async def test_refusal_names_everything_that_is_missing_and_where(database: Database) -> None:
    with pytest.raises(Refused) as refused:
        await attempt(database, flow(PAY, CALL, ask(timeout="1s", default="approved")), eve("service:*"))
    found = refused.value.rejection
    assert [problem.message for problem in found.problems] == [
        "`ask` counts as approved when no approver answers, which takes workflow:publish:waive_approval",
        "`pay` calls the operation payroll.reimburse, which takes operation:payroll.reimburse:use",
    ]
    assert {problem.code for problem in found.problems} == {"CAPABILITY_MISSING"}
    assert all(problem.message in found.message for problem in found.problems)


async def test_application_names_the_capability_of_what_it_registers(database: Database) -> None:
    app = App()

    @app.operation("payroll.reimburse", capability="payroll:pay")
    def reimburse(_: Any, arguments: Any) -> None: ...

    @app.task("report.build", capability="reports:build")
    async def build(month: str) -> None: ...

    source = flow(PAY, REPORT)
    able = {"capabilities": app.capabilities}
    with pytest.raises(Refused) as refused:
        await attempt(database, source, eve("operation:*", "tasks:submit"), **able)
    assert "payroll:pay" in refused.value.rejection.message
    assert "reports:build" in refused.value.rejection.message
    await attempt(database, source, eve("payroll:pay", "reports:build"), **able)


ROBOT = flow({**REPORT, "run_as": "service_account", "service_account": "robot"})
LENDS = ("tasks:submit", "workflow:publish:run_as_service_account")


async def _robot(database: Database, *, active: bool = True, kind: str = "service_account") -> None:
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, kind, roles, active)"
            " VALUES ($1, 'robot', 'Robot', $2, '{ledger,plain}', $3)",
            ORG,
            kind,
            active,
        )
        await connection.execute(
            "INSERT INTO assent.role_capabilities VALUES ($1, 'ledger', 'ledger:post'), ($1, 'other', 'x:y'),"
            " ('globex', 'plain', 'z:z')",
            ORG,
        )


async def test_lending_a_service_account_takes_what_the_account_holds(database: Database) -> None:
    await _robot(database)
    with pytest.raises(Refused) as refused:
        await attempt(database, ROBOT, eve(*LENDS, roles=frozenset({"plain"})))
    assert "`report` acts as the service account robot, which holds the capability ledger:post" in (
        refused.value.rejection.message
    )
    assert "x:y" not in refused.value.rejection.message
    assert "z:z" not in refused.value.rejection.message
    with pytest.raises(Refused, match="which holds the role plain"):
        await attempt(database, ROBOT, eve(*LENDS, "ledger:post", roles=frozenset({"ledger"})))
    await attempt(database, ROBOT, eve(*LENDS, "ledger:post", roles=frozenset({"ledger", "plain"})))


async def test_whoever_holds_everything_lends_any_account(database: Database) -> None:
    await _robot(database)
    await attempt(database, ROBOT, eve("*"))


@pytest.mark.parametrize("robot", [None, {"active": False}, {"kind": "user"}])
async def test_account_that_is_none_cannot_be_lent(database: Database, robot: dict[str, Any] | None) -> None:
    """Else it could be given rights later, by somebody who does not know that it is lent."""
    if robot is not None:
        await _robot(database, **robot)
    with pytest.raises(Refused, match="robot, which is no active service account"):
        await attempt(database, ROBOT, eve(*LENDS, "ledger:post", roles=frozenset({"ledger", "plain"})))


WAIVING = {
    "patch": "invoice",
    "base": {"entity_type": "invoice", "envelope_version": 1},
    "slots": {
        "slot:submitted_to_approved": {
            "nodes": [{"id": "wave", "type": "script", "set": {"ok": True}, "waives_approval": True}],
            "edges": [{"from": "in", "to": "wave"}, {"from": "wave", "to": "out"}],
        }
    },
}


async def _contract(database: Database) -> None:
    async with database.transaction(None) as connection:
        contract = data_of(DESIGN / "invoice.contract.yaml")
        await publish_contract(connection, contract, SYSTEM, database.clock.now())


async def test_patch_that_waives_approval_takes_the_capability_to_waive(database: Database) -> None:
    await _contract(database)
    async with database.transaction(ORG) as connection:
        with pytest.raises(Refused, match="`wave` waives the approval that the contract requires"):
            await publish_patch(connection, ORG, WAIVING, eve(), database.clock.now())
        await publish_patch(connection, ORG, WAIVING, eve(WAIVE), database.clock.now())


async def test_bringing_a_version_back_takes_what_publishing_it_took(database: Database) -> None:
    now = database.clock.now()
    async with database.transaction(ORG) as connection:
        first = await publish_flow(connection, ORG, flow(PAY), SYSTEM, now)
        await publish_flow(connection, ORG, flow(ask(), version=2), SYSTEM, now)
        with pytest.raises(Refused, match=r"operation:payroll\.reimburse:use"):
            await rollback(connection, ORG, first.source.id, eve(), now)
        await archive(connection, ORG, first.source.id, eve(), now)
