"""How a document stands: its entity, its workflow, who it waits for, what it has sent and what happened last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.engine.apply import VARIABLES_EDITED
from assent.engine.instance import Token
from assent.engine.plan import Plan
from assent.kernel.entities import read_entity
from assent.model.graph import Outcome
from assent.model.mutation import Entity, Refused, Rejection
from assent.runtime.batch import BatchItem, Execution
from assent.runtime.views import InstanceView, Waiting, view_of
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.testing.sandbox import Sandbox

Json = Mapping[str, Any]
"""A JSON object: a payload, an output, data."""

_SQL: Final = load_queries("assent.testing", "testing.sql")

HAPPENED_MAX: Final = 12
"""How many of the last steps are shown."""


@dataclass(frozen=True, slots=True)
class ScenarioDocument:
    """What a scenario's steps are about: an entity, or an instance of a flow."""

    name: str
    entity_id: UUID | None = None
    instance_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A step that waits for a person or an event."""

    waiting: Waiting
    since: datetime | None
    asked: tuple[str, ...] = ()
    """Who can answer it now."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One thing that happened, from a step."""

    at: datetime
    node: str
    kind: str
    status: str
    actor: str | None
    output: Json
    error: str | None


@dataclass(frozen=True, slots=True)
class DocumentState:
    """A document at one moment."""

    name: str
    entity: Entity | None = None
    view: InstanceView | None = None
    subject_id: str | None = None
    """Who started the workflow."""
    waits: tuple[OpenWait, ...] = ()
    requests: tuple[tuple[str, UUID, str], ...] = ()
    """What was asked: the step's name, the request and its status, the newest first."""
    voided: frozenset[UUID] = frozenset()
    """The requests that an edit has made void; others end void when their workflow goes elsewhere."""
    tables: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """The rows of the application's own tables, of those that are asked about."""
    effects: tuple[tuple[str, Json], ...] = ()
    happened: tuple[Happened, ...] = ()
    """The newest first."""
    failures: tuple[Json, ...] = field(default=())

    @property
    def instance_id(self) -> UUID:
        """Of its newest instance; raises `Refused` where there is none."""
        if self.view is None:
            raise Refused(Rejection("NOT_FOUND", f"{self.name} has no workflow"))
        return self.view.id

    @property
    def void(self) -> list[str]:
        return sorted({name for name, request, _ in self.requests if request in self.voided})

    @property
    def waiting(self) -> list[str]:
        return sorted(wait.waiting.name for wait in self.waits)

    @property
    def asked(self) -> dict[str, list[str]]:
        return {wait.waiting.name: sorted(wait.asked) for wait in self.waits}

    def wait_at(self, name: str) -> OpenWait | None:
        return next((wait for wait in self.waits if wait.waiting.name == name), None)

    def request_of(self, name: str) -> UUID | None:
        """Return the newest request of a step."""
        return next((request for of, request, _ in self.requests if of == name), None)


async def document_state(sandbox: Sandbox, document: ScenarioDocument) -> DocumentState:
    async with sandbox.database.transaction(sandbox.org_id) as connection:
        return await _read(connection, sandbox, document)


async def _read(connection: Connection, sandbox: Sandbox, document: ScenarioDocument) -> DocumentState:
    org_id = sandbox.org_id
    entity = await read_entity(connection, org_id, document.entity_id) if document.entity_id else None
    instances = await _instances(connection, org_id, document)
    job = await _load(connection, sandbox, instances[0]) if instances else None
    if job is None:
        return DocumentState(document.name, entity)
    plan, instance = job.run.plan, job.run.instance
    view = view_of(plan, instance, job.run.world.asked)
    requests = await connection.fetch(_SQL.find_requests_of, org_id, instance.id)
    seats = await connection.fetch(_SQL.find_open_seats_of, org_id, instance.id)
    asked = {row["request_id"]: tuple(row["people"]) for row in seats}
    effects = await connection.fetch(_SQL.find_effects_of, org_id, instances)
    steps = await connection.fetch(_SQL.find_steps_of, org_id, instances, HAPPENED_MAX)
    return DocumentState(
        document.name,
        entity,
        view,
        instance.subject_id,
        tuple(_wait(waiting, instance.tokens[waiting.token_id], asked) for waiting in view.waiting),
        tuple((_name(plan, row["node_id"]), row["id"], row["status"]) for row in requests),
        frozenset(row["id"] for row in requests if row["status"] == "void" and _by_an_edit(row["reason"])),
        {},
        tuple((row["effect_type"], row["payload_json"]) for row in effects),
        tuple(_happened(plan, dict(row)) for row in steps),
        tuple(dict(row) for row in await connection.fetch(_SQL.find_failures_of, org_id, instances)),
    )


async def _instances(connection: Connection, org_id: str, document: ScenarioDocument) -> list[UUID]:
    """Return the document's instances, the newest first."""
    if document.entity_id is None:
        return [document.instance_id] if document.instance_id else []
    return [row["id"] for row in await connection.fetch(_SQL.find_instances_of, org_id, document.entity_id)]


async def _load(connection: Connection, sandbox: Sandbox, instance_id: UUID) -> Execution | None:
    work = BatchItem(sandbox.org_id, instance_id)
    loader = sandbox.runtime.core.advancing.loader
    standing = await loader.read(connection, [work])
    jobs: Sequence[Execution] = await loader.load(connection, [work], standing, sandbox.clock.now())
    return jobs[0] if jobs else None


def _wait(waiting: Waiting, token: Token, asked: Mapping[UUID, tuple[str, ...]]) -> OpenWait:
    answered_by = waiting.request_id or token.step_id
    return OpenWait(waiting, token.step_at, asked.get(answered_by, ()) if answered_by else ())


def _by_an_edit(reason: str | None) -> bool:
    """Return whether a request ended by an edit of its document, or of the variables of its workflow."""
    return reason is not None and (reason in (Outcome.DRIFT, VARIABLES_EDITED) or reason.startswith("edited"))


def _name(plan: Plan, node_id: str) -> str:
    """Return what the author called a node; control steps have none."""
    return plan.nodes[node_id].node.name if node_id in plan.nodes else node_id.removeprefix("ctl:")


def _happened(plan: Plan, row: Json) -> Happened:
    return Happened(
        row["at"],
        _name(plan, row["node_id"]),
        row["node_type"],
        row["status"],
        row["actor_user_id"],
        row["output_json"] or {},
        row["error"],
    )
