"""A round of two approvals about one invoice, and people who may not, or may, fill a seat of the second one.

Each situation says who is who, what happens before it is asked and what afterwards; pat then tries every route.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from assent.model.actor import Actor
from assent.people import (
    InboxPage,
    InboxQuery,
    KeptDelegation,
    NewDelegation,
    count_inbox,
    delegate,
    read_inbox,
)
from assent.people.delegations import revoke
from assent.runtime import InstanceView, Runtime
from assent.store.clock import MovedClock
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.world import MIDDLE, ORG, create_invoice, drain, found_acme, patch_of, publish_invoices, request_id

PAT, QUINN, OLLIE, ANN = (
    Actor(name, roles=frozenset({"clerk"})) for name in ("pat", "quinn", "ollie", "ann")
)
"""Pat tries; Quinn is whom Pat stands in for; Ollie is always asked as well; Ann writes invoices."""
ADMIN = Actor("ada", capabilities=frozenset({"*"}))

STAFF = {
    "ann": ["clerk"],
    "ollie": ["one", "two", "other"],
    "opal": ["one", "two", "other"],
    "oscar": ["one", "two", "other"],
    "ada": [],
}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"approvers": {"role": "two"}},
    "groups": {"groups": {"a": {"approvers": {"role": "two"}}, "b": {"approvers": {"role": "other"}}}},
    "escalation": {"approvers": {"role": "other"}, "escalate": {"after": "1h", "to": {"role": "two"}}},
}
"""How the second approval comes to ask the role `two`."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Who is who, and why Pat may not fill a seat of the second approval; no code where Pat may."""

    code: str | None = None
    pat: tuple[str, ...] = ()
    quinn: tuple[str, ...] = ()
    author: Actor = ANN
    lends: dict[str, Any] | None = None
    """What Quinn's delegation to Pat says; none where Quinn lends nothing."""
    first: tuple[Actor, str | None] | None = None
    """Who answers the first approval, and for whom."""
    after: str | None = None
    """What happens to the members once everything was asked."""
    revokes: bool = False
    trying: Actor = PAT
    for_user: str | None = None
    """Whose seat it is, where it is not the trying person's own."""


def lent(code: str | None, **given: Any) -> Situation:
    """Quinn has the seat, and Pat stands in."""
    return Situation(**{"code": code, "quinn": ("two",), "lends": {}, "for_user": "quinn"} | given)


SEPARATION, GONE, DENIED = "SEPARATION_OF_DUTIES", "NO_LONGER_QUALIFIED", "POLICY_DENIED"
DAY = timedelta(days=1)

SITUATIONS: dict[str, Situation] = {
    "asked": Situation(pat=("two",)),
    "stands in": lent(None),
    "stands in for invoices": lent(None, lends={"entity_types": ("invoice",), "workflows": ("invoice",)}),
    "originator": Situation(SEPARATION, pat=("clerk", "two"), author=PAT),
    "originator stands in": lent(SEPARATION, pat=("clerk",), author=PAT),
    "for an originator": lent(DENIED, quinn=("clerk", "two"), author=QUINN),
    "filler": Situation(SEPARATION, pat=("one", "two"), first=(PAT, None)),
    "filler stands in": lent(SEPARATION, pat=("one",), first=(PAT, None)),
    "for a filler": lent(SEPARATION, quinn=("one", "two"), first=(QUINN, None)),
    "for a filler through another": Situation(
        SEPARATION,
        quinn=("one", "two"),
        lends={"entity_types": ("invoice",)},
        first=(PAT, "quinn"),
        trying=QUINN,
    ),
    "role lost": Situation(GONE, pat=("two",), after="SET roles = '{one}' WHERE user_id = 'pat'"),
    "deactivated": Situation(GONE, pat=("two",), after="SET active = false WHERE user_id = 'pat'"),
    "for one who lost the role": lent(GONE, after="SET roles = '{one}' WHERE user_id = 'quinn'"),
    "for one who was deactivated": lent(GONE, after="SET active = false WHERE user_id = 'quinn'"),
    "stand-in was deactivated": lent(GONE, after="SET active = false WHERE user_id = 'pat'"),
    "of another entity type": lent(DENIED, lends={"entity_types": ("contract",)}),
    "of another workflow": lent(DENIED, lends={"workflows": ("orders",)}),
    "expired": lent(DENIED, lends={"ends_at": timedelta(minutes=30)}),
    "not yet begun": lent(DENIED, lends={"starts_at": DAY}),
    "revoked": lent(DENIED, revokes=True),
    "nobody": Situation(DENIED, pat=("one",)),
}


@dataclass(slots=True)
class Asked:
    """The second approval, when it is Pat's turn to try."""

    runtime: Runtime
    situation: Situation
    view: InstanceView
    request_id: UUID
    group: str | None = None

    @property
    def now(self) -> datetime:
        return self.runtime.database.clock.now()

    async def decide(self, **given: Any) -> None:
        await self.runtime.org(ORG, self.situation.trying).approvals.decide(
            self.request_id, "approved", **given
        )

    async def decide_in_a_group(self) -> None:
        await self.decide(group=self.group)

    async def decide_by_name(self) -> None:
        await self.decide(on_behalf_of=self.situation.for_user)

    async def advance(self) -> None:
        await self.runtime.org(ORG, self.situation.trying).instances.advance(
            self.view.id, "approved", step="two"
        )

    async def claim(self) -> None:
        await self.runtime.org(ORG, self.situation.trying).approvals.claim(self.request_id)

    async def give_away(self) -> None:
        """Hand the own seat to one who may have it."""
        given = {"from_user": self.situation.trying.id, "to_user": "ada"}
        await self.runtime.org(ORG, self.situation.trying).approvals.reassign(self.request_id, **given)

    async def inbox(self, bucket: str | None = None) -> list[UUID]:
        async with self.runtime.database.transaction(ORG) as connection:
            wanted, who = InboxQuery(bucket=bucket), self.situation.trying.id  # type: ignore[arg-type]
            page = await read_inbox(connection, ORG, who, wanted, self.now)
            counts = await count_inbox(connection, ORG, who, self.now)
        assert isinstance(page, InboxPage)
        if bucket is None:
            assert len(page.items) == sum(c.open for c in (counts.mine, counts.roles, counts.delegated))
        return [item.request_id for item in page.items if item.request_id == self.request_id]

    async def insert_decision(self) -> None:
        """By hand, as the application's database role, in the seat that it would be."""
        owner = self.situation.for_user or self.situation.trying.id
        behalf = self.situation.for_user
        async with self.runtime.database.transaction(ORG) as connection:
            seat_id = await connection.fetchval(
                "SELECT id FROM assent.workflow_seats WHERE request_id = $1 AND user_id = $2",
                self.request_id,
                owner,
            )
            await connection.execute(
                "INSERT INTO assent.approval_decisions (org_id, id, request_id, seat_id, approver_id, on_behalf_of,"
                " decision, entity_version, decided_at) SELECT r.org_id, gen_random_uuid(), r.id, $2, $3, $4,"
                " 'approved', r.entity_version, assent.now() FROM assent.approval_requests r WHERE r.id = $1",
                self.request_id,
                seat_id,
                self.situation.trying.id,
                behalf,
            )


async def ask(runtime: Runtime, clock: MovedClock, situation: Situation, shape: str = "plain") -> Asked:
    """Let everything happen until it is Pat's turn."""
    people = {**STAFF, "pat": list(situation.pat), "quinn": list(situation.quinn)}
    await found_acme(runtime.database, people)
    await publish_invoices(runtime.database, _patch(SHAPES[shape]))
    delegation = await _lend(runtime, situation)
    entity = await create_invoice(runtime, MIDDLE, situation.author)
    view = await runtime.org(ORG, situation.author).entities.transition(entity.id, "submit")
    asked = Asked(runtime, situation, view, request_id(view, "two"), "a" if shape == "groups" else None)
    if situation.first:
        who, behalf = situation.first
        await runtime.org(ORG, who).approvals.decide(request_id(view, "one"), "approved", on_behalf_of=behalf)
    if situation.revokes and delegation is not None:
        async with runtime.database.transaction(ORG) as connection:
            await revoke(connection, ORG, delegation.id, QUINN, asked.now)
    if situation.after:
        async with runtime.database.transaction(None) as connection:
            await connection.execute(f"UPDATE assent.members {situation.after}")
    clock.advance(timedelta(hours=2))
    await Timers(WorkerContext(runtime.database)).run_once()
    await drain(runtime)
    return asked


async def _lend(runtime: Runtime, situation: Situation) -> KeptDelegation | None:
    if situation.lends is None:
        return None
    now = runtime.database.clock.now()
    times = {key: now + value for key, value in situation.lends.items() if isinstance(value, timedelta)}
    async with runtime.database.transaction(ORG) as connection:
        wanted = NewDelegation(ORG, "quinn", "pat", **situation.lends | times)
        kept = await delegate(connection, runtime.core.directory, wanted, QUINN, now)
    assert isinstance(kept, KeptDelegation), kept
    return kept


def _patch(second: dict[str, Any]) -> dict[str, Any]:
    """Two approvals at the same time, in one slot."""
    nodes = [
        {"id": "fork", "type": "parallel_split"},
        {"id": "one", "type": "approval", "approvers": {"role": "one"}},
        {"id": "two", "type": "approval", **second},
        {"id": "both", "type": "parallel_join", "mode": "all"},
    ]
    edges = [{"from": "in", "to": "fork"}, {"from": "both", "to": "out"}]
    for name in ("one", "two"):
        edges += [{"from": "fork", "to": name}, {"from": name, "to": "both", "on": "approved"}]
    return patch_of(*nodes, edges=edges)


async def statuses(asked: Asked) -> dict[str, list[str]]:
    """The seats of the second approval by person, and who claimed it."""
    async with asked.runtime.database.transaction(None) as connection:
        rows = await connection.fetch(
            "SELECT user_id, status FROM assent.workflow_seats WHERE request_id = $1 ORDER BY 1, 2",
            asked.request_id,
        )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["user_id"], []).append(row["status"])
    return found
