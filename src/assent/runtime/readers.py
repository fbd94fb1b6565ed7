"""Who may read an instance: by its entity's contract, or because they take part in the flow or may read it.

And what a reader sees of one: where it is, what the reader could do, its newest steps, the names of its nodes. One
instance is asked for with everything that counts, a list with what one statement can ask. Reads, never writes, and
takes no locks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self
from uuid import UUID

from assent.approvals.requests import ApprovalDetails
from assent.definitions import Definition, Definitions
from assent.effects.outbox import EffectItem
from assent.engine.answers_open import possible_answers, possible_transitions, refusal_of
from assent.engine.consent import not_open
from assent.engine.inputs import Advance
from assent.engine.nodes.requirements import RequirementsNode
from assent.engine.run import Run
from assent.kernel.entities import read_entity
from assent.model.actor import Actor, Reader
from assent.model.approval import ApprovalRequest
from assent.model.document import DocumentRequirement
from assent.model.ids import new_id
from assent.model.mutation import Entity, Refused, Rejection
from assent.runtime.batch import BatchItem
from assent.runtime.core import Core, OrgScope
from assent.runtime.load import pin_of
from assent.runtime.rights import Contracts, hidden_types, may_read, may_read_flow
from assent.runtime.views import (
    InstanceItem,
    InstanceView,
    StepItem,
    Waiting,
    find_instance,
    list_steps,
    view_of,
)
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row, from_row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


class Seen(Protocol):
    """What the caller who shows an instance knows of it."""

    @property
    def org_id(self) -> str: ...
    @property
    def id(self) -> UUID: ...
    @property
    def workflow_id(self) -> str: ...
    @property
    def entity_type(self) -> str | None: ...
    @property
    def subject_id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SeenInstance:
    org_id: str
    id: UUID
    workflow_id: str
    entity_type: str | None
    subject_id: str

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(**{name: row[name] for name in cls.__slots__})


async def reader_of(core: Core, connection: Connection, org_id: str, actor: Actor) -> Reader:
    """Return what the actor may see in lists: of flows, those in which the actor takes part or may read."""
    contracts, now = core.kernel.registry.contracts, core.database.clock.now()
    if may_read_flow("*", actor):
        return Reader(actor.id, now, hidden_types(contracts, actor), all_flows=True)
    rows = await connection.fetch(_SQL.find_flows, org_id)
    readable = [
        row["id"] for row in rows if may_read_flow(row["key"], actor) or actor.has_role(row["readers"] or ())
    ]
    return Reader(actor.id, now, hidden_types(contracts, actor), definitions=readable)


def has_right_to_read(core: Core, instance: Seen, actor: Actor) -> bool:
    """Return whether rights alone let the actor read an instance; of a flow, whether they take part may do so too.

    Raise `Refused` where the contract of its entity does not let them.
    """
    if instance.entity_type is not None:
        contracts: Contracts = core.kernel.registry.contracts
        may_read(contracts, instance.entity_type, actor)
        return True
    return may_read_flow(instance.workflow_id, actor) or instance.subject_id == actor.id


async def may_read_instance(core: Core, connection: Connection, instance: Seen, actor: Actor) -> None:
    """Raise `Refused` unless the actor may read an instance, with its variables, its forms and its steps."""
    if has_right_to_read(core, instance, actor):
        return
    now, roles = core.database.clock.now(), sorted(actor.roles)
    takes_part = await connection.fetchval(
        _SQL.takes_part, instance.org_id, instance.id, actor.id, roles, now
    )
    if not takes_part and not await could_answer(core, connection, instance.org_id, instance.id, actor):
        message = f"{actor.id} takes no part in this {instance.workflow_id}, and may not read it"
        hint = f"it takes {instance.workflow_id}:read or workflows:read"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",), hint=hint))
    return


async def find_instance_row(scope: OrgScope, connection: Connection, instance_id: UUID) -> Row:
    """Return an instance of the caller's org and partition, whether or not they may read it."""
    row = await find_instance(connection, scope.org_id, instance_id)
    if row is None or not scope.sees(row["partition_id"]):
        raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
    return row


async def read_instance_row(scope: OrgScope, connection: Connection, instance_id: UUID) -> Row:
    """Return an instance that the caller may read; raise `Refused` for every other."""
    row = await find_instance_row(scope, connection, instance_id)
    await may_read_instance(scope.core, connection, SeenInstance.of(row), scope.actor_or_system)
    return row


async def was_asked(core: Core, connection: Connection, org_id: str, asked: UUID, user: str) -> bool:
    """Return whether a user is or was asked at an approval request or a form, or is a delegate of one who is."""
    now = core.database.clock.now()
    return bool(await connection.fetchval(_SQL.was_asked, org_id, asked, user, now))


def has_seat(request: ApprovalRequest, actor: Actor) -> bool:
    """Return whether the actor is or was asked at a request, and so takes part in its instance."""
    return any(seat.user_id == actor.id and seat.status != "later" for seat in request.seats)


async def may_read_request(
    core: Core, connection: Connection, request: ApprovalRequest, actor: Actor
) -> None:
    """Raise `Refused` unless the actor is or was asked at an approval request, or may read its instance."""
    if has_seat(request, actor):
        return
    if await was_asked(core, connection, request.org_id, request.id, actor.id):
        return
    row = await find_instance(connection, request.org_id, request.instance_id)
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no instance {request.instance_id}", ("instance_id",)))
    await may_read_instance(core, connection, SeenInstance.of(row), actor)


async def could_answer(  # noqa: PLR0913
    core: Core,
    connection: Connection,
    org_id: str,
    instance_id: UUID,
    actor: Actor,
    *,
    step_id: UUID | None = None,
) -> bool:
    """Return whether the actor could answer a step that waits, such as by a role; one step, or any."""
    now = core.database.clock.now()
    work = BatchItem(org_id, instance_id, [Advance(new_id(now), actor)])
    job = await core.advancing.loader.look(connection, work, now)
    if job is None:
        return False
    tokens = [token for token in job.run.instance.tokens.values() if token.state == "resting"]
    return any(
        possible_answers(job.run, token, actor) for token in tokens if step_id in (None, token.step_id)
    )


async def read_answers(
    core: Core, connection: Connection, details: ApprovalDetails, actor: Actor
) -> ApprovalDetails:
    """Return a request with the answers that the actor may give now, and why they may not approve it."""
    now, request = core.database.clock.now(), details.request
    work = BatchItem(request.org_id, request.instance_id, [Advance(new_id(now), actor)])
    job = await core.advancing.loader.look(connection, work, now)
    tokens = job.run.instance.tokens.values() if job is not None else ()
    token = next((one for one in tokens if one.step_id == request.step_id), None)
    if job is None or token is None or request.status != "pending":
        return replace(details, refusal=not_open(request.id, request.status, request.reason))
    refusal = refusal_of(job.run, "approved", actor, token.node)
    return replace(details, answers=possible_answers(job.run, token, actor), refusal=refusal)


async def find_readable_entity(
    scope: OrgScope, connection: Connection, entity_id: UUID, entity_type: str | None = None
) -> Entity:
    """Return an entity that the actor may read, of this type if one is named; raise `Refused` for every other."""
    if entity_type is not None:
        may_read_type(scope, entity_type)
    entity = await read_entity(connection, scope.org_id, entity_id)
    if entity is None or entity_type not in (None, entity.type) or not scope.sees(entity.partition_id):
        message = f"no {entity_type or 'entity'} {entity_id}"
        raise Refused(Rejection("NOT_FOUND", message, ("entity_id",)))
    may_read_type(scope, entity.type)
    return entity


def may_read_type(scope: OrgScope, entity_type: str) -> None:
    """Raise `Refused` for a type without a contract, and for one that the actor may not read."""
    contracts = scope.core.kernel.registry.contracts
    if entity_type not in contracts:
        message = f"there is no entity type `{entity_type}`"
        raise Refused(Rejection("UNKNOWN_ENTITY_TYPE", message, ("entity_type",)))
    may_read(contracts, entity_type, scope.actor_or_system)


TIMELINE_STEPS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """A step that waits, as one person sees it: the form and the events are there only if they may answer."""

    waiting: Waiting
    label: str | None
    events: Sequence[str]
    form: Mapping[str, Any]
    missing: Sequence[DocumentRequirement] = ()
    """The documents that it waits for."""


@dataclass(frozen=True, slots=True)
class Description:
    """An instance as one person sees it."""

    view: InstanceView
    name: str | None
    places: Sequence[WaitingPlace]
    transitions: Sequence[str]
    """Of the entity, whatever rests."""
    timeline: Sequence[Row]
    """Its newest steps, the oldest of them first."""
    node_names: Mapping[str, str]


async def look_at_run(
    core: Core, connection: Connection, org_id: str, instance_id: UUID, actor: Actor
) -> Run | None:
    """Return the run of an instance, to read; nothing when there is no such instance."""
    now = core.database.clock.now()
    work = BatchItem(org_id, instance_id, [Advance(new_id(now), actor)])
    job = await core.advancing.loader.look(connection, work, now)
    return job.run if job is not None else None


@dataclass(frozen=True, slots=True)
class InstanceDetails:
    """An instance with what its reader can do about it, and its newest steps."""

    instance: InstanceItem
    name: str | None
    context: Mapping[str, Any]
    """Its variables."""
    waiting: Sequence[WaitingPlace]
    transitions: Sequence[str]
    """Of the entity, that the reader may make."""
    timeline: Sequence[StepItem]
    """Its newest steps, the oldest of them first."""
    effects: Sequence[EffectItem]
    """Its newest effects, newest first, each with its attempts."""

    @classmethod
    def of(cls, row: Row, found: Description, effects: Sequence[EffectItem]) -> Self:
        """Return the details of an instance's row and its description for the reader."""
        stands_at = [found.node_names.get(node, node) for node in row["current_nodes"]]
        return cls(
            from_row(InstanceItem, row, stands_at=stands_at),
            found.name,
            found.view.context,
            found.places,
            found.transitions,
            [StepItem.of(step, found.node_names.get(step["node_id"])) for step in found.timeline],
            effects,
        )


async def describe(
    core: Core, connection: Connection, org_id: str, instance_id: UUID, actor: Actor
) -> Description | None:
    """Nothing when there is no such instance."""
    run = await look_at_run(core, connection, org_id, instance_id, actor)
    if run is None:
        return None
    plan = run.plan
    view = view_of(plan, run.instance, run.world.asked)
    steps = await list_steps(connection, org_id, instance_id, None, TIMELINE_STEPS_MAX)
    return Description(
        view,
        plan.workflow.name,
        [_place(run, waiting, actor) for waiting in view.waiting],
        possible_transitions(run, actor),
        steps[::-1],
        {node.id: node.node.name for node in plan.nodes.values()},
    )


def _place(run: Run, waiting: Waiting, actor: Actor) -> WaitingPlace:
    token = run.instance.tokens[waiting.token_id]
    node = run.plan.nodes[token.node].node
    events = possible_answers(run, token, actor) if token.state == "resting" else []
    handler = run.plan.nodes[token.node].handler
    missing = handler.blocking(run.visit(token)) if isinstance(handler, RequirementsNode) else ()
    form = node.config.get("form", {}) if events else {}
    return WaitingPlace(waiting, node.label, events, form, missing)


async def find_instances(
    connection: Connection, org_id: str, first: UUID, last: UUID, limit: int
) -> list[UUID]:
    """Return the instances whose ids lie between two, both included."""
    rows = await connection.fetch(_SQL.find_instances_between, org_id, first, last, limit)
    return [row["id"] for row in rows]


async def names_of_nodes(
    connection: Connection, definitions: Definitions, instances: Sequence[Row]
) -> Mapping[UUID, list[str]]:
    """Instance → the names of the nodes where it stands; ids, where its definition cannot be loaded."""
    loaded = await definitions.by_id(connection, [pin_of(row) for row in instances])
    names = {
        pin: {node.id: node.name for node in found.workflow.nodes.values()}
        if isinstance(found, Definition)
        else {}
        for pin, found in loaded.items()
    }
    return {
        row["id"]: [names[pin_of(row)].get(node, node) for node in row["current_nodes"]] for row in instances
    }


async def node_names_of(connection: Connection, definitions: Definitions, instance: Row) -> Mapping[str, str]:
    """Node → its name in the definition of an instance; nothing, where that cannot be loaded."""
    pin = pin_of(instance)
    found = (await definitions.by_id(connection, [pin])).get(pin)
    if not isinstance(found, Definition):
        return {}
    return {node.id: node.name for node in found.workflow.nodes.values()}
