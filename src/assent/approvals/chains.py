"""Approval chains: an org's own templates of an order of approvers: kept, listed and loaded.

    chain: large purchases
    entity_type: invoice          # optional: for anything
    steps:
      - {name: finance, approvers: {role: finance_manager}, mode: quorum, quorum: 2, due: 24h}
      - {name: head, approvers: {manager: true, levels: 2}}

A change of a chain does not change open requests: they keep the people that were found.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Self
from uuid import UUID

import asyncpg
from pydantic import AfterValidator, Field, StringConstraints

from assent.model.approval import ESCALATION, Mode, PeopleSearch, Pick
from assent.model.contract import Name
from assent.model.ids import new_id
from assent.model.parse import Declaration, parse_declaration
from assent.model.people import GroupSpec, PeopleSpec, not_a_chain
from assent.model.problems import Invalid
from assent.model.terms import Duration, not_empty, refuse, seconds_of
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.approvals", "approvals.sql")

STEPS_MAX: Final = 20


def _without_workflow(people: PeopleSpec) -> PeopleSpec:
    """Refuse approvers that need a workflow's variables or contract: a chain has neither."""
    needs = [name for name in ("rule", "permission") if getattr(people, name) is not None]
    needs += ["manager"] if isinstance(people.manager, str) else []
    if needs:
        message = f"a chain knows no workflow, so `{needs[0]}` says nothing here"
        raise refuse("BAD_VALUE", message, hint="name a role, a user or `manager: true`")
    return not_a_chain(people)


class ChainStepSpec(GroupSpec):
    name: Name
    approvers: Annotated[PeopleSpec, AfterValidator(_without_workflow)]
    due: Duration | None = None


def _steps(steps: tuple[ChainStepSpec, ...]) -> tuple[ChainStepSpec, ...]:
    counts = Counter(step.name for step in steps)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise refuse("DUPLICATE_NAME", f"every step has a name of its own; `{twice[0]}` is there twice")
    if ESCALATION in counts:
        raise refuse("RESERVED_NAME", f"`{ESCALATION}` is the group that a request is escalated to")
    return steps


class ChainSpec(Declaration):
    chain: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    entity_type: Name | None = None
    """The entity type that it is for; any by default."""
    active: bool = True
    steps: Annotated[
        tuple[ChainStepSpec, ...],
        Field(max_length=STEPS_MAX),
        AfterValidator(not_empty),
        AfterValidator(_steps),
    ]


@dataclass(frozen=True, slots=True)
class ChainStep:
    name: str
    approvers: Mapping[str, Any]
    mode: Mode = "any"
    quorum: int | None = None
    due_seconds: int | None = None

    def seek(self, subject_id: str) -> PeopleSearch:
        """Return the search for the people of this step, for the person who started the workflow."""
        declared = self.approvers
        if "user" in declared:
            return PeopleSearch("users", (declared["user"],))
        if "role" in declared:
            pick: Pick = declared.get("pick", "all")
            return PeopleSearch("roles", (declared["role"],), pick)
        return PeopleSearch("manager", (subject_id,), levels=declared.get("levels", 1))


@dataclass(frozen=True, slots=True)
class Chain:
    id: UUID
    name: str
    steps: tuple[ChainStep, ...]
    entity_type: str | None = None
    active: bool = True

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        steps = tuple(ChainStep(**step) for step in row["steps"])
        return cls(row["id"], row["name"], steps, row["entity_type"], row["active"])


async def keep_chain(connection: Connection, org_id: str, data: Mapping[str, Any], now: datetime) -> Chain:
    """Keep a chain under its name, in the place of the one that had it; raise `Invalid` with all its problems."""
    spec, problems = parse_declaration(ChainSpec, data)
    if spec is None:
        raise Invalid(problems)
    async with connection.transaction():
        head = (org_id, new_id(now), spec.chain, spec.entity_type, spec.active, now)
        chain_id: UUID = await connection.fetchval(_SQL.put_chain, *head)
        await connection.execute(_SQL.drop_chain_steps_after, org_id, chain_id, len(spec.steps))
        await connection.execute(_SQL.put_chain_steps, org_id, chain_id, [_row(step) for step in spec.steps])
    steps = tuple(ChainStep(**_row(step)) for step in spec.steps)
    return Chain(chain_id, spec.chain, steps, spec.entity_type, spec.active)


def _row(step: ChainStepSpec) -> dict[str, Any]:
    return {
        "name": step.name,
        "approvers": step.approvers.compiled(),
        "mode": step.mode,
        "quorum": step.quorum,
        "due_seconds": seconds_of(step.due) if step.due else None,
    }


async def list_chains(
    connection: Connection, org_id: str, *, after: str | None = None, limit: int | None = None
) -> Sequence[Chain]:
    """Return the org's chains by name, those that are not in use as well; or a page of them, after a name."""
    rows = await connection.fetch(_SQL.list_chains, org_id, None, after, limit)
    return [Chain.of(row) for row in rows]


async def read_chain(connection: Connection, org_id: str, name: str) -> Chain | None:
    row = await connection.fetchrow(_SQL.list_chains, org_id, name, None, None)
    return Chain.of(row) if row is not None else None


async def load_chains(
    connection: Connection, wanted: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Chain]:
    """Return the chains in use among these names of orgs."""
    names = sorted(wanted)
    if not names:
        return {}
    orgs, called = map(list, zip(*names, strict=True))
    rows = await connection.fetch(_SQL.load_active_chains, orgs, called)
    return {(row["org_id"], row["name"]): Chain.of(row) for row in rows}
