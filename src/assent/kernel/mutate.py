"""The one door for changes of entities, for one as for many.

The order in which a command is checked, and so the order of its rejections: names → policy → payload →
existence, version → edit window → lifecycle → rules before → the action and its result → rules after.
Everything is decided in memory under the locks; then entities with versions and audit, events, and evidence
are written, one statement for each, however many commands there are. One span is around all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.kernel.changes import (
    EntityChange,
    base_content,
    check_access,
    check_locked_edit,
    check_result,
    default_values,
    events_of,
    requested_change,
)
from assent.kernel.entities import Kind, LockedRows, change_rows, entity_from
from assent.kernel.registry import Registry
from assent.kernel.resolve import ResolvedCommand, resolve_command
from assent.kernel.rules import RuleBook, RuleEffects, entity_view
from assent.model.ids import EntityKey, new_id
from assent.model.mutation import PARTITION, Command, Entity, Event, Mutation, Refused, Rejection
from assent.outbox.events import emit_events
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database, Plans
from assent.store.group_commit import GroupCommit
from assent.store.queries import load_queries
from assent.telemetry import Span, current_trace, hooks, scope, span, trace_id_of

Outcome = Mutation | Rejection

_SQL: Final = load_queries("assent.kernel", "kernel.sql")
COMMANDS_BY_KEPT_PLANS: Final = 20
"""Above it, planning is a small part of the whole, and a plan that is made for them is worth it."""


@dataclass(slots=True)
class MutationBatch:
    """What one call has read and decided so far; later commands see what earlier ones did."""

    now: datetime
    entities: dict[EntityKey, Entity]
    rules: Mapping[Kind, RuleBook]
    changes: list[EntityChange] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def entity(self, draft: ResolvedCommand) -> Entity | None:
        return self.entities.get((draft.command.org_id, draft.entity_id)) if draft.entity_id else None

    def rules_for(self, draft: ResolvedCommand) -> RuleBook:
        return self.rules[draft.command.org_id, draft.contract.name]

    def accept(self, change: EntityChange) -> None:
        self.entities[change.after.org_id, change.after.id] = change.after
        self.changes.append(change)
        self.events += events_of(change, self.now)


class Kernel:
    """Runs commands against the contracts and actions of one application."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self.database = database
        self.registry = registry
        self._group_commit: GroupCommit[Command, Outcome] = GroupCommit(self._mutate_many, self._mutate_alone)

    async def mutate(self, command: Command) -> Mutation:
        """One command by itself; raises `Refused` when it is rejected."""
        with traced([command]) as (ours, opened):
            (outcome,) = _noted([await self._mutate(ours[0])], opened)
        if isinstance(outcome, Rejection):
            raise Refused(outcome)
        return outcome

    async def _mutate(self, command: Command) -> Outcome:
        if command.entity_id is None and not self.database.is_joined:
            # A new entity waits for no lock, so entities that are created at the same time share a transaction. The id
            # is drawn here: a command that were run twice would meet its own entity, not make a second one.
            command = replace(command, fresh_id=new_id(self.database.clock.now()))
            return await self._group_commit.run(command.org_id, command)
        return await self._mutate_alone(command)

    async def _mutate_alone(self, command: Command) -> Outcome:
        (outcome,) = await self._mutate_many([command])
        return outcome

    async def mutate_many(self, commands: Sequence[Command]) -> list[Outcome]:
        """Commands of one org in one transaction. Those that are rejected write nothing; the others go on."""
        with traced(commands) as (ours, opened):
            return _noted(await self._mutate_many(ours), opened)

    async def _mutate_many(self, commands: Sequence[Command]) -> list[Outcome]:
        orgs = {command.org_id for command in commands}
        if len(orgs) > 1:
            raise ValueError(f"expected commands of one org, found {sorted(orgs)}")
        drafts = self._drafts(commands)
        if not any(isinstance(item, ResolvedCommand) for item in drafts):
            return [item for item in drafts if isinstance(item, Rejection)]

        proof = CommitProof()

        async def work(connection: Connection) -> list[Outcome]:
            outcomes = await _carry_out_all(connection, drafts, self.database.clock.now())
            proof.audit_id = _first_audit_id(outcomes)
            return outcomes

        return await self.database.run(work, org_id=orgs.pop(), plans=_plans(commands), proof=proof)

    async def mutate_in(
        self, connection: Connection, commands: Sequence[Command], held: LockedRows | None = None
    ) -> list[Outcome]:
        """The same inside the caller's transaction: it commits or rolls back with the caller's rows.

        What the caller holds is not locked and read again, and is what it has become afterwards.
        """
        with traced(commands) as (ours, opened):
            done = await _carry_out_all(connection, self._drafts(ours), self.database.clock.now(), held)
            return _noted(done, opened)

    def _drafts(self, commands: Sequence[Command]) -> list[ResolvedCommand | Rejection]:
        now, limit = self.database.clock.now(), self.database.settings.payload_bytes_max
        return [resolve_command(self.registry, command, now, limit) for command in commands]


def _first_audit_id(outcomes: Sequence[Outcome]) -> UUID | None:
    """Return the audit entry of one of the changes: all of them commit together."""
    audit_ids = (outcome.audit_id for outcome in outcomes if isinstance(outcome, Mutation))
    return next((audit_id for audit_id in audit_ids if audit_id is not None), None)


def _plans(commands: Sequence[Command]) -> Plans:
    return "kept" if len(commands) <= COMMANDS_BY_KEPT_PLANS else "fresh"


def _noted(outcomes: list[Outcome], opened: Span | None) -> list[Outcome]:
    rejected = [outcome.code for outcome in outcomes if isinstance(outcome, Rejection)]
    if opened is not None and rejected:
        opened.note(rejected=len(rejected), rejection=rejected[0])
    return outcomes


class _ValueTaken(Exception):
    """Another entity has the value of a unique field; never leaves this module."""


VALUE_TAKEN: Final = "AS013"


async def _carry_out_all(
    connection: Connection,
    drafts: Sequence[ResolvedCommand | Rejection],
    now: datetime,
    held: LockedRows | None = None,
) -> list[Outcome]:
    held = held or LockedRows()
    if not any(isinstance(item, ResolvedCommand) and item.contract.unique_fields for item in drafts):
        return await _carry_out_together(connection, drafts, now, held)
    # The database alone knows whether a value is taken. What it refuses is undone, then each command is done by itself.
    entities = dict(held.entities)
    try:
        async with connection.transaction():
            return await _carry_out_together(connection, drafts, now, held)
    except _ValueTaken as taken:
        held.entities.clear()
        held.entities |= entities
        if len(drafts) == 1:
            (field_name,) = taken.args
            message = f"another entity of this type has the same `{field_name}`"
            return [Rejection("NOT_UNIQUE", message, ("payload", field_name))]
    return [outcome for item in drafts for outcome in await _carry_out_all(connection, [item], now, held)]


async def _carry_out_together(
    connection: Connection,
    drafts: Sequence[ResolvedCommand | Rejection],
    now: datetime,
    held: LockedRows,
) -> list[Outcome]:
    batch = await _read(connection, [item for item in drafts if isinstance(item, ResolvedCommand)], now, held)
    outcomes = [
        await _carry_out(connection, batch, item) if isinstance(item, ResolvedCommand) else item
        for item in drafts
    ]
    await _write(connection, batch)
    if any(isinstance(item, ResolvedCommand) and item.needs_connection for item in drafts):
        held.forget()
    return outcomes


async def _read(
    connection: Connection, drafts: Sequence[ResolvedCommand], now: datetime, held: LockedRows
) -> MutationBatch:
    named = sorted({(d.command.org_id, d.entity_id) for d in drafts if d.entity_id} - held.entities.keys())
    if named:
        orgs, ids = [org for org, _ in named], [entity_id for _, entity_id in named]
        rows = await connection.fetch(_SQL.lock_entities, orgs, ids)
        held.entities |= {(row["org_id"], row["id"]): entity_from(row) for row in rows}
    kinds = sorted({(d.command.org_id, d.contract.name) for d in drafts} - held.rules.keys())
    if kinds:
        orgs, types = [org for org, _ in kinds], [entity_type for _, entity_type in kinds]
        rules = RuleBook.of(await connection.fetch(_SQL.load_rules, orgs, types))
        held.rules |= {kind: rules.about(kind) for kind in kinds}
    return MutationBatch(now, held.entities, held.rules)


async def _carry_out(connection: Connection, batch: MutationBatch, draft: ResolvedCommand) -> Outcome:
    entity = batch.entity(draft)
    if rejection := check_access(draft, entity):
        return rejection
    effects = RuleEffects()
    if draft.needs_connection:
        verdict = await _decide_in_savepoint(connection, batch, draft, entity, effects)
    else:
        verdict = await _decide(connection, batch, draft, entity, effects)
    if isinstance(verdict, Rejection):
        batch.evidence += effects.evidence
        return verdict
    if verdict.is_empty:
        return Mutation(verdict.after, changed=False)
    batch.accept(verdict)
    batch.events += [_confine_event(verdict.after.partition_id, event) for event in effects.events]
    batch.evidence += effects.evidence
    return Mutation(verdict.after, changed=True, audit_id=verdict.audit_id)


def _confine_event(partition_id: str | None, event: Event) -> Event:
    """Return an event of a rule, confined to the partition of its entity."""
    if partition_id is None:
        return event
    return replace(event, payload={**event.payload, PARTITION: partition_id})


class _Undo(Exception):
    """Rolls a savepoint back; never leaves this module."""


async def _decide_in_savepoint(
    connection: Connection,
    batch: MutationBatch,
    draft: ResolvedCommand,
    entity: Entity | None,
    effects: RuleEffects,
) -> EntityChange | Rejection:
    """User code that touches the database has a savepoint of its own: a rejection undoes what it wrote."""
    verdict: EntityChange | Rejection | None = None
    try:
        async with connection.transaction():
            verdict = await _decide(connection, batch, draft, entity, effects)
            if isinstance(verdict, Rejection) or verdict.is_empty:
                raise _Undo
    except _Undo:
        pass
    assert verdict is not None
    return verdict


async def _decide(
    connection: Connection,
    batch: MutationBatch,
    draft: ResolvedCommand,
    entity: Entity | None,
    effects: RuleEffects,
) -> EntityChange | Rejection:
    base = base_content(draft, entity)
    if defaults := default_values(draft, batch.now):
        draft = replace(draft, payload={**defaults, **draft.payload})
    asked = {**base, **(draft.payload if draft.action is None else {})}
    view = entity_view(draft, entity, asked)
    if denied := batch.rules_for(draft).apply("before", draft, view, batch.now, effects):
        return denied
    try:
        changes = await _run_action(connection, draft, entity, effects)
    except Refused as refusal:
        return refusal.rejection
    change = _result(draft, entity, {**changes, **effects.take_sets()}, base, batch.now)
    if isinstance(change, Rejection):
        return change
    view = entity_view(draft, change.after, change.after.data)
    if denied := batch.rules_for(draft).apply("after", draft, view, batch.now, effects):
        return denied
    if sets := effects.take_sets():
        return _result(draft, entity, {**change.after.data, **sets}, base, batch.now)
    return change


async def _run_action(
    connection: Connection, draft: ResolvedCommand, entity: Entity | None, effects: RuleEffects
) -> dict[str, Any]:
    if draft.action is None:
        return dict(draft.payload)
    assert entity is not None
    seen = entity.evolve(data={**entity.data, **effects.sets})
    run: Any = draft.action.run
    if draft.action.needs_connection:
        return dict(await run(connection, seen, draft.payload))
    return dict(run(seen, draft.payload))


def _result(
    draft: ResolvedCommand, entity: Entity | None, changes: dict[str, Any], base: Any, now: datetime
) -> EntityChange | Rejection:
    data, problems = check_result(draft, changes, base)
    if problems:
        return Rejection.of(problems)
    change = requested_change(draft, entity, data, now)
    return check_locked_edit(change) or change


async def _write(connection: Connection, batch: MutationBatch) -> None:
    if batch.changes:
        rows, layers = change_rows(batch.changes, batch.now)
        try:
            await connection.execute(_SQL.write_entities, rows, layers)
        except asyncpg.PostgresError as error:
            if error.sqlstate != VALUE_TAKEN:
                raise
            raise _ValueTaken(error.detail) from error
    await emit_events(connection, batch.events, batch.now)
    if batch.evidence:
        await connection.execute(_SQL.record_rule_evaluations, batch.evidence)


@contextmanager
def traced(commands: Sequence[Command]) -> Iterator[tuple[Sequence[Command], Span | None]]:
    """Yield the commands, each with its trace, and the span around them, if there is a tracer.

    What steps want brings the trace of their node, which has a span already.
    """
    if not commands or commands[0].by_step:
        yield commands, None
        return
    first = commands[0]
    with scope(org_id=first.org_id):
        if hooks.tracer is None:
            yield _carrying(commands, first.trace_id or current_trace()), None
            return
        about = {"org_id": first.org_id, "action": first.action, "commands": len(commands)}
        with span("mutate", parent=first.trace_id, attributes=about) as opened:
            yield _carrying(commands, opened.trace if opened else None), opened


def _carrying(commands: Sequence[Command], trace: str | None) -> Sequence[Command]:
    """Commands of the same trace, or of none, go on from here; those of another keep theirs."""
    if trace is None:
        return commands
    return [_goes_on(command, trace) for command in commands]


def _goes_on(command: Command, trace: str) -> Command:
    own = command.trace_id
    if own == trace or (own is not None and trace_id_of(own) != trace_id_of(trace)):
        return command
    return replace(command, trace_id=trace)
