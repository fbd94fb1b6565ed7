"""Whose rights a step acts with: accounts, joins, delegates; `test_rights_matrix` has every wait."""

from typing import Any, Final
from uuid import UUID

import pytest

from assent.model.actor import SYSTEM
from assent.model.mutation import Command
from assent.people import NewDelegation, delegate
from assent.testing.sandbox import ORG
from tests.authority.matrix import (
    ASK_IN_SLOT,
    BETWEENS,
    WAIT,
    Between,
    MatrixCompany,
    company_with,
    flow_of,
    in_slot,
    new_bill,
    patch_with,
    submit,
)
from tests.authority.rights import BEGIN, SALARY

WRITE: Final = {
    "id": "write",
    "type": "mutation",
    "action": "salary.update",
    "entity": "workflow.target",
    "payload": {"amount": 1},
    "output": {"read": "result"},
}
TIMER: Final = next(between for between in BETWEENS if between.name == "timer")


def raising(between: Between, **write: Any) -> dict[str, Any]:
    return flow_of("raise", [BEGIN], between, [{**WRITE, **write}])


async def open_company(company: MatrixCompany) -> UUID:
    """People who may and may not change a salary, and the salary."""
    await company.sandbox.people(wim=[], hans=["hr"], bot={"kind": "service_account", "roles": ["hr"]})
    await company.sandbox.people(kim=["helper", "hr"])
    mutation = await company.runtime.core.kernel.mutate(
        Command(ORG, "salary.create", await company.actor("hans"), {"amount": 999_999})
    )
    found: UUID = mutation.entity.id
    return found


async def start(company: MatrixCompany, by: str, salary: UUID) -> None:
    view = await company.runtime.org(ORG, await company.actor(by)).instances.start(
        "raise", {"target": str(salary)}
    )
    company.instance_id = view.id


async def amount(company: MatrixCompany, salary: UUID) -> int:
    (row,) = await company.rows(
        "SELECT (data ->> 'amount')::integer AS amount FROM assent.current_entities WHERE id = $1", salary
    )
    found: int = row["amount"]
    return found


async def check_denied(company: MatrixCompany, salary: UUID) -> None:
    """Nothing is written nor read, and the operator is told why."""
    (row,) = await company.rows(
        "SELECT status, incident, context_json FROM assent.workflow_instances WHERE id = $1",
        company.instance_id,
    )
    assert (row["status"], row["incident"]["code"]) == ("paused", "POLICY_DENIED")
    assert "read" not in row["context_json"]
    assert await amount(company, salary) == 999_999


async def audit_of_write(company: MatrixCompany, salary: UUID) -> Any:
    (row,) = await company.rows(
        "SELECT * FROM assent.audit_log WHERE entity_id = $1 AND action = 'salary.update'", salary
    )
    return row


async def test_denial_takes_the_error_edge_where_there_is_one(postgres_url: str) -> None:
    flow = raising(TIMER)
    flow["steps"].append({"id": "told", "type": "terminal"})
    flow["transitions"].append({"from": "write", "event": "error", "to": "told"})
    async with company_with(postgres_url, SALARY, flow) as company:
        salary = await open_company(company)
        await start(company, "wim", salary)
        await TIMER.pass_(company)
        (row,) = await company.rows(
            "SELECT status FROM assent.workflow_instances WHERE id = $1", company.instance_id
        )
        assert (row["status"], await amount(company, salary)) == ("completed", 999_999)


@pytest.mark.parametrize("between", [BETWEENS[0], TIMER], ids=lambda between: between.name)
async def test_service_account_acts_with_its_own_rights_and_is_named(
    between: Between, postgres_url: str
) -> None:
    account = {"run_as": "service_account", "service_account": "bot"}
    async with company_with(postgres_url, SALARY, raising(between, **account)) as company:
        salary = await open_company(company)
        await start(company, "wim", salary)
        await between.pass_(company)
        assert await amount(company, salary) == 1
        row = await audit_of_write(company, salary)
        assert (row["actor_id"], row["actor_kind"]) == ("bot", "service_account")
        assert (row["on_behalf_of"], row["contributors"]) == (["wim"], ["wim", "bot"])


@pytest.mark.parametrize(
    "account",
    [
        {"kind": "service_account", "roles": ["hr"], "active": False},
        {"kind": "service_account", "roles": []},
        {"roles": ["hr"]},
        None,
    ],
    ids=["inactive", "without the role", "a person", "unknown"],
)
async def test_service_account_without_the_right_writes_nothing(account: Any, postgres_url: str) -> None:
    """A person is no service account: publishing a flow never lends a colleague's rights."""
    run_as = {"run_as": "service_account", "service_account": "other"}
    async with company_with(postgres_url, SALARY, raising(TIMER, **run_as)) as company:
        salary = await open_company(company)
        if account is not None:
            await company.sandbox.people(other=account)
        await start(company, "hans", salary)
        await TIMER.pass_(company)
        await check_denied(company, salary)


async def test_step_that_runs_as_the_system_still_names_its_person(postgres_url: str) -> None:
    async with company_with(postgres_url, SALARY, raising(TIMER, run_as="system")) as company:
        salary = await open_company(company)
        await start(company, "wim", salary)
        await TIMER.pass_(company)
        row = await audit_of_write(company, salary)
        assert (row["actor_id"], row["on_behalf_of"], row["contributors"]) == ("system", ["wim"], ["wim"])


async def test_instances_started_in_the_background_act_with_the_rights_of_who_started_them(
    postgres_url: str,
) -> None:
    async with company_with(postgres_url, SALARY, raising(BETWEENS[0])) as company:
        salary = await open_company(company)
        inputs = [{"target": str(salary)}]
        (denied,) = await company.runtime.org(ORG, await company.actor("wim")).instances.start_many(
            "raise", inputs
        )
        await company.sandbox.drain()
        company.instance_id = denied
        await check_denied(company, salary)
        await company.runtime.org(ORG, await company.actor("hans")).instances.start_many("raise", inputs)
        await company.sandbox.drain()
        row = await audit_of_write(company, salary)
        assert (row["actor_id"], row["on_behalf_of"]) == ("hans", None)


async def test_right_to_a_transition_is_asked_again_after_a_wait(postgres_url: str) -> None:
    patch = patch_with(draft_to_submit=in_slot(TIMER, ""), submitted_to_approved=ASK_IN_SLOT)
    async with company_with(postgres_url, patch) as company:
        bill = await new_bill(company, "ann")
        await submit(company, "ann")
        await company.sandbox.people(ann={"roles": ["clerk"], "active": False})
        await TIMER.pass_(company)
        (row,) = await company.rows(
            "SELECT status, incident FROM assent.workflow_instances WHERE id = $1", company.instance_id
        )
        assert (row["status"], row["incident"]["code"]) == ("paused", "POLICY_DENIED")
        (entity,) = await company.rows("SELECT state FROM assent.entities WHERE id = $1", bill.id)
        assert entity["state"] == "draft"


async def test_expressions_after_a_wait_see_the_person_and_not_the_system(postgres_url: str) -> None:
    note = {"id": "note", "type": "script", "set": {"who": "actor.id", "is_hr": "actor.roles contains 'hr'"}}
    async with company_with(postgres_url, flow_of("raise", [BEGIN], TIMER, [note])) as company:
        await company.sandbox.people(hans=["hr"])
        view = await company.runtime.org(ORG, await company.actor("hans")).instances.start("raise")
        await TIMER.pass_(company)
        (row,) = await company.rows(
            "SELECT context_json FROM assent.workflow_instances WHERE id = $1", view.id
        )
        assert (row["context_json"]["who"], row["context_json"]["is_hr"]) == ("hans", True)


async def test_application_may_start_a_flow_as_the_system(postgres_url: str) -> None:
    """The application's own code acts as the system where it says so, also after a wait."""
    async with company_with(postgres_url, SALARY, raising(TIMER)) as company:
        salary = await open_company(company)
        await company.runtime.org(ORG, SYSTEM).instances.start("raise", {"target": str(salary)})
        await TIMER.pass_(company)
        row = await audit_of_write(company, salary)
        assert (row["actor_id"], row["on_behalf_of"], row["contributors"]) == ("system", None, [])


async def test_person_who_fills_in_a_form_beside_an_open_request_leaves_it(postgres_url: str) -> None:
    """Variables are of the whole flow: who writes some while others are asked has a part in what they approve."""
    flow = {
        "flow": "beside",
        "version": 1,
        "start": "fork",
        "steps": [
            {"id": "fork", "type": "parallel_split"},
            {"id": "fill", "type": "action", "assignee": {"role": "clerk"}},
            {"id": "ask", "type": "approval", "assignee": {"role": "finance"}},
            {"id": "both", "type": "parallel_join"},
            {"id": "end", "type": "terminal"},
        ],
        "transitions": [
            {"from": "fork", "to": "fill"},
            {"from": "fork", "to": "ask"},
            {"from": "fill", "to": "both"},
            {"from": "ask", "event": "approved", "to": "both"},
            {"from": "ask", "event": "rejected", "to": "both"},
            {"from": "both", "to": "end"},
        ],
    }
    async with company_with(postgres_url, flow) as company:
        dual = await company.actor("dual")
        view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("beside")
        company.instance_id = view.id
        request = await company.open_request()
        assert request["originators"] == ["ann"]
        await company.runtime.org(ORG, dual).approvals.claim(request["id"])
        await company.runtime.org(ORG, dual).instances.advance(
            view.id, "completed", {"amount": 7}, step="fill"
        )
        request = await company.open_request()
        assert (request["originators"], request["claimed_by"]) == (["ann", "dual"], None)
        seats = await company.rows(
            "SELECT user_id, status FROM assent.workflow_seats WHERE kind = 'approval'"
        )
        assert {seat["user_id"]: seat["status"] for seat in seats} == {"dual": "closed", "fin": "open"}


@pytest.mark.parametrize("wait", ["1h"])
async def test_two_people_of_one_join_are_both_named(wait: str, postgres_url: str) -> None:
    """After a join a step acts for everybody whose branch arrived; the last who acted lends the rights."""
    flow = {
        "flow": "raise",
        "version": 1,
        "start": "fork",
        "steps": [
            {"id": "fork", "type": "parallel_split"},
            {"id": "one", "type": "action", "assignee": {"user": "wim"}},
            {"id": "two", "type": "action", "assignee": {"user": "hans"}},
            {"id": "both", "type": "parallel_join"},
            {**WAIT, "type": "wait", "for": wait},
            WRITE,
            {"id": "end", "type": "terminal"},
        ],
        "transitions": [
            {"from": "fork", "to": "one"},
            {"from": "fork", "to": "two"},
            {"from": "one", "to": "both"},
            {"from": "two", "to": "both"},
            {"from": "both", "to": "pause"},
            {"from": "pause", "to": "write"},
            {"from": "write", "to": "end"},
        ],
    }
    async with company_with(postgres_url, SALARY, flow) as company:
        salary = await open_company(company)
        await start(company, "ann", salary)
        await company.runtime.org(ORG, await company.actor("hans")).instances.advance(
            company.instance_id, "completed", {}, step="two"
        )
        await company.runtime.org(ORG, await company.actor("wim")).instances.advance(
            company.instance_id, "completed", {}, step="one"
        )
        await company.sandbox.advance_time("2h")
        await check_denied(company, salary)  # wim came last, and may not
        await company.sandbox.people(wim=["hr"])
        await company.runtime.org(ORG, await company.actor("olga")).instances.retry(company.instance_id)
        row = await audit_of_write(company, salary)
        assert (row["actor_id"], row["on_behalf_of"]) == ("olga", ["ann", "hans", "wim"])


async def test_decision_of_a_delegate_is_one_row_with_both_names_and_what_exactly(postgres_url: str) -> None:
    async with company_with(postgres_url, patch_with(submitted_to_approved=ASK_IN_SLOT)) as company:
        bill = await new_bill(company, "ann")
        await submit(company, "ann")
        await company.sandbox.people(eve=[])
        fin, now = await company.actor("fin"), company.sandbox.clock.now()
        async with company.sandbox.database.transaction(ORG) as connection:
            await delegate(
                connection, company.runtime.core.directory, NewDelegation(ORG, "fin", "eve"), fin, now
            )
        request = await company.open_request()
        await company.runtime.org(ORG, await company.actor("eve")).approvals.decide(request["id"], "approved")
        (row,) = await company.rows("SELECT * FROM assent.audit_log WHERE action = 'approval.decide'")
        assert (row["actor_id"], row["on_behalf_of"], row["entity_id"]) == ("eve", ["fin"], bill.id)
        assert row["details"]["answer"] == "approved"
        assert row["details"]["entity_version"] == request["entity_version"]
        assert row["details"]["content_hash"] == bill.content_hash


async def test_retry_names_whose_work_it_set_going_again(postgres_url: str) -> None:
    retried = next(between for between in BETWEENS if between.name == "retry by an operator")
    async with company_with(postgres_url, SALARY, raising(retried)) as company:
        salary = await open_company(company)
        await start(company, "hans", salary)
        await company.sandbox.people(hans=[])
        await retried.pass_(company)  # the call succeeds now, and the write behind it is denied
        (row,) = await company.rows("SELECT * FROM assent.audit_log WHERE action = 'workflow.retry'")
        assert (row["actor_id"], row["on_behalf_of"]) == ("olga", ["hans"])
