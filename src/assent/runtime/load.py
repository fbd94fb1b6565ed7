"""From instances' ids to runs: locked, loaded and verified, in one statement each for the whole batch."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.approvals.forms import load_forms
from assent.approvals.requests import load_requests, request_from
from assent.definitions import Definition, DefinitionRef, Definitions, Pin
from assent.documents.requirements import load_requirements
from assent.engine.inputs import (
    Drifted,
    EventArrived,
    Expired,
    Input,
    Poke,
    Repin,
    RequestDecided,
    RequirementChanged,
    TimerDue,
)
from assent.engine.instance import Instance
from assent.engine.plan import Plan, plan_of
from assent.engine.run import CHAIN_STEPS_MAX, Run
from assent.engine.visit import World
from assent.kernel import Kernel
from assent.kernel.entities import LockedRows, entity_from, read_entity
from assent.kernel.indexes import NOT_INDEXED, declaration_of
from assent.kernel.rules import RuleBook
from assent.model.contract import Contract
from assent.model.graph import NodeKind
from assent.model.ids import InstanceKey
from assent.model.mutation import Entity, Refused, Rejection
from assent.model.workflow import Workflow
from assent.people.delegations import load_delegations
from assent.people.directory import Directory
from assent.runtime.authority import delegates_of, load_actors, load_rolls
from assent.runtime.batch import BatchItem, Execution, NewInstance
from assent.runtime.event_inputs import add_events
from assent.runtime.rows import instance_from, new_instance_row
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")
_KERNEL_SQL: Final = load_queries("assent.kernel", "kernel.sql")
_ELSEWHERE: Final = (EventArrived, RequestDecided, RequirementChanged, Expired, Drifted, Poke, Repin)
"""What never asks a form anything; where it ends one, the step alone is enough to close it."""


class LoadedRows:
    """What one statement tells of a batch: its instances, what is pending for them, and whether there is more."""

    def __init__(self, rows: Iterable[Any]) -> None:
        found = {(row["wanted_org"], row["wanted_id"]): row for row in rows}
        self.instances: dict[InstanceKey, Row] = {
            key: dict(row) for key, row in found.items() if row["id"] is not None
        }
        self.pending = {key: row["pending"] for key, row in found.items()}
        self.asked = {key for key, row in found.items() if row["has_asked"]}
        """Instances with requests for approval in their present generation."""
        self.settings = {
            org: row["settings"] for (org, _), row in found.items() if row["settings"] is not None
        }
        self.delegating = {org for (org, _), row in found.items() if row["has_delegations"]}
        """Orgs in which people stand in for each other."""


def _row_of_opened(work: BatchItem) -> Row:
    """Return the row of `load_instances` for a command whose target was opened: it has been read already."""
    opened = work.opened
    assert opened is not None
    instance = opened["instance"]
    return {
        **(dict(instance) if instance is not None else {"id": None}),
        "wanted_org": work.org_id,
        "wanted_id": work.instance_id,
        "pending": opened["pending"],
        "has_asked": bool(opened["requests"]),
        "settings": opened["settings"],
        "has_delegations": opened["has_delegations"],
    }


def _hold_opened(works: Sequence[BatchItem], held: LockedRows) -> None:
    """Keep the entities that were locked with their instances, and the rules and indexes of their types."""
    for work in works:
        opened = work.opened
        if opened is not None and opened["entity"] is not None:
            entity = entity_from(opened["entity"])
            held.entities[entity.org_id, entity.id] = entity
            kind = entity.org_id, entity.type
            held.newest[kind] = opened["newest_contract"]
            held.indexes[kind] = declaration_of(opened["indexes"] or NOT_INDEXED)
            held.rules[kind] = RuleBook.of(
                {**rule, "id": UUID(rule["id"]), "settings": opened["settings"] or {}}
                for rule in opened["rules"] or ()
            )


@dataclass
class Loader:
    """Makes runs of works. Plans are made once per workflow and kept."""

    kernel: Kernel
    definitions: Definitions
    directory: Directory
    """Where people are looked up again: those who act, and those on whose behalf tokens move."""
    chain_steps_max: int = CHAIN_STEPS_MAX
    _plans: dict[tuple[UUID, str], Plan] = field(default_factory=dict)

    async def read(self, connection: Connection, works: Sequence[BatchItem]) -> LoadedRows:
        """Return how instances stand whose locks are held, with the events that come before the commands (D18)."""
        if all(work.opened is not None for work in works):
            standing = LoadedRows(map(_row_of_opened, works))
        else:
            tells = _first_of_each_org(works)
            drains = [work.command is not None for work in works]
            orgs, ids = [work.org_id for work in works], [work.instance_id for work in works]
            standing = LoadedRows(await connection.fetch(_SQL.load_instances, orgs, ids, drains, tells))
        for work in works:
            if work.command is not None:
                add_events(work, standing.pending[work.key])
                work.inputs.append(work.command)
        return standing

    async def load(  # noqa: PLR0913
        self,
        connection: Connection,
        works: Sequence[BatchItem],
        standing: LoadedRows,
        now: datetime,
        *,
        failing: dict[str, Exception] | None = None,
        held: LockedRows | None = None,
    ) -> list[Execution]:
        """Return the jobs of a batch that was read; works without an instance are left out."""
        rows, settings = standing.instances, standing.settings
        held = held or LockedRows()
        _hold_opened(works, held)
        entities = await self._entities(connection, works, rows, held)
        definitions = await self._definitions(connection, works, rows, entities)
        jobs = []
        for work in works:
            definition = definitions.get(work.key)
            if definition is None:
                continue
            instance = _instance(work, definition, rows.get(work.key), entities, now)
            entity = entities.get((work.org_id, instance.entity_id)) if instance.entity_id else None
            world = World(now, entity, settings.get(work.org_id, {}))
            jobs.append(self._job(work, definition, instance, world, work.key not in rows, failing or {}))
        await _load_requirements(connection, jobs)
        await self._insert_ahead(connection, jobs, held, now)
        await _load_people(connection, self.directory, jobs, standing, now)
        await load_actors(connection, self.directory, jobs)
        return jobs

    async def look(self, connection: Connection, work: BatchItem, now: datetime) -> Execution | None:
        """Return the execution of an instance without a lock, to see what could happen to it."""
        standing = await self.read(connection, [work])
        rows = standing.instances
        if work.key not in rows:
            return None
        definition = (await self._definitions(connection, [work], rows, {}))[work.key]
        instance = instance_from(rows[work.key])
        entity = (
            await read_entity(connection, work.org_id, instance.entity_id) if instance.entity_id else None
        )
        world = World(now, entity, standing.settings.get(work.org_id, {}))
        job = self._job(work, definition, instance, world, False, {})
        await _load_requirements(connection, [job])
        await _load_people(connection, self.directory, [job], standing, now)
        return job

    def _job(  # noqa: PLR0913, PLR0917
        self,
        work: BatchItem,
        definition: Definition,
        instance: Instance,
        world: World,
        is_new: bool,
        failing: dict[str, Exception],
    ) -> Execution:
        plan = self.plan(definition)
        limit = self.chain_steps_max if definition.workflow.kind == "flow" else None
        run = Run(plan, instance, world, deque(work.inputs), limit, failing, command=work.command)
        return Execution(
            work,
            run,
            definition,
            is_new,
            instance.version,
            dict(instance.context),
            instance.status,
            entity_before=world.entity,
        )

    def plan(self, definition: Definition) -> Plan:
        key = (definition.id, definition.hash)
        if key not in self._plans:
            self._plans[key] = plan_of(
                definition.workflow,
                self._contract(definition.workflow),
                definition_id=definition.id,
                definition_version=definition.version,
            )
        return self._plans[key]

    def _contract(self, workflow: Workflow) -> Contract | None:
        """Return the contract that a workflow is bound to; of a flow that of the application."""
        entity_type, contracts = workflow.entity_type or "", self.kernel.contracts
        if entity_type not in contracts.declared:
            return None
        return contracts.pinned(entity_type, workflow.envelope_version, None)

    async def _definitions(
        self,
        connection: Connection,
        works: Sequence[BatchItem],
        rows: Mapping[InstanceKey, Row],
        entities: Mapping[InstanceKey, Entity],
    ) -> dict[tuple[str, UUID], Definition]:
        """Return what each instance runs. One that cannot run stops its batch here, and then itself alone (D10)."""
        pins = {key: pin_of(row) for key, row in rows.items()} | _new_pins(works, rows)
        births = {
            w.key: _wanted(w.birth, entities) for w in works if w.birth is not None and w.key not in rows
        }
        pinned = await self.definitions.by_id(connection, pins.values()) if pins else {}
        current = await self.definitions.current(connection, births.values()) if births else {}
        found = {key: pinned[pin] for key, pin in pins.items()}
        found |= {key: current[wanted] for key, wanted in births.items()}
        found |= {work.key: work.definition for work in works if work.definition is not None}
        refused = [item for item in found.values() if isinstance(item, Rejection)]
        if refused:
            raise Refused(refused[0])
        loaded = {key: item for key, item in found.items() if isinstance(item, Definition)}
        await self.load_contracts(connection, loaded.values())
        return loaded

    async def load_contracts(self, connection: Connection, definitions: Iterable[Definition]) -> None:
        """Load the contracts that workflows without a plan are bound to; `plan` goes by them."""
        workflows = [each.workflow for each in definitions if (each.id, each.hash) not in self._plans]
        bound = [
            (w.entity_type, w.envelope_version) for w in workflows if w.entity_type and w.envelope_version
        ]
        await self.kernel.contracts.load(connection, bound)

    async def _entities(
        self,
        connection: Connection,
        works: Sequence[BatchItem],
        rows: Mapping[InstanceKey, Row],
        held: LockedRows,
    ) -> dict[InstanceKey, Entity]:
        wanted = {(org_id, row["entity_id"]) for (org_id, _), row in rows.items() if row["entity_id"]}
        wanted |= {(w.org_id, w.birth.entity_id) for w in works if w.birth and w.birth.entity_id}
        wanted -= held.entities.keys()
        if not wanted:
            return held.entities
        orgs, ids = zip(*sorted(wanted), strict=True)
        found = await connection.fetch(_KERNEL_SQL.lock_entities, list(orgs), list(ids))
        held.entities |= {(row["org_id"], row["id"]): entity_from(row) for row in found}
        return held.entities

    async def _insert_ahead(
        self, connection: Connection, jobs: Sequence[Execution], held: LockedRows, now: datetime
    ) -> None:
        """Insert new instances of entities before their first step: the truth wall asks for them (D17)."""
        ahead = [job for job in jobs if job.is_new and job.run.instance.entity_id is not None]
        if ahead:
            await put(connection, _SQL.insert_instances, [new_instance_row(job, now) for job in ahead])
            await _take_entities(connection, ahead, held)
        for job in ahead:
            job.inserted = True


def _first_of_each_org(works: Sequence[BatchItem]) -> list[bool]:
    seen: set[str] = set()
    return [not (work.org_id in seen or seen.add(work.org_id)) for work in works]  # type: ignore[func-returns-value]


async def _load_people(
    connection: Connection,
    directory: Directory,
    jobs: Sequence[Execution],
    standing: LoadedRows,
    now: datetime,
) -> None:
    """Load what instances have asked people, the delegations of those who answer now, and which of them are present."""
    asking = [job for job in jobs if job.work.key in standing.asked]
    unread = [job for job in asking if job.work.opened is None]
    requests = await load_requests(connection, {job.work.key: job.run.instance.generation for job in unread})
    for job in asking:
        if job.work.opened is not None:
            found = map(request_from, job.work.opened["requests"])
            requests[job.work.key] = {request.step_id: request for request in found}
        job.run.world.load_requests(requests[job.work.key])
    filling = await _load_forms(
        connection, [job for job in jobs if job.run.plan.has_forms and not job.is_new]
    )
    answered = [job for job in (*asking, *filling) if job.work.org_id in standing.delegating]
    await _load_delegations(connection, answered, now)
    await load_rolls(connection, directory, [*asking, *filling])


async def _load_requirements(connection: Connection, jobs: Sequence[Execution]) -> None:
    """Load the documents that instances require whose workflow has such nodes."""
    requiring = [job for job in jobs if job.run.plan.has_requirements and not job.is_new]
    found = await load_requirements(connection, [job.work.key for job in requiring])
    for job in requiring:
        job.run.world.requirements.update(found.get(job.work.key, {}))


async def _load_forms(connection: Connection, jobs: Sequence[Execution]) -> list[Execution]:
    """Load the forms at which instances rest, where a person or a timer may act on them; return where."""
    steps = [(job, _form_steps(job)) for job in jobs]
    filling = [(job, found) for job, found in steps if found and _is_about(job.work.inputs, found)]
    forms = await load_forms(
        connection, [(job.work.org_id, step) for job, found in filling for step in found]
    )
    for job, found in filling:
        places = ((step, (job.work.org_id, step)) for step in found)
        job.run.world.load_forms({step: forms[place] for step, place in places if place in forms})
    return [job for job, _ in filling]


def _form_steps(job: Execution) -> set[UUID]:
    nodes = job.run.plan.nodes
    resting = [token for token in job.run.instance.tokens.values() if token.state == "resting"]
    return {t.step_id for t in resting if t.step_id and nodes[t.node].kind is NodeKind.FORM}


def _is_about(inputs: Sequence[Input], steps: set[UUID]) -> bool:
    """Return whether a form can matter. Most of what workers do leaves it alone, or ends it unread."""
    if not inputs:
        return True  # a reader wants to see it
    return any(
        given.step_id in steps if isinstance(given, TimerDue) else not isinstance(given, _ELSEWHERE)
        for given in inputs
    )


async def _load_delegations(connection: Connection, jobs: Sequence[Execution], now: datetime) -> None:
    answering = {
        (job.work.org_id, user_id) for job in jobs for user_id in delegates_of(job.run.world, job.work.inputs)
    }
    if not answering:
        return
    delegations = await load_delegations(connection, sorted(answering), now)
    for job in jobs:
        job.run.world.delegations = {
            user: found for (org, user), found in delegations.items() if org == job.work.org_id
        }


async def _take_entities(connection: Connection, jobs: Sequence[Execution], held: LockedRows) -> None:
    """Give an entity whose last instance has ended to its new one, from the first step on (D18)."""
    free = [job for job in jobs if job.run.world.entity and job.run.world.entity.instance_id is None]
    windows = []
    for job in free:
        entity = job.run.world.entity
        assert entity is not None
        windows.append(
            {
                "org_id": entity.org_id,
                "entity_id": entity.id,
                "instance_id": job.work.instance_id,
                "edit_window": entity.edit_window,
                "ended": False,
            }
        )
        taken = entity.evolve(instance_id=job.work.instance_id)
        job.run.world.entity = held.entities[taken.org_id, taken.id] = taken
    if windows:
        await put(connection, _SQL.set_edit_windows, windows)


def _wanted(birth: NewInstance, entities: Mapping[InstanceKey, Entity]) -> DefinitionRef:
    """Return what an instance begins with: for an entity, a workflow of the contract that the entity lives by."""
    entity = entities.get((birth.wanted.org_id, birth.entity_id)) if birth.entity_id else None
    if entity is None or birth.wanted.kind != "effective":
        return birth.wanted
    return birth.wanted._replace(contract_version=entity.contract_version)


def pin_of(row: Row) -> Pin:
    return Pin(row["org_id"], row["definition_id"], row["definition_version"], row["definition_hash"])


def _new_pins(works: Sequence[BatchItem], rows: Mapping[InstanceKey, Row]) -> dict[tuple[str, UUID], Pin]:
    """Return the new pins of instances that move to a definition compiled again: the old one cannot be loaded."""
    return {
        work.key: Pin(work.org_id, given.definition_id, given.definition_version, given.definition_hash)
        for work in works
        for given in work.inputs
        if isinstance(given, Repin) and given.definition_id is not None and work.key in rows
    }


def _instance(
    work: BatchItem,
    definition: Definition,
    row: Row | None,
    entities: Mapping[InstanceKey, Entity],
    now: datetime,
) -> Instance:
    if row is not None:
        return instance_from(row)
    birth = work.birth
    assert birth is not None
    entity = entities.get((work.org_id, birth.entity_id)) if birth.entity_id else None
    expiry = definition.workflow.expiry
    return Instance(
        org_id=work.org_id,
        id=work.instance_id,
        subject_id=birth.subject_id,
        started_at=now,
        entity_type=birth.entity_type,
        entity_id=birth.entity_id,
        entity_version=entity.version if entity else 0,
        partition_id=entity.partition_id if entity else birth.partition_id,
        expires_at=now + timedelta(seconds=expiry.after_seconds) if expiry else None,
    )
