"""The rights matrix: a step that writes, in three shapes of work, behind every wait.

`hans` holds the right to the write and `wim` does not; `bot` is the service account that a step may run as. `olga`, who
retries, skips, pauses and resumes, holds the right as well: an operator never lends it. In the shape `entity` the gate
behind the write asks a right of its own, that of the person who submitted.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from assent.model.mutation import Command
from assent.testing.sandbox import ORG
from tests.authority.matrix import (
    AMENDMENT,
    APPROVAL,
    ASK_IN_SLOT,
    BILL,
    Between,
    MatrixCompany,
    edges_between,
    flow_of,
)

DEED: Final[dict[str, Any]] = {
    **BILL,
    "contract": "deed",
    "fields": {**BILL["fields"], "seal": {"type": "money", "system": True}},
    "permissions": {"create": ["clerk"], "update": ["hr"], "submit": ["clerk"]},
}
SALARY: Final[dict[str, Any]] = {
    "contract": "salary",
    "version": 1,
    "workflow": "none",
    "fields": {"amount": {"type": "money", "required": True}},
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}},
    "permissions": {"create": ["hr"], "update": ["hr"]},
}
BEGIN: Final = {"id": "begin", "type": "script", "set": {"begun": "true"}}
RUN_AS_BOT: Final = {"run_as": "service_account", "service_account": "bot"}
WRITER: Final = "write"
"""The step that acts, in every shape."""


@dataclass(frozen=True)
class RightsCase:
    """Who is behind the step, what happens to their rights during the wait, and whether the step may act."""

    person: str
    acts: bool
    people: Mapping[str, Any] = field(default_factory=dict)
    """Members who are different from the beginning on."""
    meanwhile: Mapping[str, Any] = field(default_factory=dict)
    """Members who are different once the wait has begun."""


STAFF: Final[Mapping[str, Any]] = {
    "hans": ["clerk", "hr"],
    "wim": ["clerk"],
    "kim": ["helper"],
    "olga": ["operator", "hr"],
    "bot": {"kind": "service_account", "roles": ["hr"]},
}
AS_ITS_PERSON: Final = {
    "held": RightsCase("hans", True, people={"kim": ["helper", "hr"]}),
    "never held": RightsCase("wim", False),
    "deactivated": RightsCase("hans", False, meanwhile={"hans": {"roles": ["clerk", "hr"], "active": False}}),
    "role taken": RightsCase("hans", False, meanwhile={"hans": ["clerk"]}),
}
AS_AN_ACCOUNT: Final = {
    "held by the account": RightsCase("wim", True),
    "never held by the account": RightsCase(
        "hans", False, people={"bot": {"kind": "service_account", "roles": []}}
    ),
    "account deactivated": RightsCase(
        "hans", False, meanwhile={"bot": {"kind": "service_account", "roles": ["hr"], "active": False}}
    ),
    "account's role taken": RightsCase(
        "hans", False, meanwhile={"bot": {"kind": "service_account", "roles": []}}
    ),
}
BEHIND_THE_GATE: Final = {
    "submitter deactivated": RightsCase(
        "wim", False, meanwhile={"wim": {"roles": ["clerk"], "active": False}}
    ),
    "submitter's role taken": RightsCase("wim", False, meanwhile={"wim": []}),
}
"""The step may act, as the account that it runs as; the gate behind it may not."""


@dataclass(frozen=True)
class WriteShape:
    """A kind of work: what is published for it, and how a person brings it to the wait before the step."""

    sources: Callable[[Between, Mapping[str, Any]], list[Any]]
    begin: Callable[[MatrixCompany, Between, str], Awaitable[UUID]]
    """Bring the work to the wait, on behalf of this person; return the id of the entity that the step writes."""
    has_gate: bool = False

    def cases(self, between: Between, *, as_account: bool) -> dict[str, RightsCase]:
        """Return the cases of a cell; without a wait nothing can happen meanwhile."""
        found = dict(AS_AN_ACCOUNT if as_account else AS_ITS_PERSON)
        if as_account and self.has_gate:
            found |= BEHIND_THE_GATE
        if between is AMENDMENT:  # the account has written before
            found.pop("never held by the account", None)
        return {name: case for name, case in found.items() if between.nodes or not case.meanwhile}


# Entity: the step writes its own document, in the slots before the gate `submit`, of a draft and of an amendment.


def _deed_sources(between: Between, run_as: Mapping[str, Any]) -> list[Any]:
    write = {
        "id": WRITER,
        "type": "action",
        "action": "deed.update",
        "payload": {"seal": "{entity.total}"},
        **run_as,
    }
    edges = [{"from": a, "to": b} for a, b, _ in edges_between(between, "in", WRITER)]
    slot = {"nodes": [*between.nodes, write], "edges": [*edges, {"from": WRITER, "to": "out"}]}
    return [DEED, _patch(draft_to_submit=slot, amendment_cycle=slot)]


def _patch(**slots: Any) -> dict[str, Any]:
    slots["submitted_to_approved"] = ASK_IN_SLOT
    named = {f"slot:{name}": slot for name, slot in slots.items()}
    return {"patch": "deed", "base": {"entity_type": "deed", "envelope_version": 1}, "slots": named}


async def _submit_deed(company: MatrixCompany, between: Between, person: str) -> UUID:
    deed = await _new_deed(company)
    if between is AMENDMENT:  # it was asked before, then edited, and is submitted again
        await _submit(company, deed, "hans")
        await between.pass_(company)
        await company.open_request()
        await _edit_deed(company, deed)
    await _submit(company, deed, person)
    return deed


async def _new_deed(company: MatrixCompany) -> UUID:
    data = {"number": "1", "total": 100}
    command = Command(ORG, "deed.create", await company.actor("hans"), data)
    mutation = await company.runtime.core.kernel.mutate(command)
    await company.sandbox.drain()
    company.instance_id = mutation.entity.instance_id
    company.entity_id = found = mutation.entity.id
    assert found is not None
    return found


async def _edit_deed(company: MatrixCompany, deed: UUID) -> None:
    hans = await company.actor("hans")
    await company.runtime.core.kernel.mutate(Command(ORG, "deed.update", hans, {"total": 200}, deed))
    await company.sandbox.drain()


async def _submit(company: MatrixCompany, deed: UUID, person: str) -> None:
    await company.runtime.org(ORG, await company.actor(person)).entities.transition(deed, "submit")


# Flow: the step writes an entity that has no workflow.


def _salary_sources(between: Between, run_as: Mapping[str, Any]) -> list[Any]:
    write = _write_target("salary.update", {"amount": "{workflow.amount}"}, run_as)
    if between is AMENDMENT:  # a rejection leads back to the form
        fill_in = {"id": "form", "type": "action", "assignee": {"role": "clerk"}}
        return [SALARY, flow_of("raise", [fill_in], between, [write, APPROVAL], rejected="form")]
    return [SALARY, flow_of("raise", [BEGIN], between, [write])]


def _write_target(action: str, payload: Mapping[str, Any], run_as: Mapping[str, Any]) -> dict[str, Any]:
    target = {"entity": "workflow.target", "payload": payload, "output": {"read": "result"}}
    return {"id": WRITER, "type": "mutation", "action": action, **target, **run_as}


async def _start_raise(company: MatrixCompany, between: Between, person: str) -> UUID:
    hans = await company.actor("hans")
    salary = await company.runtime.core.kernel.mutate(
        Command(ORG, "salary.create", hans, {"amount": 999_999})
    )
    company.entity_id = found = salary.entity.id
    given = {"target": str(found), "amount": 1}
    if between is not AMENDMENT:
        await _start(company, "raise", person, given)
        return found
    await _start(company, "raise", "hans", given)
    await _fill_in(company, "hans", 2)
    await between.pass_(company)
    request = await company.open_request()
    await company.runtime.org(ORG, await company.actor("fin")).approvals.decide(request["id"], "rejected")
    await _fill_in(company, person, 3)
    return found


async def _start(company: MatrixCompany, flow: str, person: str, given: Mapping[str, Any]) -> None:
    view = await company.runtime.org(ORG, await company.actor(person)).instances.start(flow, given)
    company.instance_id = view.id


async def _fill_in(company: MatrixCompany, person: str, amount: int) -> None:
    actor = await company.actor(person)
    await company.runtime.org(ORG, actor).instances.advance(
        company.instance_id, "completed", {"amount": amount}
    )


# Entity written by a flow: the step writes a document that has a workflow of its own.


def _deed_and_flow_sources(between: Between, run_as: Mapping[str, Any]) -> list[Any]:
    write = _write_target("deed.update", {"total": 990_000}, run_as)
    return [DEED, _patch(), flow_of("rewrite", [BEGIN], between, [write])]


async def _start_rewrite(company: MatrixCompany, between: Between, person: str) -> UUID:
    deed = await _new_deed(company)
    if between is AMENDMENT:  # what the step writes is what others were asked to approve
        await _submit(company, deed, "hans")
        await company.open_request()
    await _start(company, "rewrite", person, {"target": str(deed)})
    return deed


SHAPES: Final = {
    "entity": WriteShape(_deed_sources, _submit_deed, has_gate=True),
    "flow": WriteShape(_salary_sources, _start_raise),
    "entity written by a flow": WriteShape(_deed_and_flow_sources, _start_rewrite),
}


@dataclass(frozen=True)
class CaseResult:
    """What came of a case: where the acting instance stands, and how often its step has written."""

    status: str | None
    """None where a refused start left no instance."""
    incident: str | None
    writes: int
    state: str
    has_read: bool

    @classmethod
    async def look(cls, company: MatrixCompany, entity: UUID) -> "CaseResult":
        found = await company.rows(
            "SELECT status, incident, context_json FROM assent.workflow_instances WHERE id = $1",
            company.instance_id,
        )
        instance = found[0] if found else {"status": None, "incident": None, "context_json": {}}
        (state,) = await company.rows("SELECT state FROM assent.entities WHERE id = $1", entity)
        incident = instance["incident"] or {}
        writes = len(await written_rows(company, entity))
        has_read = "read" in instance["context_json"]
        return cls(instance["status"], incident.get("code"), writes, state["state"], has_read)


async def written_rows(company: MatrixCompany, entity: UUID) -> list[Mapping[str, Any]]:
    """Return the audit entries of what the step wrote, in order."""
    return await company.rows(
        "SELECT * FROM assent.audit_log WHERE entity_id = $1 AND reason = $2 ORDER BY to_version",
        entity,
        f"step {WRITER}",
    )
