"""The authority matrix: one company, four shapes of work, and everything that can lie between.

`dual` has a part in the content and holds the approvers' roles as well. Whatever happens between the work and the
approval, nobody may forget it. `fin` is the other approver; the second approval, which `flo` could give, is left to its
default.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.app import App
from assent.model.actor import Actor
from assent.model.mutation import Command, Entity, Refused, Rejection
from assent.runtime import InstanceView
from assent.testing.sandbox import ORG, Sandbox
from assent.testing.scenarios.perform import answer_effect, push_result
from tests.world import APPROVED_LIFECYCLE

PEOPLE: Final = {
    "ann": ["clerk"],
    "dual": ["clerk", "finance", "treasury"],
    "fin": ["finance"],
    "flo": ["treasury"],
    "kim": ["helper"],
    "olga": ["operator"],
    "adm": ["admin"],
}
ROLES: Final = {
    "operator": ["workflows:*", "approvals:reassign", "approvals:delegate", "documents:review"],
    "admin": ["*"],
    "helper": ["bill:update", "documents:write"],
    "treasury": ["documents:write"],
}
BILL: Final[dict[str, Any]] = {
    "contract": "bill",
    "version": 1,
    "fields": {
        "number": {"type": "text", "required": True},
        "total": {"type": "money", "required": True},
        "checked": {"type": "boolean", "system": True},
    },
    "lifecycle": APPROVED_LIFECYCLE,
    "permissions": {"create": ["clerk"], "update": ["clerk"], "submit": ["clerk"]},
}
APPROVAL: Final[dict[str, Any]] = {
    "id": "ask",
    "type": "approval",
    "approvers": {"role": "finance"},
    "escalate": {"after": "20d", "to": {"user": "dual"}},
}
BY_DEFAULT: Final[dict[str, Any]] = {
    "id": "late",
    "type": "approval",
    "approvers": {"role": "treasury"},
    "timeout": "1d",
    "default": "approved",
}
"""The second approval: time gives it."""


@dataclass
class MatrixCompany:
    """A sandbox with the people of the matrix, and the counters of the application's own functions."""

    sandbox: Sandbox
    calls: dict[str, int] = field(default_factory=dict)
    instance_id: UUID | None = None
    entity_id: UUID | None = None
    trying: str = "dual"
    """Who tries the routes to an approval."""

    async def actor(self, name: str) -> Actor:
        return await self.sandbox.actor(name)

    @property
    def runtime(self) -> Any:
        return self.sandbox.runtime

    async def rows(self, sql: str, *arguments: Any) -> list[Mapping[str, Any]]:
        async with self.sandbox.database.transaction(None) as connection:
            return [dict(row) for row in await connection.fetch(sql, *arguments)]

    async def view(self) -> InstanceView:
        """The instance that asks for the approval, as it stands."""
        assert self.instance_id is not None
        work = await self.rows(
            "SELECT status, current_nodes, incident FROM assent.workflow_instances WHERE id = $1",
            self.instance_id,
        )
        return work[0]  # type: ignore[return-value]

    async def open_request(self) -> Mapping[str, Any]:
        found = await self.rows(
            "SELECT * FROM assent.approval_requests WHERE instance_id = $1 AND status = 'pending'",
            self.instance_id,
        )
        assert len(found) == 1, (found, await self.view())
        return found[0]

    async def resting_step(self, node_name: str) -> UUID:
        rows = await self.rows(
            """SELECT id, node_id FROM assent.workflow_step_executions
                WHERE instance_id = $1 AND status = 'pending'""",
            self.instance_id,
        )
        assert len(rows) == 1, (node_name, rows)
        found: UUID = rows[0]["id"]
        return found


def application(calls: dict[str, int], contracts: Sequence[Any] = ()) -> App:
    app = App([BILL, *contracts])

    @app.operation("tool.first_time_refused")
    def first_time_refused(connection: Any, arguments: dict[str, Any]) -> None:
        calls["refused"] = calls.get("refused", 0) + 1
        if calls["refused"] == 1:
            raise Refused(Rejection("NOT_READY", "the other system is not ready"))

    @app.operation("tool.first_time_cut_off")
    async def first_time_cut_off(connection: Any, arguments: dict[str, Any]) -> None:
        """Take the worker's connection away in the middle of its batch, as a crash does."""
        calls["cut"] = calls.get("cut", 0) + 1
        if calls["cut"] == 1:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    @app.task("tool.look")
    async def look(task: Any, number: int = 0) -> dict[str, Any]:
        return {"looked": True}

    return app


app = application({})
"""For the command line, which is told where the application is."""


# What can lie between the work and the approval: nodes for a slot or a flow, and how it is passed.


@dataclass(frozen=True)
class Between:
    """Nodes between the work and the approval; `pass_` is what has to happen for the token to go on."""

    name: str
    nodes: tuple[dict[str, Any], ...]
    pass_: Callable[[MatrixCompany], Awaitable[None]]
    edges: tuple[tuple[str, str, str | None], ...] | None = None
    """Edges among the nodes where they are no plain sequence: (from, to, outcome)."""


async def pass_nothing(company: MatrixCompany) -> None:
    pass


async def _time(company: MatrixCompany) -> None:
    await company.sandbox.advance_time("2h")


async def _event(company: MatrixCompany) -> None:
    await company.runtime.org(ORG).events.emit("parcel:7", {"weight": 2})
    await company.sandbox.drain()


async def _form_of_kim(company: MatrixCompany) -> None:
    await company.runtime.org(ORG, await company.actor("kim")).instances.advance(
        company.instance_id, "completed", {}
    )


async def _task(company: MatrixCompany) -> None:
    await company.sandbox.drain()


async def _answered_webhook(company: MatrixCompany) -> None:
    assert await answer_effect(company.sandbox, await company.resting_step("call"), {"ok": True})
    await company.sandbox.drain()


async def _result(company: MatrixCompany) -> None:
    step = await company.resting_step("call")
    assert await push_result(company.sandbox, step, "k1", {"items": [{"cargo": "external://vault/7"}]})
    await company.sandbox.drain()


async def _both_branches(company: MatrixCompany) -> None:
    await company.sandbox.advance_time("3h")


async def _retried(company: MatrixCompany) -> None:
    assert (await company.view())["status"] == "paused"  # type: ignore[index]
    await company.runtime.org(ORG, await company.actor("olga")).instances.retry(company.instance_id)


async def _skipped(company: MatrixCompany) -> None:
    (failed,) = await company.rows(
        """SELECT node_id FROM assent.workflow_step_executions
            WHERE instance_id = $1 AND status = 'failed'""",
        company.instance_id,
    )
    (edge,) = await company.rows(
        """SELECT e.key AS id FROM assent.workflow_instances i
             JOIN assent.workflow_definitions d ON d.id = i.definition_id
            CROSS JOIN LATERAL jsonb_each(d.compiled_json -> 'edges') e
            WHERE i.id = $1 AND e.value ->> 'source' = $2 AND e.value ->> 'label' = 'completed'""",
        company.instance_id,
        failed["node_id"],
    )
    olga = await company.actor("olga")
    await company.runtime.org(ORG, olga).instances.skip(
        company.instance_id, failed["node_id"], edge["id"], "by hand"
    )


async def _paused_and_resumed(company: MatrixCompany) -> None:
    olga = await company.actor("olga")
    await company.runtime.org(ORG, olga).instances.pause(company.instance_id, "look at it")
    await company.sandbox.advance_time("2h")
    await company.runtime.org(ORG, olga).instances.resume(company.instance_id)
    await company.sandbox.advance_time("1m")


async def _document_of_kim(company: MatrixCompany) -> None:
    await hand_in(company, "kim")


async def hand_in(company: MatrixCompany, by: str | Actor) -> None:
    """Hand in the document that the instance waits for; `olga` reviews it."""
    (missing,) = await company.rows(
        """SELECT id, subject, doc_type FROM assent.document_requirements
            WHERE instance_id = $1 AND status = 'missing'""",
        company.instance_id,
    )
    sender = by if isinstance(by, Actor) else await company.actor(by)
    documents = company.runtime.org(ORG, sender).documents
    document = await documents.create(missing["doc_type"], missing["subject"], requirement_id=missing["id"])
    version = await documents.add_version(document.id, structured_data={"number": 7})
    reviewing = company.runtime.org(ORG, await company.actor("olga")).documents
    await reviewing.verify(document.id, version.id)
    await company.sandbox.drain()


async def _recovered(company: MatrixCompany) -> None:
    # The connection of the first batch goes away; another attempt follows.
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        await company.sandbox.advance_time("2h")
    await company.sandbox.advance_time("1d")
    assert company.calls["cut"] == 2


def papers(name: str, doc_type: str) -> dict[str, Any]:
    """A step that waits for a document of the person with whom the instance began."""
    wanted = {"type": "requirement_satisfied", "doc_type": doc_type, "subject": "$subject_id"}
    return {"id": name, "type": "requirements", "requirements": [wanted]}


WAIT: Final = {"id": "pause", "type": "wait_timer", "for": "1h"}
REFUSED: Final = {"id": "call", "type": "system", "operation": {"sdk": "tool.first_time_refused"}}
BETWEENS: Final = (
    Between("nothing", (), pass_nothing),
    Between("timer", (WAIT,), _time),
    Between("event", ({"id": "parcel", "type": "wait_event", "key": "parcel:7"},), _event),
    Between(
        "another's form", ({"id": "fill", "type": "form", "assignee": {"role": "helper"}},), _form_of_kim
    ),
    Between("documents", (papers("proof", "proof"),), _document_of_kim),
    Between("task", ({"id": "look", "type": "task", "task": "tool.look"},), _task),
    Between(
        "awaited webhook",
        ({"id": "call", "type": "webhook_out", "url": "https://erp.example/x", "await": True},),
        _answered_webhook,
    ),
    Between(
        "result",
        (
            {
                "id": "call",
                "type": "webhook_out",
                "url": "https://kyc.example/x",
                "await": "result",
                "expects": 1,
            },
        ),
        _result,
    ),
    Between(
        "parallel join",
        (
            {"id": "fork", "type": "parallel_split"},
            {"id": "one", "type": "wait_timer", "for": "1h"},
            {"id": "two", "type": "wait_timer", "for": "2h"},
            {"id": "both", "type": "parallel_join", "mode": "all"},
        ),
        _both_branches,
        (("fork", "one", None), ("fork", "two", None), ("one", "both", None), ("two", "both", None)),
    ),
    Between("retry by an operator", (REFUSED,), _retried),
    Between("skip by an operator", (REFUSED,), _skipped),
    Between("pause and resume", (WAIT,), _paused_and_resumed),
    Between(
        "crash and recovery",
        (WAIT, {"id": "call", "type": "system", "operation": {"sdk": "tool.first_time_cut_off"}}),
        _recovered,
    ),
)


AMENDMENT: Final = Between("amendment", (WAIT,), _time)
"""What was asked is edited and asked again; how depends on the shape."""
MATRIX_BETWEENS: Final = (*BETWEENS, AMENDMENT)


def in_slot(between: Between, slot: str, ends: tuple[str, str] = ("in", "out")) -> dict[str, Any]:
    """The nodes of a slot that has these between its ends."""
    first, last = ends
    edges = [
        {"from": a, "to": b, **({"on": on} if on else {})} for a, b, on in edges_between(between, first, last)
    ]
    return {"nodes": list(between.nodes), "edges": edges}


def edges_between(between: Between, first: str, last: str) -> list[tuple[str, str, str | None]]:
    names = [node["id"] for node in between.nodes]
    if between.edges is not None:
        return [(first, names[0], None), *between.edges, (names[-1], last, None)]
    return [(a, b, None) for a, b in zip([first, *names], [*names, last], strict=True)]


_FLOW_TYPES: Final = {"form": "action", "wait_timer": "wait", "wait_event": "wait"}


def flow_of(
    name: str,
    before: list[dict[str, Any]],
    between: Between,
    after: list[dict[str, Any]],
    rejected: str = "end",
) -> Any:
    """A flow: `before`, then what lies between, then `after`, then the end; a rejection leads to `rejected`."""
    nodes = [{**n, "type": _FLOW_TYPES.get(n["type"], n["type"])} for n in between.nodes]
    steps = [*before, *nodes, *after, {"id": "end", "type": "terminal"}]
    arrows = [{"from": a["id"], "to": b["id"]} for a, b in pairwise(before)]
    arrows += [{"from": a, "to": b} for a, b, _ in edges_between(between, before[-1]["id"], after[0]["id"])]
    for step, following in pairwise([*after, {"id": "end"}]):
        asks = step["type"] == "approval"
        arrows.append(
            {"from": step["id"], "event": "approved" if asks else "completed", "to": following["id"]}
        )
        if asks:
            arrows.append({"from": step["id"], "event": "rejected", "to": rejected})
    return {"flow": name, "version": 1, "start": steps[0]["id"], "steps": steps, "transitions": arrows}


def patch_with(**slots: Any) -> dict[str, Any]:
    named = {f"slot:{name}": slot for name, slot in slots.items()}
    return {"patch": "bill", "base": {"entity_type": "bill", "envelope_version": 1}, "slots": named}


ASK_IN_SLOT: Final = {
    "nodes": [APPROVAL],
    "edges": [{"from": "in", "to": "ask"}, {"from": "ask", "to": "out", "on": "approved"}],
}


ASK_TWICE_IN_SLOT: Final = {
    "nodes": [APPROVAL, BY_DEFAULT],
    "edges": [
        {"from": "in", "to": "ask"},
        {"from": "ask", "to": "late", "on": "approved"},
        {"from": "late", "to": "out", "on": "approved"},
    ],
}


@asynccontextmanager
async def company_with(postgres_url: str, *sources: Any, contracts: Sequence[Any] = ()) -> Any:
    calls: dict[str, int] = {}
    async with Sandbox(application(calls, contracts), sources, server=postgres_url) as sandbox:
        await sandbox.people(**PEOPLE)
        await sandbox.roles(**ROLES)
        yield MatrixCompany(sandbox, calls)


async def new_bill(company: MatrixCompany, by: str, **data: Any) -> Entity:
    command = Command(ORG, "bill.create", await company.actor(by), {"number": "1", "total": 100, **data})
    mutation = await company.runtime.core.kernel.mutate(command)
    await company.sandbox.drain()
    company.entity_id = mutation.entity.id
    company.instance_id = mutation.entity.instance_id
    found: Entity = mutation.entity
    return found


async def edit_bill(company: MatrixCompany, by: str, **data: Any) -> None:
    actor = await company.actor(by)
    await company.runtime.core.kernel.mutate(Command(ORG, "bill.update", actor, data, company.entity_id))
    await company.sandbox.drain()


async def submit(company: MatrixCompany, by: str) -> None:
    await company.runtime.org(ORG, await company.actor(by)).entities.transition(company.entity_id, "submit")


# The three shapes: each ends where the approval is asked, and `dual` has had a part in what it is about.


async def submitted_by_dual(company: MatrixCompany, between: Between) -> None:
    await new_bill(company, "ann")
    await submit(company, "dual")
    await between.pass_(company)


async def edited_by_dual(company: MatrixCompany, between: Between) -> None:
    await new_bill(company, "ann")
    await submit(company, "ann")
    await between.pass_(company)
    await edit_bill(company, "dual", total=200)
    await submit(company, "ann")
    await between.pass_(company)


async def filled_in_by_dual(company: MatrixCompany, between: Between) -> None:
    await _start_claim(company)
    await _fill_in(company, "dual")
    await between.pass_(company)


async def filled_in_again_by_dual(company: MatrixCompany, between: Between) -> None:
    """A rejected flow goes back to its form: what is asked then is what `dual` made of it."""
    await _start_claim(company)
    await _fill_in(company, "ann")
    await between.pass_(company)
    request = await company.open_request()
    await company.runtime.org(ORG, await company.actor("fin")).approvals.decide(request["id"], "rejected")
    await _fill_in(company, "dual")
    await between.pass_(company)


async def _start_claim(company: MatrixCompany) -> None:
    view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("claim")
    company.instance_id = view.id


async def _fill_in(company: MatrixCompany, by: str) -> None:
    actor = await company.actor(by)
    await company.runtime.org(ORG, actor).instances.advance(company.instance_id, "completed", {"amount": 5})


async def handed_in_by_dual(company: MatrixCompany, between: Between) -> None:
    view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("intake")
    company.instance_id = view.id
    await hand_in(company, "dual")
    await between.pass_(company)


async def handed_in_again_by_dual(company: MatrixCompany, between: Between) -> None:
    """The document is required anew, and the rejected flow goes back to its step: what is asked then is `dual`'s."""
    view = await company.runtime.org(ORG, await company.actor("ann")).instances.start("intake")
    company.instance_id = view.id
    await hand_in(company, "kim")
    await between.pass_(company)
    (row,) = await company.rows(
        "SELECT id FROM assent.document_requirements WHERE instance_id = $1", company.instance_id
    )
    administering = company.runtime.org(ORG, await company.actor("adm"))
    await administering.requirements.reset(row["id"], "a newer one")
    request = await company.open_request()
    await company.runtime.org(ORG, await company.actor("fin")).approvals.decide(request["id"], "rejected")
    await hand_in(company, "dual")
    await between.pass_(company)


async def written_by_a_flow_of_dual(company: MatrixCompany, between: Between) -> None:
    await new_bill(company, "ann")
    await _launder(company, between)
    await submit(company, "ann")


async def amended_by_a_flow_of_dual(company: MatrixCompany, between: Between) -> None:
    await new_bill(company, "ann")
    await submit(company, "ann")
    asked = await company.open_request()
    await _launder(company, between)
    await submit(company, "ann")
    assert (await company.open_request())["id"] != asked["id"], "what is asked now is the amended bill"


async def _launder(company: MatrixCompany, between: Between) -> None:
    """Let a flow that `dual` started write the bill, behind what lies between."""
    target = {"target": str(company.entity_id)}
    view = await company.runtime.org(ORG, await company.actor("dual")).instances.start("launder", target)
    asking, company.instance_id = company.instance_id, view.id
    await between.pass_(company)
    company.instance_id = asking
    await company.sandbox.drain()
    (row,) = await company.rows(
        "SELECT data ->> 'total' AS total FROM assent.current_entities WHERE id = $1", company.entity_id
    )
    assert row["total"] == "990000", "the flow has written"


@dataclass(frozen=True)
class ApprovalShape:
    """A kind of work: what is published for it, and how it comes to the approval."""

    sources: Callable[[Between], list[Any]]
    work: Callable[[MatrixCompany, Between], Awaitable[None]]
    amended: Callable[[MatrixCompany, Between], Awaitable[None]]
    """The same where `dual` edits what others were asked to approve."""

    async def ask(self, company: MatrixCompany, between: Between) -> None:
        """Let everything happen until the approval is asked."""
        await (self.amended if between is AMENDMENT else self.work)(company, between)


def _bill(between: Between) -> list[Any]:
    slots = {"draft_to_submit": in_slot(between, "")} if between.nodes else {}
    return [patch_with(**slots, submitted_to_approved=ASK_TWICE_IN_SLOT)]


def _claim(between: Between) -> list[Any]:
    fill_in = {"id": "form", "type": "action", "assignee": {"role": "clerk"}}
    return [flow_of("claim", [fill_in], between, [APPROVAL, BY_DEFAULT], rejected="form")]


def _intake(between: Between) -> list[Any]:
    return [flow_of("intake", [papers("papers", "passport")], between, [APPROVAL, BY_DEFAULT], "papers")]


def _bill_and_a_flow(between: Between) -> list[Any]:
    begin = {"id": "begin", "type": "script", "set": {"begun": "true"}}
    write = {
        "id": "write",
        "type": "mutation",
        "action": "bill.update",
        "entity": "workflow.target",
        "payload": {"total": 990000},
    }
    return [
        patch_with(submitted_to_approved=ASK_TWICE_IN_SLOT),
        flow_of("launder", [begin], between, [write]),
    ]


SHAPES: Final = {
    "entity": ApprovalShape(_bill, submitted_by_dual, edited_by_dual),
    "flow": ApprovalShape(_claim, filled_in_by_dual, filled_in_again_by_dual),
    "documents of a flow": ApprovalShape(_intake, handed_in_by_dual, handed_in_again_by_dual),
    "entity written by a flow": ApprovalShape(
        _bill_and_a_flow, written_by_a_flow_of_dual, amended_by_a_flow_of_dual
    ),
}
