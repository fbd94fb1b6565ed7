"""Nobody approves their own work: every shape of work, whatever lies between, by every route.

The matrix is the product of `SHAPES`, `MATRIX_BETWEENS` and `ROUTES`. One test stands for a shape with something
between and tries all routes in one company; `test_matrix_is_the_whole_product` says that no cell is missing.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final

import asyncpg
import pytest

from assent.model.mutation import Refused, Rejection
from assent.people import InboxQuery, NewDelegation, delegate, read_inbox
from assent.testing.sandbox import ORG
from tests.authority.matrix import (
    ASK_IN_SLOT,
    MATRIX_BETWEENS,
    SHAPES,
    Between,
    MatrixCompany,
    company_with,
    hand_in,
    in_slot,
    new_bill,
    papers,
    pass_nothing,
    patch_with,
)
from tests.cli.desk import Desk

Route = Callable[[MatrixCompany], Awaitable[Any]]
TIMER: Final = next(between for between in MATRIX_BETWEENS if between.name == "timer")


async def decide(company: MatrixCompany, **given: Any) -> None:
    request, actor = await company.open_request(), await company.actor(company.trying)
    await company.runtime.org(ORG, actor).approvals.decide(request["id"], "approved", **given)


async def claim(company: MatrixCompany) -> None:
    request = await company.open_request()
    await company.runtime.org(ORG, await company.actor(company.trying)).approvals.claim(request["id"])


async def find_in_inbox(company: MatrixCompany) -> None:
    async with company.sandbox.database.transaction(ORG) as connection:
        now = company.sandbox.clock.now()
        page = await read_inbox(connection, ORG, company.trying, InboxQuery(), now)
    require_offered(company, [str(item.instance_id) for item in page.items])


def require_offered(company: MatrixCompany, instances: list[str]) -> None:
    if str(company.instance_id) not in instances:
        raise Refused(Rejection("NOT_OFFERED", f"{company.trying} finds nothing to decide"))


async def advance(company: MatrixCompany) -> None:
    actor = await company.actor(company.trying)
    await company.runtime.org(ORG, actor).instances.advance(company.instance_id, "approved")


async def transition(company: MatrixCompany) -> None:
    """Of the entity; a flow has none, and its own id leads to nothing."""
    target, actor = company.entity_id or company.instance_id, await company.actor(company.trying)
    await company.runtime.org(ORG, actor).entities.transition(target, "approve")


async def stand_in(company: MatrixCompany) -> None:
    """As the delegate of the other approver."""
    fin, now = await company.actor("fin"), company.sandbox.clock.now()
    async with company.sandbox.database.transaction(ORG) as connection:
        wanted = NewDelegation(ORG, "fin", company.trying)
        await delegate(connection, company.runtime.core.directory, wanted, fin, now)
    await decide(company, on_behalf_of="fin")


async def be_given_a_seat_by(company: MatrixCompany, giver: str) -> None:
    request, actor = await company.open_request(), await company.actor(giver)
    await company.runtime.org(ORG, actor).approvals.reassign(
        request["id"], from_user="fin", to_user=company.trying
    )


async def be_given_a_seat_by_an_approver(company: MatrixCompany) -> None:
    await be_given_a_seat_by(company, "fin")


async def be_given_a_seat_by_an_operator(company: MatrixCompany) -> None:
    await be_given_a_seat_by(company, "olga")


async def decide_as_group(company: MatrixCompany) -> None:
    (seat, *_) = await company.rows(
        "SELECT group_name FROM assent.workflow_seats WHERE request_id = $1",
        (await company.open_request())["id"],
    )
    await decide(company, group=seat["group_name"])


async def decide_after_escalation(company: MatrixCompany) -> None:
    """The escalation names `dual` by name."""
    await company.sandbox.advance_time("21d")
    await decide(company)


async def decide_with_every_right(company: MatrixCompany) -> None:
    request, actor = await company.open_request(), await company.actor(company.trying)
    every = replace(actor, capabilities=frozenset({"*"}))
    await company.runtime.org(ORG, every).approvals.decide(request["id"], "approved")


async def skip_it(company: MatrixCompany) -> None:
    every = replace(await company.actor(company.trying), capabilities=frozenset({"*"}))
    (row,) = await company.rows(
        """SELECT e.key AS id FROM assent.workflow_instances i
             JOIN assent.workflow_definitions d ON d.id = i.definition_id
            CROSS JOIN LATERAL jsonb_each(d.compiled_json -> 'edges') e
            JOIN assent.approval_requests r ON r.instance_id = i.id AND r.status = 'pending'
            WHERE i.id = $1 AND e.value ->> 'source' = r.node_id AND e.value ->> 'label' = 'approved'""",
        company.instance_id,
    )
    request = await company.open_request()
    await company.runtime.org(ORG, every).instances.skip(
        company.instance_id, request["node_id"], row["id"], "mine"
    )


async def type_command(company: MatrixCompany, *words: object) -> Any:
    """Run a command of the command line on the same database; raise Refused with the code that it prints."""
    desk = Desk(company.sandbox.database.url, "tests.authority.matrix:app")
    result = await desk.attempt(*words, "--json", user=company.trying)
    if result.exit_code:
        refusal = json.loads(result.stderr)
        raise Refused(Rejection(refusal["code"], refusal["detail"]))
    return json.loads(result.stdout)


async def type_approve(company: MatrixCompany) -> None:
    await type_command(company, "approvals", "decide", (await company.open_request())["id"], "approved")


async def type_approve_for_another(company: MatrixCompany) -> None:
    request_id = (await company.open_request())["id"]
    await type_command(company, "approvals", "decide", request_id, "approved", "--on-behalf-of", "fin")


async def type_advance(company: MatrixCompany) -> None:
    await type_command(company, "instances", "advance", company.instance_id, "approved")


async def type_inbox(company: MatrixCompany) -> None:
    page = await type_command(company, "inbox")
    require_offered(company, [item["instance_id"] for item in page["items"]])


async def insert_decision(company: MatrixCompany) -> None:
    """A decision written by hand, as the role of our own processes."""
    request = await company.open_request()
    async with company.sandbox.database.transaction(ORG) as connection:
        seat = await connection.fetchrow(
            """SELECT id, user_id FROM assent.workflow_seats WHERE request_id = $1
                ORDER BY user_id = $2 DESC LIMIT 1""",
            request["id"],
            company.trying,
        )
        try:
            async with connection.transaction():
                await connection.execute(
                    """INSERT INTO assent.approval_decisions
                         (org_id, id, request_id, seat_id, approver_id, on_behalf_of, decision, entity_version,
                          decided_at)
                       VALUES ($1, gen_random_uuid(), $2, $3, $6, nullif($4, $6), 'approved', $5,
                               assent.now())""",
                    ORG,
                    request["id"],
                    seat["id"],
                    seat["user_id"],
                    request["entity_version"],
                    company.trying,
                )
        except asyncpg.PostgresError as error:
            raise Refused(Rejection(f"SQLSTATE {error.sqlstate}", str(error))) from error


async def let_time_decide(company: MatrixCompany) -> None:
    """The second approval is given by its default; go through if the record names the originator as its giver."""
    await refuse_or_fail(company, decide)
    await refuse_or_fail(company, find_in_inbox)
    await company.sandbox.advance_time("2d")
    givers = await company.rows(
        """SELECT approver_id FROM assent.approval_decisions WHERE $1 IN (approver_id, on_behalf_of)
            UNION ALL SELECT actor_id FROM assent.audit_log
            WHERE actor_id = $1 AND (to_state = 'active' OR action = 'approval.decide')""",
        company.trying,
    )
    if not givers:
        raise Refused(Rejection("GIVEN_BY_NOBODY", "the default is the decision of nobody"))


async def refuse_or_fail(company: MatrixCompany, route: Route) -> None:
    assert await refusal_of(route, company) is not None, route.__name__


SEPARATION: Final = {"SEPARATION_OF_DUTIES"}
ROUTES: Final[Mapping[str, Mapping[Route, set[str]]]] = {
    "decide": {decide: SEPARATION},
    "claim": {
        claim: {"POLICY_DENIED"}
    },  # no seat is theirs; behind a delegation it is the separation of duties
    "inbox": {find_in_inbox: {"NOT_OFFERED"}},
    "advance": {advance: SEPARATION},
    "transition": {transition: {"WORKFLOW_REQUIRED", "INVALID_TRANSITION", "NOT_FOUND"}},
    "delegate": {stand_in: SEPARATION, claim: SEPARATION, find_in_inbox: {"NOT_OFFERED"}},
    "reassign": {be_given_a_seat_by_an_approver: SEPARATION, be_given_a_seat_by_an_operator: SEPARATION},
    "group seat": {decide_as_group: SEPARATION},
    "admin": {decide_with_every_right: SEPARATION, skip_it: {"APPROVAL_CANNOT_BE_SKIPPED"}},
    "CLI": {
        type_approve: SEPARATION,
        type_approve_for_another: SEPARATION,
        type_advance: SEPARATION,
        type_inbox: {"NOT_OFFERED"},
    },
    "SQL": {insert_decision: {"SQLSTATE AS010"}},
    "escalation": {decide_after_escalation: SEPARATION, find_in_inbox: {"NOT_OFFERED"}},
    "default": {let_time_decide: {"GIVEN_BY_NOBODY"}},
}
"""Route → how it is tried, and with which codes it is refused. The last ones move the clock."""


async def refusal_of(route: Route, company: MatrixCompany) -> str | None:
    try:
        await route(company)
    except Refused as refused:
        return refused.code
    return None


async def attempt(company: MatrixCompany, route: str) -> dict[str, str | None]:
    """Try everything that belongs to a route; return what was not refused as it should be."""
    answers = {way: await refusal_of(way, company) for way in ROUTES[route]}
    return {
        f"{route}: {way.__name__}": code for way, code in answers.items() if code not in ROUTES[route][way]
    }


async def check_that_dual_never_gets_through(company: MatrixCompany) -> None:
    """Try every route; the other approver decides the first request, and time the second."""
    request = await company.open_request()
    assert "dual" in request["originators"], "whose work it is is known"
    assert request["requested_by"] in ("ann", "dual"), "the person who asked, and no timer or operator"
    through: dict[str, str | None] = {}
    for route in ROUTES:
        if route == "default":
            await company.runtime.org(ORG, await company.actor("fin")).approvals.decide(
                (await company.open_request())["id"], "approved"
            )
        through |= await attempt(company, route)
    assert not through, "the originator got through"
    decisions = await company.rows(
        "SELECT approver_id FROM assent.approval_decisions WHERE decision = 'approved'"
    )
    assert [row["approver_id"] for row in decisions] == ["fin"]
    (row,) = await company.rows(
        "SELECT status FROM assent.workflow_instances WHERE id = $1", company.instance_id
    )
    assert row["status"] == "completed"


CELLS: Final = tuple(product(MATRIX_BETWEENS, SHAPES))
WANTED: Final = {
    "shapes": "entity, flow, documents of a flow, entity written by a flow",
    "betweens": "nothing, timer, event, another's form, documents, task, awaited webhook, result, parallel join,"
    " amendment, retry by an operator, skip by an operator, pause and resume, crash and recovery",
    "routes": "decide, claim, inbox, advance, transition, delegate, reassign, group seat, escalation, default, admin,"
    " CLI, SQL",
}
"""What the promise names; the matrix has a cell for every combination."""


def test_matrix_is_the_whole_product() -> None:
    found = {"shapes": list(SHAPES), "betweens": [b.name for b in MATRIX_BETWEENS], "routes": list(ROUTES)}
    assert {axis: sorted(names) for axis, names in found.items()} == {
        axis: sorted(names.split(", ")) for axis, names in WANTED.items()
    }
    cells = {(shape, between.name, route) for (between, shape), route in product(CELLS, ROUTES)}
    assert len(cells) == 4 * 14 * 13


@pytest.mark.parametrize(
    ("between", "shape"), CELLS, ids=[f"{between.name}-{shape}" for between, shape in CELLS]
)
async def test_originator_never_approves(between: Between, shape: str, postgres_url: str) -> None:
    async with company_with(postgres_url, *SHAPES[shape].sources(between)) as company:
        await SHAPES[shape].ask(company, between)
        await check_that_dual_never_gets_through(company)


OPEN: Final[Mapping[Route, str]] = {
    decide: "eve",
    claim: "eve",
    find_in_inbox: "eve",
    advance: "eve",
    stand_in: "kim",
    be_given_a_seat_by_an_approver: "kim",
    be_given_a_seat_by_an_operator: "kim",
    decide_as_group: "eve",
    decide_with_every_right: "eve",
    type_approve: "eve",
    type_advance: "eve",
    type_inbox: "eve",
    insert_decision: "eve",
    decide_after_escalation: "hedi",
}
"""Route → a person who may go that way. The others are closed to everyone: only a gate makes its transition, and an
approval is never skipped."""


@pytest.mark.parametrize("route", OPEN, ids=lambda route: route.__name__)
async def test_route_is_open_to_a_person_who_had_no_part(route: Route, postgres_url: str) -> None:
    """What refuses the originator is whose work it is, and not a route that leads nowhere."""
    sources = json.loads(
        json.dumps(SHAPES["entity"].sources(TIMER)).replace('"user": "dual"', '"user": "hedi"')
    )
    async with company_with(postgres_url, *sources) as company:
        await company.sandbox.people(eve=["clerk", "finance"], hedi=["clerk"])
        await SHAPES["entity"].ask(company, TIMER)
        company.trying = OPEN[route]
        if company.trying == "hedi":
            assert await refusal_of(decide, company) == "NOT_YET_ASKED"
        assert await refusal_of(route, company) is None


@pytest.mark.parametrize("shape", ["entity", "flow", "documents of a flow"])
async def test_maker_of_a_service_accounts_key_never_approves_its_work(shape: str, postgres_url: str) -> None:
    """What an account does by a key is the work of the member who made the key, also behind a wait."""
    async with company_with(postgres_url, *SHAPES[shape].sources(TIMER)) as company:
        await company.sandbox.people(bot={"kind": "service_account", "roles": ["clerk"]})
        bot = replace(await company.actor("bot"), maker_id="dual")
        if shape == "entity":
            await new_bill(company, "ann")
            await company.runtime.org(ORG, bot).entities.transition(company.entity_id, "submit")
        elif shape == "documents of a flow":
            await company.sandbox.roles(clerk=["documents:write"])
            view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("intake")
            company.instance_id = view.id
            await hand_in(company, replace(await company.actor("bot"), maker_id="dual"))
        else:
            view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("claim")
            company.instance_id = view.id
            await company.runtime.org(ORG, bot).instances.advance(view.id, "completed", {"amount": 5})
        await company.sandbox.advance_time("2h")
        request = await company.open_request()
        assert {"bot", "dual"} <= set(request["originators"])
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"


CASE: Final[dict[str, Any]] = {
    "contract": "case",
    "version": 1,
    "fields": {"number": {"type": "text", "required": True}},
    "lifecycle": {
        "initial": "draft",
        "states": {
            "draft": {"edit": "editable"},
            "submitted": {"edit": "amend_only"},
            "open": {"edit": "editable"},
            "closed": {"edit": "locked"},
            "amended": {"edit": "editable"},
        },
        "transitions": {
            "submit": {"from": ["draft", "amended"], "to": "submitted"},
            "accept": {"from": "submitted", "to": "open", "approval": "required", "on_reject": "draft"},
            "close": {"from": "open", "to": "closed", "approval": "required", "on_reject": "open"},
        },
    },
    "permissions": {verb: ["clerk"] for verb in ("create", "update", "submit", "close")},
}
BEHIND_THE_GATE: Final[Mapping[str, dict[str, Any]]] = {
    "form": {"id": "note", "type": "form", "assignee": {"user": "dual"}, "form": {"note": {"type": "text"}}},
    "documents": papers("note", "passport"),
}


@pytest.mark.parametrize("kind", BEHIND_THE_GATE)
async def test_work_behind_a_gate_is_part_of_what_the_next_approval_is_about(
    kind: str, postgres_url: str
) -> None:
    """No approval was about it yet, though the approvals before it are consumed and another person goes on."""
    slots = {
        "submitted_to_approved": ASK_IN_SLOT,
        "approved_to_open": in_slot(Between(kind, (BEHIND_THE_GATE[kind],), pass_nothing), ""),
        "open_to_approved": ASK_IN_SLOT,
    }
    patch = patch_with(**slots) | {"patch": "case", "base": {"entity_type": "case", "envelope_version": 1}}
    async with company_with(postgres_url, patch, contracts=[CASE]) as company:
        ann, fin = await company.actor("ann"), await company.actor("fin")
        made = await company.runtime.org(ORG, ann).entities.mutate("case.create", {"number": "1"})
        company.entity_id, company.instance_id = made.entity.id, made.entity.instance_id
        await company.sandbox.drain()
        await company.runtime.org(ORG, ann).entities.transition(company.entity_id, "submit")
        await company.runtime.org(ORG, fin).approvals.decide((await company.open_request())["id"], "approved")
        if kind == "form":
            dual = await company.actor("dual")
            await company.runtime.org(ORG, dual).instances.advance(
                company.instance_id, "completed", {"note": "to my own account"}
            )
        else:
            await hand_in(company, "dual")
        await company.runtime.org(ORG, ann).entities.transition(company.entity_id, "close")
        request = await company.open_request()
        assert set(request["originators"]) >= {"ann", "dual"}
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"
        await company.runtime.org(ORG, fin).approvals.decide(request["id"], "approved")
        found = await company.runtime.org(ORG, ann).entities.get(company.entity_id)
        assert found.state == "closed"


async def test_who_waives_a_document_does_not_approve_without_it(postgres_url: str) -> None:
    async with company_with(postgres_url, *SHAPES["documents of a flow"].sources(TIMER)) as company:
        await company.sandbox.roles(treasury=["requirements:waive"])
        view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("intake")
        company.instance_id = view.id
        (row,) = await company.rows("SELECT id FROM assent.document_requirements")
        dual = await company.actor("dual")
        await company.runtime.org(ORG, dual).requirements.waive(row["id"], "known for years")
        await company.sandbox.drain()
        await company.sandbox.advance_time("2h")
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"
