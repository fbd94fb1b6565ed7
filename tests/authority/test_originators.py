"""Nobody approves their own work: every shape of work, whatever lies between, by every route."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import asyncpg
import pytest

from assent.approvals import InboxQuery, NewDelegation, delegate, read_inbox
from assent.model.mutation import Refused, Rejection
from assent.testing.sandbox import ORG
from tests.authority.world import (
    BETWEENS,
    SHAPES,
    Between,
    Company,
    company_with,
    edit_bill,
    new_bill,
    patch_with,
    submit,
)

Route = Callable[[Company], Awaitable[Any]]
REFUSALS: Final = {
    "SEPARATION_OF_DUTIES",
    "POLICY_DENIED",
    "WORKFLOW_REQUIRED",
    "INVALID_TRANSITION",
    "APPROVAL_CANNOT_BE_SKIPPED",
    "NOT_ASKED",
}


async def decide(company: Company) -> None:
    request = await company.open_request()
    await company.runtime.decide(ORG, request["id"], "approved", await company.actor("dual"))


async def claim(company: Company) -> None:
    request = await company.open_request()
    await company.runtime.claim(ORG, request["id"], await company.actor("dual"))


async def advance(company: Company) -> None:
    await company.runtime.advance(ORG, company.instance_id, "approved", await company.actor("dual"))


async def transition(company: Company) -> None:
    if company.entity_id is None:
        raise Refused(Rejection("INVALID_TRANSITION", "a flow has no entity"))
    await company.runtime.transition(ORG, company.entity_id, "approve", await company.actor("dual"))


async def stand_in(company: Company) -> None:
    """As the delegate of the other approver."""
    fin, now = await company.actor("fin"), company.sandbox.clock.now()
    async with company.sandbox.database.transaction(ORG) as connection:
        kept = await delegate(
            connection, company.runtime.directory, NewDelegation(ORG, "fin", "dual"), fin, now
        )
    if isinstance(kept, Rejection):
        raise Refused(kept)
    request, dual = await company.open_request(), await company.actor("dual")
    await company.runtime.decide(ORG, request["id"], "approved", dual, on_behalf_of="fin")


async def take_seat_of_another(company: Company) -> None:
    request, fin = await company.open_request(), await company.actor("fin")
    await company.runtime.reassign(ORG, request["id"], fin, from_user="fin", to_user="dual")


async def be_given_a_seat_by_an_operator(company: Company) -> None:
    request, olga = await company.open_request(), await company.actor("olga")
    await company.runtime.reassign(ORG, request["id"], olga, from_user="fin", to_user="dual")


async def decide_as_group(company: Company) -> None:
    request = await company.open_request()
    dual = await company.actor("dual")
    await company.runtime.decide(ORG, request["id"], "approved", dual, group="approvers")


async def decide_after_escalation(company: Company) -> None:
    """The escalation names `dual` by name."""
    await company.sandbox.advance_time("21d")
    await decide(company)


async def decide_with_every_right(company: Company) -> None:
    request, dual = await company.open_request(), await company.actor("dual")
    every = replace(dual, capabilities=frozenset({"*"}))
    await company.runtime.decide(ORG, request["id"], "approved", every)


async def skip_it(company: Company) -> None:
    every = replace(await company.actor("dual"), capabilities=frozenset({"*"}))
    (row,) = await company.rows(
        """SELECT e.key AS id FROM assent.workflow_instances i
             JOIN assent.workflow_definitions d ON d.id = i.definition_id
            CROSS JOIN LATERAL jsonb_each(d.compiled_json -> 'edges') e
            JOIN assent.approval_requests r ON r.instance_id = i.id AND r.status = 'pending'
            WHERE i.id = $1 AND e.value ->> 'source' = r.node_id AND e.value ->> 'label' = 'approved'""",
        company.instance_id,
    )
    request = await company.open_request()
    await company.runtime.skip(ORG, company.instance_id, every, request["node_id"], row["id"], "mine")


async def by_command_line(company: Company) -> None:
    request = await company.open_request()
    url = company.sandbox.database.url
    arguments = [
        "approve",
        str(request["id"]),
        "--org",
        ORG,
        "--as",
        "dual",
        "--app",
        "tests.authority.world:app",
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "assent",
        *arguments,
        env={**os.environ, "ASSENT_DATABASE_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    if process.returncode != 0 and any(code in output for code in REFUSALS):
        raise Refused(Rejection("SEPARATION_OF_DUTIES", output))
    raise AssertionError(f"exit code {process.returncode}: {output}")


async def by_sql(company: Company) -> None:
    """A decision written by hand, as the role of our own processes."""
    request = await company.open_request()
    async with company.sandbox.database.transaction(ORG) as connection:
        seat = await connection.fetchrow(
            "SELECT id, user_id FROM assent.workflow_seats WHERE request_id = $1 LIMIT 1", request["id"]
        )
        try:
            async with connection.transaction():
                await connection.execute(
                    """INSERT INTO assent.approval_decisions
                         (org_id, id, request_id, seat_id, approver_id, on_behalf_of, decision, entity_version,
                          decided_at)
                       VALUES ($1, gen_random_uuid(), $2, $3, 'dual', nullif($4, 'dual'), 'approved', $5,
                               assent.now())""",
                    ORG,
                    request["id"],
                    seat["id"],
                    seat["user_id"],
                    request["entity_version"],
                )
        except asyncpg.PostgresError as error:
            code = "SEPARATION_OF_DUTIES" if error.sqlstate == "AS010" else "UNEXPECTED"
            raise Refused(Rejection(code, str(error))) from error


ROUTES: Final[tuple[Route, ...]] = (
    decide,
    claim,
    advance,
    transition,
    stand_in,
    claim,
    take_seat_of_another,
    be_given_a_seat_by_an_operator,
    decide_as_group,
    decide_with_every_right,
    skip_it,
    by_sql,
    decide_after_escalation,
)


async def inbox_of(company: Company, name: str) -> list[Any]:
    async with company.sandbox.database.transaction(ORG) as connection:
        page = await read_inbox(connection, ORG, name, InboxQuery(), company.sandbox.clock.now())
    assert not isinstance(page, Rejection)
    return [item for item in page.items if item.instance_id == company.instance_id]


async def refusal_of(route: Route, company: Company) -> str | None:
    try:
        await route(company)
    except Refused as refused:
        return refused.code
    return None


async def check_that_dual_never_gets_through(company: Company) -> None:
    """Try every route; then the other approver decides, and the record shows on whose behalf it was asked."""
    request = await company.open_request()
    assert "dual" in request["originators"], "whose work it is is known"
    assert request["requested_by"] in ("ann", "dual"), "the person who asked, and no timer or operator"
    assert not await inbox_of(company, "dual"), "nothing to decide is offered"
    assert await inbox_of(company, "fin"), "the other approver is asked"
    answers = {}
    for route in ROUTES:
        answers[route.__name__] = await refusal_of(route, company)
        assert not await inbox_of(company, "dual"), route.__name__
    through = {name: code for name, code in answers.items() if code not in REFUSALS}
    assert not through, "the originator got through"
    request = await company.open_request()
    await company.runtime.decide(ORG, request["id"], "approved", await company.actor("fin"))
    await company.sandbox.drain()
    (row,) = await company.rows(
        "SELECT status FROM assent.workflow_instances WHERE id = $1", company.instance_id
    )
    assert row["status"] == "completed"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("between", BETWEENS, ids=lambda between: between.name)
async def test_originator_never_approves(shape: str, between: Between, postgres_url: str) -> None:
    work, sources = SHAPES[shape]
    async with company_with(postgres_url, *sources(between)) as company:
        await work(company, between)
        await check_that_dual_never_gets_through(company)


async def test_originator_never_approves_after_an_amendment(postgres_url: str) -> None:
    """The editor of the amended document is its originator, and so is who submits it again."""
    _, sources = SHAPES["entity"]
    async with company_with(postgres_url, *sources(BETWEENS[1])) as company:
        await new_bill(company, "ann")
        await submit(company, "ann")
        await company.sandbox.advance_time("2h")
        await edit_bill(company, "dual", total=200)
        await submit(company, "ann")
        await company.sandbox.advance_time("2h")
        await check_that_dual_never_gets_through(company)


async def test_originator_never_approves_by_command_line(postgres_url: str) -> None:
    work, sources = SHAPES["entity"]
    async with company_with(postgres_url, *sources(BETWEENS[1])) as company:
        await work(company, BETWEENS[1])
        with pytest.raises(Refused):
            await by_command_line(company)


async def test_time_approves_nothing_in_the_originators_name(postgres_url: str) -> None:
    """A default is the decision of nobody: no row says that the originator gave it."""
    ask = {
        "id": "ask",
        "type": "approval",
        "approvers": {"role": "finance"},
        "timeout": "1d",
        "default": "approved",
    }
    slot = {
        "nodes": [ask],
        "edges": [{"from": "in", "to": "ask"}, {"from": "ask", "to": "out", "on": "approved"}],
    }
    async with company_with(postgres_url, patch_with(submitted_to_approved=slot)) as company:
        await new_bill(company, "ann")
        await submit(company, "dual")
        await company.sandbox.advance_time("2d")
        assert not await company.rows("SELECT * FROM assent.approval_decisions")
        (gate,) = await company.rows(
            """SELECT actor_id, on_behalf_of FROM assent.audit_log
                WHERE entity_id = $1 AND to_state = 'active' AND from_state = 'submitted'""",
            company.entity_id,
        )
        assert (gate["actor_id"], gate["on_behalf_of"]) == ("system", ["dual"])


@pytest.mark.parametrize("shape", ["entity", "flow"])
async def test_maker_of_a_service_accounts_key_never_approves_its_work(shape: str, postgres_url: str) -> None:
    """What an account does by a key is the work of the member who made the key, also behind a wait."""
    _, sources = SHAPES[shape]
    async with company_with(postgres_url, *sources(BETWEENS[1])) as company:
        await company.sandbox.people(bot={"kind": "service_account", "roles": ["clerk"]})
        bot = replace(await company.actor("bot"), maker_id="dual")
        if shape == "entity":
            await new_bill(company, "ann")
            await company.runtime.transition(ORG, company.entity_id, "submit", bot)
        else:
            view = await company.runtime.start(ORG, "claim", await company.actor("ann"))
            company.instance_id = view.id
            await company.runtime.advance(ORG, view.id, "completed", bot, {"amount": 5})
        await company.sandbox.advance_time("2h")
        request = await company.open_request()
        assert {"bot", "dual"} <= set(request["originators"])
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"
