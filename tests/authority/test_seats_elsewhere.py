"""Seats of forms, and seats of people whom an application keeps outside of `members`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from assent.app import App
from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.people import (
    InboxPage,
    InboxQuery,
    KeptDelegation,
    Member,
    NewDelegation,
    count_inbox,
    delegate,
    read_inbox,
)
from assent.people.directory import OrgRole, OrgUser
from assent.runtime import Runtime
from assent.store.database import Connection, Database
from tests.authored import END, arrows, form
from tests.world import ANN, ORG, found_acme, publish_steps, request_id, rows

PAT, QUINN, BEA = Actor("pat"), Actor("quinn"), Actor("bea")
ASK = {"id": "ask", "type": "approval", "assignee": {"role": "boss"}}
NAMED = {"id": "ask", "type": "approval", "assignee": {"user": "bea"}}
WAYS = [{"from": "ask", "event": event, "to": "end"} for event in ("approved", "rejected")]


class Staff:
    """People of an application's own, in memory; `members` has none of them."""

    def __init__(self) -> None:
        self.roles: dict[str, list[str]] = {"bea": ["boss"], "quinn": ["boss"], "pat": []}
        self.left: set[str] = set()

    def _member(self, name: str) -> Member:
        return Member(name, name not in self.left)

    async def with_roles(
        self, connection: Connection, wanted: Sequence[OrgRole]
    ) -> Mapping[OrgRole, Sequence[Member]]:
        return {
            (org, role): [self._member(name) for name, roles in self.roles.items() if role in roles]
            for org, role in wanted
        }

    async def by_id(self, connection: Connection, wanted: Sequence[OrgUser]) -> Mapping[OrgUser, Member]:
        return {(org, name): self._member(name) for org, name in wanted if name in self.roles}

    async def managers(
        self, connection: Connection, wanted: Sequence[OrgUser]
    ) -> Mapping[OrgUser, Sequence[Member]]:
        return {}


@pytest.fixture
def staff() -> Staff:
    return Staff()


@pytest.fixture
def runtime(database: Database, staff: Staff) -> Runtime:
    return App([], directory=staff).runtime(database)


async def _inbox(runtime: Runtime, who: Actor) -> list[str]:
    now, directory = runtime.database.clock.now(), runtime.core.directory
    async with runtime.database.transaction(ORG) as connection:
        page = await read_inbox(connection, ORG, who.id, InboxQuery(), now, directory=directory)
        counts = await count_inbox(connection, ORG, who.id, now, directory=directory)
    assert isinstance(page, InboxPage)
    assert len(page.items) == counts.mine.open + counts.roles.open + counts.delegated.open
    return [item.bucket for item in page.items]


async def _lend(runtime: Runtime, **given: Any) -> None:
    async with runtime.database.transaction(ORG) as connection:
        wanted, now = NewDelegation(ORG, "quinn", "pat", **given), runtime.database.clock.now()
        kept = await delegate(connection, runtime.core.directory, wanted, QUINN, now)
    assert isinstance(kept, KeptDelegation), kept


@pytest.mark.parametrize(("node", "bucket"), [(ASK, "roles"), (NAMED, "mine")])
async def test_person_of_another_directory_finds_and_decides(
    runtime: Runtime, database: Database, node: dict[str, Any], bucket: str
) -> None:
    await publish_steps(database, "leave", [node, END], WAYS)
    view = await runtime.org(ORG, ANN).instances.start("leave")
    assert await _inbox(runtime, BEA) == [bucket]
    assert (
        await runtime.org(ORG, BEA).approvals.decide(request_id(view, "ask"), "approved")
    ).status == "completed"
    assert await rows(database, "members") == []


LOST = {
    "role": lambda staff: staff.roles.update(bea=["clerk"], quinn=["clerk"]),
    "left": lambda staff: staff.left.update({"bea", "quinn"}),
    "unknown": lambda staff: [staff.roles.pop(name) for name in ("bea", "quinn")],
}


@pytest.mark.parametrize("node", [ASK, NAMED], ids=["role", "named"])
@pytest.mark.parametrize("change", LOST)
async def test_person_of_another_directory_decides_while_it_says_so(
    runtime: Runtime, database: Database, staff: Staff, node: dict[str, Any], change: str
) -> None:
    await publish_steps(database, "leave", [node, END], WAYS)
    view = await runtime.org(ORG, ANN).instances.start("leave")
    LOST[change](staff)
    if (node, change) == (NAMED, "role"):  # whoever was named is asked whatever they do
        assert await _inbox(runtime, BEA) == ["mine"]
        return
    assert await _inbox(runtime, BEA) == []
    with pytest.raises(Refused, match="NO_LONGER_QUALIFIED"):
        await runtime.org(ORG, BEA).approvals.decide(request_id(view, "ask"), "approved")


@pytest.mark.parametrize("change", [*LOST, None])
async def test_stand_in_of_another_directory_decides_while_both_are_there(
    runtime: Runtime, database: Database, staff: Staff, change: str | None
) -> None:
    await publish_steps(database, "leave", [ASK, END], WAYS)
    await _lend(runtime)
    view = await runtime.org(ORG, ANN).instances.start("leave")
    if change is None:
        assert await _inbox(runtime, PAT) == ["delegated"]
        assert (
            await runtime.org(ORG, PAT).approvals.decide(request_id(view, "ask"), "approved")
        ).status == "completed"
        return
    LOST[change](staff)
    assert await _inbox(runtime, PAT) == []
    with pytest.raises(Refused, match="NO_LONGER_QUALIFIED"):
        await runtime.org(ORG, PAT).approvals.decide(request_id(view, "ask"), "approved")


async def test_whether_people_are_there_is_asked_once_for_a_batch(
    runtime: Runtime, database: Database, staff: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_steps(database, "leave", [ASK, END], WAYS)
    await _lend(runtime)
    view = await runtime.org(ORG, ANN).instances.start("leave")
    calls: list[str] = []
    for name in ("with_roles", "by_id"):
        monkeypatch.setattr(staff, name, _counting(calls, name, getattr(staff, name)))
    await runtime.org(ORG, PAT).approvals.decide(request_id(view, "ask"), "approved")
    assert sorted(calls) == ["by_id", "with_roles"]


def _counting(calls: list[str], name: str, method: Any) -> Any:
    async def counted(connection: Connection, wanted: Any) -> Any:
        calls.append(name)
        return await method(connection, wanted)

    return counted


FORM = form("fill", assignee={"role": "two"})
FORMS = {
    "asked": (("two",), (), None, None, None),
    "stands in": ((), ("two",), {}, None, None),
    "role lost": (("two",), (), None, "SET roles = '{}' WHERE user_id = 'pat'", "NO_LONGER_QUALIFIED"),
    "deactivated": (("two",), (), None, "SET active = false WHERE user_id = 'pat'", "NO_LONGER_QUALIFIED"),
    "for one who lost the role": (
        (),
        ("two",),
        {},
        "SET roles = '{}' WHERE user_id = 'quinn'",
        "NO_LONGER_QUALIFIED",
    ),
    "for one who was deactivated": (
        (),
        ("two",),
        {},
        "SET active = false WHERE user_id = 'quinn'",
        "NO_LONGER_QUALIFIED",
    ),
    "stand-in was deactivated": (
        (),
        ("two",),
        {},
        "SET active = false WHERE user_id = 'pat'",
        "NO_LONGER_QUALIFIED",
    ),
    "of another workflow": ((), ("two",), {"workflows": ("orders",)}, None, "POLICY_DENIED"),
    "of another entity type": ((), ("two",), {"entity_types": ("invoice",)}, None, "POLICY_DENIED"),
}


@pytest.mark.parametrize("case", FORMS)
async def test_form_is_claimed_and_filled_in_by_those_who_are_still_asked(
    database: Database, case: str
) -> None:
    pat, quinn, lends, after, code = FORMS[case]
    runtime = App([]).runtime(database)
    await found_acme(database, {"ann": ["clerk"], "pat": list(pat), "quinn": list(quinn)})
    await publish_steps(database, "filling", [FORM, END], arrows("fill", "end", event="done"))
    if lends is not None:
        await _lend(runtime, **lends)
    view = await runtime.org(ORG, ANN).instances.start("filling")
    step_id = view.waiting[0].step_id
    assert step_id is not None
    if after:
        async with database.transaction(None) as connection:
            await connection.execute(f"UPDATE assent.members {after}")
    assert len(await _inbox(runtime, PAT)) == (1 if code is None else 0)
    if code is None:
        await runtime.org(ORG, PAT).forms.claim(step_id)
        assert (await runtime.org(ORG, PAT).instances.advance(view.id, "done")).status == "completed"
        return
    for route in (
        runtime.org(ORG, PAT).forms.claim(step_id),
        runtime.org(ORG, PAT).forms.save_draft(step_id, {"a": 1}),
        runtime.org(ORG, PAT).instances.advance(view.id, "done"),
    ):
        with pytest.raises(Refused, match=code):
            await route
