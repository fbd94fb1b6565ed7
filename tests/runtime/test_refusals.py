"""A refused change refuses the command that led to it, and nothing is written; without a caller it is an incident.

Generated: every reason for a refusal, at a gate or at a step that writes, behind every way that leads there; each by
itself, and for callers also in one transaction with commands that are taken.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pytest

from assent.app import App
from assent.kernel.rules import save_rule
from assent.model.actor import Actor
from assent.model.mutation import Command, Entity, Refused
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.store.group_commit import LANES
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.authored import END, arrows
from tests.faults.tables import Tables
from tests.world import (
    APPROVED_LIFECYCLE,
    OPS,
    ORG,
    WorldMember,
    drain,
    fetch,
    hire,
    insert_org,
    patch_of,
    publish,
    publish_steps,
    request_id,
)

PEOPLE: Final = {
    "ann": ["clerk"],
    "sub": ["submitter"],
    "fin": ["finance", "clerk"],
    "flo": ["finance"],
}
"""`ann` and `fin` may make the change behind their command; `sub` and `flo` may not."""
DEED: Final[dict[str, Any]] = {
    "contract": "deed",
    "version": 1,
    "fields": {
        "number": {"type": "text", "required": True},
        "note": {"type": "text"},
        "total": {"type": "money", "required": True},
        "seal": {"type": "money", "system": True, "max": 900},
    },
    "lifecycle": APPROVED_LIFECYCLE,
    "permissions": {"create": ["clerk", "submitter"], "update": ["clerk"], "submit": ["clerk", "submitter"]},
}
AUTO: Final[dict[str, Any]] = {
    **DEED,
    "lifecycle": {
        **APPROVED_LIFECYCLE,
        "transitions": {
            "submit": {"from": ["draft", "amended"], "to": "submitted", "auto": True, "on_reject": "draft"},
            "approve": APPROVED_LIFECYCLE["transitions"]["approve"],
        },
    },
}
SALARY: Final[dict[str, Any]] = {
    "contract": "salary",
    "version": 1,
    "workflow": "none",
    "fields": {"total": {"type": "money", "required": True, "min": 0, "max": 5000}},
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}},
    "permissions": {"create": ["clerk"], "update": ["clerk"]},
}
WRITE: Final = {
    "id": "write",
    "type": "action",
    "action": "deed.update",
    "payload": {"seal": "{entity.total}"},
}
APPROVE: Final = {"id": "ask", "type": "approval", "approvers": {"role": "finance"}}
FILL: Final = {"id": "fill", "type": "form", "waives_approval": True}
WAIT: Final = {"id": "wait", "type": "wait_timer", "for": "1h", "waives_approval": True}
HEAR: Final = {"id": "hear", "type": "wait_event", "key": "deed:go", "waives_approval": True}
SMALL: Final = 5
TOTALS: Final = {"deny rule": 800, "field check": 1000, "missing right": SMALL}
"""The totals of documents that are refused; a rule applies from 700 on, the seal holds 900 at most."""


@dataclass
class RefusingRuntime:
    """A runtime with its reason for a refusal."""

    runtime: Runtime
    clock: MovedClock
    reason: str

    def total(self, refused: bool) -> int:
        return TOTALS[self.reason] if refused else SMALL

    def who(self, refused: bool, allowed: str = "ann", denied: str = "sub") -> Actor:
        return actor_of(denied if refused and self.reason == "missing right" else allowed)

    async def new_deed(self, refused: bool) -> Entity:
        data = {"number": "1", "total": self.total(refused)}
        command = Command(ORG, "deed.create", self.who(refused), data)
        return (await self.runtime.core.kernel.mutate(command)).entity

    async def submitted(self, refused: bool) -> Any:
        """Return the instance of a deed that was submitted without trouble."""
        deed = await self.new_deed(refused)
        return await self.runtime.org(ORG, self.who(refused)).entities.transition(deed.id, "submit")


def actor_of(name: str) -> Actor:
    return Actor(name, roles=frozenset(PEOPLE[name]))


Act = Callable[[], Awaitable[Any]]


async def _transition(company: RefusingRuntime, refused: bool) -> Act:
    deed = await company.new_deed(refused)
    await drain(company.runtime)
    org = company.runtime.org(ORG, company.who(refused))
    return lambda: org.entities.transition(deed.id, "submit")


async def _transition_again(company: RefusingRuntime, refused: bool) -> Act:
    """The former instance was cancelled: the transition starts another one."""
    deed = await company.new_deed(refused)
    await drain(company.runtime)
    assert deed.instance_id is not None
    await company.runtime.org(ORG, OPS).instances.cancel(deed.instance_id, "again")
    org = company.runtime.org(ORG, company.who(refused))
    return lambda: org.entities.transition(deed.id, "submit")


async def _decide(company: RefusingRuntime, refused: bool) -> Act:
    view = await company.submitted(refused)
    org = company.runtime.org(ORG, company.who(refused, "fin", "flo"))
    return lambda: org.approvals.decide(request_id(view, "ask"), "approved")


async def _fill(company: RefusingRuntime, refused: bool) -> Act:
    view = await company.submitted(refused)
    org = company.runtime.org(ORG, company.who(refused))
    return lambda: org.instances.advance(view.id, "completed", {})


async def _raise(company: RefusingRuntime, refused: bool) -> dict[str, Any]:
    """Return the input of a flow that changes a salary."""
    new = Command(ORG, "salary.create", actor_of("ann"), {"total": 1})
    salary = (await company.runtime.core.kernel.mutate(new)).entity
    total = -1 if refused and company.reason == "field check" else company.total(refused)
    return {"target": str(salary.id), "total": total}


async def _start(company: RefusingRuntime, refused: bool) -> Act:
    given, org = await _raise(company, refused), company.runtime.org(ORG, company.who(refused))
    return lambda: org.instances.start("raise", given)


async def _start_many(company: RefusingRuntime, refused: bool) -> Act:
    given, org = await _raise(company, refused), company.runtime.org(ORG, company.who(refused))

    async def act() -> None:
        await org.instances.start_many("raise", [given])
        await drain(company.runtime)

    return act


async def _create(company: RefusingRuntime, refused: bool) -> Act:
    async def act() -> None:
        await company.new_deed(refused)
        await drain(company.runtime)

    return act


async def _timer(company: RefusingRuntime, refused: bool) -> Act:
    await company.submitted(refused)

    async def act() -> None:
        company.clock.advance("2h")
        await Timers(WorkerContext(company.runtime.database)).run_once()
        await drain(company.runtime)

    return act


async def _event(company: RefusingRuntime, refused: bool) -> Act:
    await company.submitted(refused)

    async def act() -> None:
        await company.runtime.org(ORG).events.emit("deed:go", {})
        await drain(company.runtime)

    return act


@dataclass(frozen=True)
class WayToChange:
    """A way to the change: what stands before it, and what a caller or a worker does."""

    begin: Callable[[RefusingRuntime, bool], Awaitable[Act]]
    has_caller: bool
    gate: str | None = "submit"
    """The transition behind it; none for flows."""
    nodes: tuple[dict[str, Any], ...] = ()
    contract: dict[str, Any] = field(default_factory=lambda: DEED)

    def patch(self, place: str) -> dict[str, Any]:
        """Return the patch whose slot before the gate holds these nodes, and the step that writes."""
        held = (*self.nodes, *([WRITE] if place == "step" else []))
        if self.gate == "approve":
            return patch_of(*held, entity_type="deed")
        patch = patch_of(APPROVE, entity_type="deed")
        if held:
            before = patch_of(*held, entity_type="deed", slot="slot:draft_to_submit")
            patch["slots"] |= before["slots"]
        return patch


WAYS: Final = {
    "transition": WayToChange(_transition, True),
    "transition of an ended instance": WayToChange(_transition_again, True),
    "decide": WayToChange(_decide, True, "approve", (APPROVE,)),
    "form": WayToChange(_fill, True, "approve", (FILL,)),
    "start": WayToChange(_start, True, None),
    "start in the background": WayToChange(_start_many, False, None),
    "create with an auto transition": WayToChange(_create, False, contract=AUTO),
    "timer": WayToChange(_timer, False, "approve", (WAIT,)),
    "event": WayToChange(_event, False, "approve", (HEAR,)),
}
CODES: Final = {
    ("deny rule", "gate"): "RULE_DENIED",
    ("deny rule", "step"): "RULE_DENIED",
    ("missing right", "step"): "POLICY_DENIED",
    ("field check", "gate"): "MISSING_FIELD",
    ("field check", "step"): "OUT_OF_RANGE",
}
CASES: Final = [
    (way, reason, place)
    for way in WAYS
    for reason, place in CODES
    if place == "step" or WAYS[way].gate is not None
]


@pytest.fixture
def app() -> App:
    return App([SALARY])


def rules(way: WayToChange, reason: str, place: str) -> list[dict[str, Any]]:
    """Return the org's rules for a reason: a denial, or a required field that a rule takes away before the gate."""
    common = {"name": "it", "timing": "before", "condition": "entity.total > 700"}
    denial = {**common, "outcome": "deny", "then": {"message": "over the budget"}}
    if reason == "deny rule":
        about = (
            ("salary", "update") if way.gate is None else ("deed", "update" if place == "step" else way.gate)
        )
        return [{**denial, "entity_type": about[0], "action": about[1]}]
    if reason == "field check" and place == "gate":
        sets = {"outcome": "set", "then": {"number": "entity.note"}}
        return [{**common, **sets, "entity_type": "deed", "action": way.gate}]
    return []


async def open_company(app: App, database: Database, case: tuple[str, str, str]) -> RefusingRuntime:
    way, reason, place = WAYS[case[0]], case[1], case[2]
    app.add(way.contract)
    runtime = app.runtime(database)
    async with database.transaction(None) as connection:
        await insert_org(connection)
        await hire(connection, {name: WorldMember(roles) for name, roles in PEOPLE.items()})
        for rule in rules(way, reason, place):
            await save_rule(connection, app.registry, ORG, rule, database.clock.now())
    if way.gate is None:
        target = {"entity": "workflow.target", "payload": {"total": "{workflow.total}"}}
        write = {"id": "write", "type": "mutation", "action": "salary.update", **target}
        await publish_steps(database, "raise", [write, END], arrows("write", "end"))
    else:
        await publish(database, way.contract)
        await publish(database, way.patch(place), ORG)
    clock = database.clock
    assert isinstance(clock, MovedClock)
    return RefusingRuntime(runtime, clock, reason)


async def paused(database: Database) -> list[str]:
    """Return the codes of all incidents."""
    found = await fetch(database, "SELECT incident FROM assent.workflow_instances WHERE status = 'paused'")
    return [row["incident"]["code"] for row in found]


@pytest.mark.parametrize("case", [case for case in CASES if WAYS[case[0]].has_caller], ids="-".join)
async def test_caller_is_refused_and_nothing_is_written(
    case: tuple[str, str, str], app: App, database: Database, database_url: str
) -> None:
    company = await open_company(app, database, case)
    act = await WAYS[case[0]].begin(company, True)
    before = await Tables.read(database_url)
    with pytest.raises(Refused) as caught:
        await act()
    assert caught.value.code == CODES[case[1], case[2]]
    assert (await Tables.read(database_url)).since(before).is_nothing
    # A second attempt meets the same refusal: nothing of the first one is in its way.
    with pytest.raises(Refused, match=caught.value.code):
        await act()


@pytest.mark.parametrize("case", [case for case in CASES if WAYS[case[0]].has_caller], ids="-".join)
async def test_refused_command_undoes_none_that_share_its_transaction(
    case: tuple[str, str, str], app: App, database: Database
) -> None:
    company = await open_company(app, database, case)
    way = WAYS[case[0]]
    refused = [False, True, False, True, False]
    acts = [await way.begin(company, one) for one in (*[False] * LANES, *refused)]
    found: list[Any] = await asyncio.gather(*(act() for act in acts), return_exceptions=True)
    codes = [one.code if isinstance(one, Refused) else one.status for one in found[LANES:]]
    taken = found[0].status
    assert codes == [CODES[case[1], case[2]] if one else taken for one in refused], found
    assert taken in ("running", "completed")
    assert await paused(database) == []


@pytest.mark.parametrize("case", [case for case in CASES if not WAYS[case[0]].has_caller], ids="-".join)
async def test_refused_change_without_a_caller_is_an_incident(
    case: tuple[str, str, str], app: App, database: Database
) -> None:
    company = await open_company(app, database, case)
    act = await WAYS[case[0]].begin(company, True)
    await act()
    assert await paused(database) == [CODES[case[1], case[2]]]


async def test_author_goes_on_after_a_refused_submission(app: App, database: Database) -> None:
    """An everyday refusal is no case for an operator: the author corrects the document and submits it again."""
    company = await open_company(app, database, ("transition", "deny rule", "gate"))
    deed = await company.new_deed(True)
    org = company.runtime.org(ORG, actor_of("ann"))
    with pytest.raises(Refused, match="over the budget"):
        await org.entities.transition(deed.id, "submit")
    await org.entities.mutate("deed.update", {"total": SMALL}, deed.id)
    view = await org.entities.transition(deed.id, "submit")
    assert (view.status, view.incident, [one.name for one in view.waiting]) == ("running", None, ["ask"])


async def test_refused_start_leaves_its_key_free(app: App, database: Database) -> None:
    company = await open_company(app, database, ("start", "missing right", "step"))
    new = Command(ORG, "salary.create", actor_of("ann"), {"total": 1})
    target = str((await company.runtime.core.kernel.mutate(new)).entity.id)
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await company.runtime.org(ORG, actor_of("sub")).instances.start(
            "raise", {"target": target, "total": 1}, idempotency_key="k"
        )
    org = company.runtime.org(ORG, actor_of("ann"))
    view = await org.instances.start("raise", {"target": target, "total": 2}, idempotency_key="k")
    assert view.status == "completed"


async def test_refused_transition_rolls_back_alone_in_the_caller_s_transaction(
    app: App, database: Database
) -> None:
    company = await open_company(app, database, ("transition", "deny rule", "gate"))
    over, under = await company.new_deed(True), await company.new_deed(False)
    async with (
        database.transaction(None) as connection,
        company.runtime.within(connection, ORG, actor_of("ann")) as org,
    ):
        with pytest.raises(Refused, match="RULE_DENIED"):
            await org.entities.transition(over.id, "submit")
        await org.entities.transition(under.id, "submit")
    found = await fetch(database, "SELECT id, state FROM assent.current_entities WHERE entity_type = 'deed'")
    states: dict[UUID, str] = {row["id"]: row["state"] for row in found}
    assert (states[over.id], states[under.id]) == ("draft", "submitted")


async def test_operator_who_retries_a_refused_step_keeps_the_incident(app: App, database: Database) -> None:
    company = await open_company(app, database, ("event", "deny rule", "gate"))
    act = await WAYS["event"].begin(company, True)
    await act()
    (row,) = await fetch(database, "SELECT id FROM assent.workflow_instances WHERE status = 'paused'")
    view = await company.runtime.org(ORG, OPS).instances.retry(row["id"])
    assert (view.status, view.incident and view.incident["code"]) == ("paused", "RULE_DENIED")


async def test_rule_about_a_transition_does_not_hold_up_its_rejection(app: App, database: Database) -> None:
    company = await open_company(app, database, ("decide", "deny rule", "gate"))
    view = await company.submitted(True)
    org = company.runtime.org(ORG, actor_of("fin"))
    with pytest.raises(Refused, match="RULE_DENIED"):
        await org.approvals.decide(request_id(view, "ask"), "approved")
    rejected = await org.approvals.decide(request_id(view, "ask"), "rejected", reason="over the budget")
    assert rejected.entity is not None
    assert (rejected.status, rejected.entity.state) == ("running", "draft")


async def test_transitions_of_a_workflow_have_their_names_in_the_audit_log(
    app: App, database: Database
) -> None:
    company = await open_company(app, database, ("decide", "deny rule", "gate"))
    org = company.runtime.org(ORG, actor_of("fin"))
    view = await company.submitted(False)
    await org.approvals.decide(request_id(view, "ask"), "rejected", reason="no")
    view = await company.submitted(False)
    await org.approvals.decide(request_id(view, "ask"), "approved")
    sql = "SELECT action, to_state FROM assent.audit_log WHERE org_id = $1 AND to_version > 1 ORDER BY at, id"
    found = [(row["action"], row["to_state"]) for row in await fetch(database, sql, ORG)]
    back = ("deed.transition", "draft")
    assert found == [
        ("deed.submit", "submitted"),
        back,
        ("deed.submit", "submitted"),
        ("deed.approve", "active"),
    ]
