"""The rule of seats is written twice, in Python and in SQL; here both are asked about generated rounds."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from assent.approvals.forms import load_forms
from assent.approvals.requests import load_requests
from assent.engine.consent import SeatRules, round_of
from assent.model.approval import ApprovalRequest, Presence, SeatedRequest
from assent.people import InboxPage, InboxQuery, MembersDirectory, load_delegations, read_inbox
from assent.people.delegations import find_present
from assent.store.connection import Connection
from assent.store.database import Database
from tests.postgres import START
from tests.rows import (
    insert,
    insert_entity,
    insert_instance,
    insert_member,
    insert_request,
    insert_request_about,
)

PEOPLE = ("ann", "bob", "cid", "dan", "eve")
GHOST = "gil"
"""Somebody whom no directory knows."""
ROLES = ("finance", "legal")
VIAS = ("user", "role:finance", "role:finance", "role:legal", "manager:ann", "reassigned:bob")
WORKFLOWS, TYPES = ("invoice", "orders"), ("invoice", "contract")
ROUNDS = 40
NOW = START + timedelta(days=1)


class Maker:
    """Inserts people, delegations, rounds of requests and forms, all by chance."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self.connection = connection
        self.chance = Random(seed)  # noqa: S311
        self.workflows: dict[UUID, str] = {}
        self.generations: dict[tuple[str, UUID], int] = {}
        self.forms: dict[UUID, str] = {}

    async def fill(self) -> None:
        for name in PEOPLE:
            roles = [role for role in ROLES if self.chance.random() < 0.6]
            active = self.chance.random() < 0.8
            kind = "user" if self.chance.random() < 0.9 else "service_account"
            await insert_member(self.connection, user_id=name, roles=roles, active=active, kind=kind)
        for _ in range(8):
            await self._lend()
        for _ in range(ROUNDS):
            await self._ask()

    async def _lend(self) -> None:
        from_user, to_user = self.chance.sample((*PEOPLE, GHOST), 2)
        starts_at = NOW + timedelta(hours=self.chance.choice((-2, -2, -2, 1)))
        given = {
            "starts_at": starts_at,
            "ends_at": self.chance.choice(
                (None, None, starts_at + timedelta(hours=1), NOW + timedelta(hours=3))
            ),
            "entity_types": self.chance.choice(([], [], [self.chance.choice(TYPES)])),
            "workflows": self.chance.choice(([], [], [self.chance.choice(WORKFLOWS)])),
            "revoked_at": self.chance.choice((None, None, None, START)),
        }
        names = {"from_user": from_user, "to_user": to_user, "created_by": from_user}
        await insert(self.connection, "approval_delegations", **names, **given)

    async def _ask(self) -> None:
        """An instance with one to three requests in one or two slots, or with a form."""
        workflow = self.chance.choice(WORKFLOWS)
        instance = await insert_instance(self.connection, workflow_id=workflow, generation=2)
        self.workflows[instance["id"]] = workflow
        self.generations["acme", instance["id"]] = 2
        if self.chance.random() < 0.2:
            await self._ask_form(instance, workflow)
        may_repeat = self.chance.random() < 0.2
        for _ in range(self.chance.randint(1, 3)):
            await self._ask_approval(instance, may_repeat)

    async def _ask_form(self, instance: Any, workflow: str) -> None:
        form = await insert(
            self.connection,
            "workflow_forms",
            instance_id=instance["id"],
            assignee={"declared": {}, "skipped": []},
        )
        self.forms[form["id"]] = workflow
        for name in self.chance.sample((*PEOPLE, GHOST), 2):
            via = self.chance.choice((*VIAS, "starter", "starter"))
            about = {"request_id": form["id"], "instance_id": instance["id"], "kind": "form"}
            await insert(self.connection, "workflow_seats", user_id=name, via=via, **about)

    async def _ask_approval(self, instance: Any, may_repeat: bool) -> None:
        chance = self.chance
        given = {
            "instance_id": instance["id"],
            "generation": chance.choice((2, 2, 2, 1)),
            "slot": chance.choice(("", "", "x")),
            "originators": [name for name in PEOPLE if chance.random() < 0.15],
            "may_repeat": may_repeat,
            "approvers": {
                "groups": [],
                "skipped": [],
                "tier": 0,
                "enough": None,
                "default": None,
                "directory": None,
            },
        }
        if chance.random() < 0.5:
            entity = await insert_entity(self.connection, entity_type=chance.choice(TYPES))
            request = await insert_request_about(self.connection, entity, **given)
        else:
            request = await insert_request(self.connection, **given)
        for name in chance.sample((*PEOPLE, GHOST), 3):
            status = chance.choice(("open", "open", "open", "decided", "closed", "later"))
            about = {"request_id": request["id"], "instance_id": instance["id"], "user_id": name}
            seat = await insert(
                self.connection, "workflow_seats", **about, via=chance.choice(VIAS), status=status
            )
            if status == "decided":
                await self._decide(request, seat)
        if chance.random() < 0.15:
            for change in (
                "approval_requests SET status = 'void' WHERE org_id = 'acme' AND id = $1",
                "workflow_seats SET status = 'closed'"
                " WHERE org_id = 'acme' AND request_id = $1 AND status IN ('open', 'later')",
            ):
                await self.connection.execute(f"UPDATE assent.{change}", request["id"])

    async def _decide(self, request: Any, seat: Any) -> None:
        """Also by those who could not: what was decided before is as it is."""
        delegate = self.chance.choice((None, None, *(name for name in PEOPLE if name != seat["user_id"])))
        await self.connection.execute("ALTER TABLE assent.approval_decisions DISABLE TRIGGER USER")
        await insert(
            self.connection,
            "approval_decisions",
            request_id=request["id"],
            seat_id=seat["id"],
            approver_id=delegate or seat["user_id"],
            on_behalf_of=seat["user_id"] if delegate else None,
        )
        await self.connection.execute("ALTER TABLE assent.approval_decisions ENABLE TRIGGER USER")


async def _by_the_engine(made: Maker, reader: str) -> dict[UUID, str | None]:
    """The open seats that a reader may fill → why not, by the pure rule."""
    connection, directory = made.connection, MembersDirectory()
    everybody = (*PEOPLE, GHOST)
    lent = await load_delegations(connection, [("acme", name) for name in everybody], NOW)
    wanted = {("acme", name, role) for name in everybody for role in (None, *ROLES)}
    present = await find_present(connection, directory, wanted)
    roll = Presence(frozenset((user_id, role) for _, user_id, role in present))
    delegations = {user_id: found for (_, user_id), found in lent.items()}
    found: dict[UUID, str | None] = {}
    async for asked, workflow, around in _everything(made):
        seating = SeatRules(asked, workflow, around, delegations, roll)
        for seat in asked.seats:
            if seat.status == "open":
                refused = seating.refusal(seat, reader)
                found[seat.id] = refused.code if refused else None
    return found


async def _everything(made: Maker) -> AsyncIterator[tuple[SeatedRequest, str, Sequence[ApprovalRequest]]]:
    for generation in (1, 2):
        wanted = dict.fromkeys(made.generations, generation)
        for (_, instance_id), requests in (await load_requests(made.connection, wanted)).items():
            for request in requests.values():
                around = round_of(requests.values(), request.slot, request.generation)
                yield request, made.workflows[instance_id], around
    forms = await load_forms(made.connection, [("acme", step) for step in made.forms])
    for (_, step), form in forms.items():
        yield form, made.forms[step], ()


async def _by_the_inbox(made: Maker, reader: str) -> set[UUID]:
    found: set[UUID] = set()
    cursor = None
    while True:
        wanted = InboxQuery(limit=200, cursor=cursor)
        page = await read_inbox(made.connection, "acme", reader, wanted, NOW)
        assert isinstance(page, InboxPage)
        found |= {item.seat_id for item in page.items}
        if (cursor := page.next) is None:
            return found


@pytest.mark.parametrize("seed", range(12))
async def test_inbox_shows_exactly_what_the_engine_would_let_its_reader_answer(
    database: Database, seed: int
) -> None:
    async with database.transaction(None) as connection:
        made = Maker(connection, seed)
        await made.fill()
        codes: set[str | None] = set()
        for reader in (*PEOPLE, GHOST):
            allowed = await _by_the_engine(made, reader)
            codes |= set(allowed.values())
            expected = {seat_id for seat_id, code in allowed.items() if code is None}
            assert await _by_the_inbox(made, reader) == expected, reader
    assert codes == {None, "SEPARATION_OF_DUTIES", "POLICY_DENIED", "NO_LONGER_QUALIFIED"}
