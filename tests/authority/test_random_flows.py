"""Random flows and random people: no consumed approval was given by somebody whose work it approved.

Whose work it is is computed here from what only grows: the audit log says who started the instance, who answered its
forms, and who changed the entity, and the log of documents who handed in or waived what the instance waited for, before
the decision. A failure prints the seed.
"""

import os
import random
from typing import Any, Final
from uuid import UUID

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.testing.sandbox import ORG
from tests.authority.matrix import MatrixCompany, company_with, edit_bill, new_bill, papers, patch_with

pytestmark = pytest.mark.long

ROLES: Final = ("red", "green", "blue")
NAMES: Final = ("p1", "p2", "p3", "p4", "p5")
FLOWS: Final = 12
MOVES: Final = 18
ACTS: Final = ("edit", *["submit"] * 3, *["decide"] * 4, *["flow"] * 2, *["answer"] * 3, *["wait"] * 2)
SEED: Final = int(os.environ.get("ASSENT_SEED", "20261117"))


def random_flow(name: str, dice: random.Random) -> dict[str, Any]:
    """A sequence of forms, documents, waits, blocks and approvals that ends in an approval."""
    steps: list[dict[str, Any]] = []
    arrows: list[dict[str, Any]] = []
    ends: list[tuple[str, str | None]] = []

    def add(step: dict[str, Any], *outcomes: str | None) -> None:
        arrows.extend(
            {"from": source, "to": step["id"], **({"event": on} if on else {})} for source, on in ends
        )
        steps.append(step)
        ends[:] = [(step["id"], outcome) for outcome in outcomes or (None,)]

    def approve(number: str) -> None:
        add({"id": f"ask{number}", "type": "approval", "assignee": {"role": dice.choice(ROLES)}}, "approved")
        arrows.append({"from": f"ask{number}", "event": "rejected", "to": "end"})

    def block(number: int) -> None:
        add({"id": f"fork{number}", "type": "parallel_split"})
        fork = f"fork{number}"
        left = {"id": f"l{number}", "type": "action", "assignee": {"role": dice.choice(ROLES)}}
        right = dice.choice(
            [
                {"id": f"r{number}", "type": "wait", "for": "1h"},
                {"id": f"r{number}", "type": "action", "assignee": {"role": dice.choice(ROLES)}},
            ]
        )
        steps.extend([left, right])
        arrows.extend([{"from": fork, "to": left["id"]}, {"from": fork, "to": right["id"]}])
        ends[:] = [(left["id"], None), (right["id"], None)]
        add({"id": f"both{number}", "type": "parallel_join", "mode": dice.choice(["all", "any"])})

    for number in range(dice.randint(1, 5)):
        kind = dice.choice(["form", "form", "documents", "documents", "wait", "event", "block", "approval"])
        if kind == "form":
            add({"id": f"f{number}", "type": "action", "assignee": {"role": dice.choice(ROLES)}})
        elif kind == "wait":
            add({"id": f"w{number}", "type": "wait", "for": "1h"})
        elif kind == "documents":
            add(papers(f"d{number}", f"paper{number}"))
        elif kind == "event":
            add({"id": f"e{number}", "type": "wait", "key": f"{name}:{number}"})
        elif kind == "block":
            block(number)
        else:
            approve(str(number))
    approve("last")
    add({"id": "end", "type": "terminal"})
    return {"flow": name, "version": 1, "start": steps[0]["id"], "steps": steps, "transitions": arrows}


async def move(company: MatrixCompany, name: str, dice: random.Random) -> None:
    """Do one thing that could move the instance; most of what is tried is refused."""
    who = await company.actor(dice.choice(NAMES))
    waiting = await company.rows(
        """SELECT s.node_id, s.node_type, r.id AS request_id
             FROM assent.workflow_step_executions s
             LEFT JOIN assent.approval_requests r ON r.step_id = s.id
            WHERE s.instance_id = $1 AND s.status = 'pending' ORDER BY s.id""",
        company.instance_id,
    )
    if not waiting or dice.random() < 0.2:
        await company.sandbox.advance_time("1h")
        return
    step = dice.choice(waiting)
    try:
        if step["node_type"] == "approval":
            await company.runtime.org(ORG, who).approvals.decide(step["request_id"], "approved")
        elif step["node_type"] == "form":
            data = {"said": dice.random()}
            await company.runtime.org(ORG, who).instances.advance(
                company.instance_id, "completed", data, step=step["node_id"]
            )
        elif step["node_type"] == "requirements":
            await provide_document(company, step["node_id"].replace("d", "paper"), who, dice)
        elif step["node_type"] == "wait_event":
            number = step["node_id"].removeprefix("e")
            await company.runtime.org(ORG).events.emit(f"{name}:{number}", {})
            await company.sandbox.drain()
        else:
            await company.sandbox.advance_time("1h")
    except Refused:
        pass


async def provide_document(company: MatrixCompany, doc_type: str, who: Actor, dice: random.Random) -> None:
    """Hand in or waive the document that a step waits for, or review it where it was handed in."""
    (wanted,) = await company.rows(
        "SELECT * FROM assent.document_requirements WHERE instance_id = $1 AND doc_type = $2",
        company.instance_id,
        doc_type,
    )
    org = company.runtime.org(ORG, who)
    if wanted["status"] != "missing":
        await org.documents.verify(wanted["document_id"], wanted["version_id"])
    elif dice.random() < 0.3:
        await org.requirements.waive(wanted["id"], "known for years")
    else:
        document = await org.documents.create(doc_type, wanted["subject"], requirement_id=wanted["id"])
        await org.documents.add_version(document.id, structured_data={"number": dice.random()})
    await company.sandbox.drain()


async def consumed(company: MatrixCompany) -> list[tuple[str, set[str], set[str]]]:
    """Of each consumed approval: its request, who approved it, and whose work it was, by the audit log."""
    requests = await company.rows(
        """SELECT r.id, r.instance_id, r.entity_id, d.approver_id, d.on_behalf_of
             FROM assent.approval_requests r JOIN assent.approval_decisions d ON d.request_id = r.id
            WHERE r.applied_at IS NOT NULL AND d.decision = 'approved'"""
    )
    log = await company.rows("SELECT * FROM assent.audit_log ORDER BY id")
    written = await company.rows(
        """SELECT instance_id, output_json -> 'mutation' AS mutation FROM assent.workflow_step_executions
            WHERE node_type = 'action' AND output_json -> 'mutation' ->> 'audit_id' IS NOT NULL"""
    )
    provided = await company.rows(
        """SELECT r.instance_id, e.id, e.actor_id FROM assent.document_requirements r
             JOIN assent.document_events e ON e.requirement_id = r.id OR e.document_id = r.document_id
            WHERE e.type IN ('created', 'version_uploaded', 'waived')"""
    )
    found = []
    for request in requests:
        decided = next(
            row["id"]
            for row in log
            if row["action"] == "approval.decide"
            and row["details"]["request_id"] == str(request["id"])
            and row["actor_id"] == request["approver_id"]
        )
        people: set[str] = set()
        flows = {
            step["instance_id"]
            for step in written
            if step["mutation"]["entity_id"] == str(request["entity_id"])
            and UUID(step["mutation"]["audit_id"]) < decided
        }
        for row in log:
            about = row["instance_id"] in {request["instance_id"], *flows} or (
                request["entity_id"] is not None and request["entity_id"] == row["entity_id"]
            )
            worked = row["action"] in ("workflow.start", "workflow.advance") or row["changes"]
            if about and worked and row["id"] < decided:
                people |= {row["actor_id"], *(row.get("on_behalf_of") or ())}
        people |= {
            row["actor_id"]
            for row in provided
            if row["instance_id"] == request["instance_id"] and row["id"] < decided
        }
        approvers = {request["approver_id"], request["on_behalf_of"]} - {None}
        found.append((str(request["id"]), approvers, people))
    return found


async def test_no_approver_is_among_those_whose_work_was_approved(postgres_url: str) -> None:
    dice = random.Random(SEED)  # noqa: S311 - a seed, not a secret
    flows = [random_flow(f"random{number}", dice) for number in range(FLOWS)]
    async with company_with(postgres_url, *flows) as company:
        rights = ["documents:write", "documents:review", "requirements:waive"]
        await company.sandbox.roles(**dict.fromkeys(ROLES, rights))
        for flow in flows:
            await company.sandbox.people(
                **{name: dice.sample(ROLES, dice.randint(0, len(ROLES))) for name in NAMES}
            )
            starter = await company.actor(dice.choice(NAMES))
            company.instance_id = (await company.runtime.org(ORG, starter).instances.start(flow["flow"])).id
            for _ in range(MOVES):
                await move(company, flow["flow"], dice)
        found = await consumed(company)
        assert len(found) > FLOWS / 3, f"seed {SEED}: too few approvals were consumed to say anything"
        own = [(request, approvers & people) for request, approvers, people in found if approvers & people]
        assert not own, f"seed {SEED}: approved their own work: {own}"
        documents = await company.rows("SELECT type FROM assent.document_events")
        assert {"version_uploaded", "verified", "waived"} <= {row["type"] for row in documents}


async def test_no_approver_of_a_document_is_among_those_who_wrote_it(postgres_url: str) -> None:
    """The same of documents that people and flows edit, submit, amend and approve in any order."""
    dice = random.Random(SEED + 1)  # noqa: S311 - a seed, not a secret
    write = {
        "flow": "write",
        "version": 1,
        "start": "fill",
        "steps": [
            {"id": "fill", "type": "action", "assignee": {"role": "green"}},
            {"id": "pause", "type": "wait", "for": "1h"},
            {
                "id": "write",
                "type": "mutation",
                "action": "bill.update",
                "entity": "workflow.target",
                "payload": {"total": "{workflow.total}"},
                "run_as": "system",
            },
            {"id": "end", "type": "terminal"},
        ],
        "transitions": [
            {"from": "fill", "to": "pause"},
            {"from": "pause", "to": "write"},
            {"from": "write", "to": "end"},
            {"from": "write", "event": "error", "to": "end"},
        ],
    }
    slot = {
        "nodes": [{"id": "ask", "type": "approval", "approvers": {"role": "red"}}],
        "edges": [{"from": "in", "to": "ask"}, {"from": "ask", "to": "out", "on": "approved"}],
    }
    async with company_with(postgres_url, write, patch_with(submitted_to_approved=slot)) as company:
        await company.sandbox.roles(red=["bill:*"], green=["bill:*"], blue=["bill:*"])
        for _ in range(8):
            people = {name: dice.sample(ROLES, dice.randint(1, len(ROLES))) for name in NAMES}
            await company.sandbox.people(**people)
            await new_bill(company, dice.choice(NAMES))
            for _ in range(24):
                await act_on_bill(company, dice)
        found = await consumed(company)
        assert len(found) > 2, f"seed {SEED}: too few approvals were consumed to say anything"
        own = [(request, approvers & people) for request, approvers, people in found if approvers & people]
        assert not own, f"seed {SEED}: approved their own work: {own}"


async def act_on_bill(company: MatrixCompany, dice: random.Random) -> None:
    who = dice.choice(NAMES)
    actor = await company.actor(who)
    try:
        match dice.choice(ACTS):
            case "edit":
                await edit_bill(company, who, total=dice.randint(1, 10_000))
            case "submit":
                await company.runtime.org(ORG, actor).entities.transition(company.entity_id, "submit")
            case "decide":
                request = await company.rows(
                    "SELECT id FROM assent.approval_requests WHERE entity_id = $1 AND status = 'pending'",
                    company.entity_id,
                )
                if request:
                    await company.runtime.org(ORG, actor).approvals.decide(request[0]["id"], "approved")
            case "flow":
                target = {"target": str(company.entity_id)}
                await company.runtime.org(ORG, actor).instances.start("write", target)
            case "answer":
                forms = await company.rows(
                    """SELECT instance_id FROM assent.workflow_step_executions
                        WHERE status = 'pending' AND node_type = 'form'"""
                )
                if forms:
                    total = {"total": dice.randint(1, 10_000)}
                    await company.runtime.org(ORG, actor).instances.advance(
                        forms[-1]["instance_id"], "completed", total
                    )
            case _:
                await company.sandbox.advance_time("1h")
    except Refused:
        pass
