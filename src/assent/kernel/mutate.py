"""The one door for changes of entities, for one as for many.

The order in which a command is checked, and so the order of its rejections: names → policy → payload →
existence, version → edit window → lifecycle → rules before → the action and its result → rules after.
Everything is decided in memory under the locks; then numbers are drawn from series, and entities with versions and
audit, events, and evidence are written, one statement for each, however many commands there are. One span is around
all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
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
from assent.kernel.indexes import declaration_of
from assent.kernel.registry import PublishedContracts, Registry
from assent.kernel.resolve import ResolvedCommand, check_command, resolve_command
from assent.kernel.rules import RuleBook, RuleEffects, entity_view
from assent.model.ids import EntityKey, new_id
from assent.model.index_values import IndexDeclaration
from assent.model.mutation import PARTITION, Command, Entity, Event, Mutation, Refused, Rejection
from assent.model.series import NumberSeries
from assent.outbox.events import emit_events
from assent.store.commit import CommitProof
from assent.store.connection import put
from assent.store.database import Connection, Database, Plans
from assent.store.group_commit import GroupCommit
from assent.store.queries import load_queries
from assent.store.table_grants import advise_on_rights
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
    indexes: Mapping[Kind, IndexDeclaration]
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
    """Runs commands against published contracts and the actions of one application."""

    def __init__(
        self, database: Database, registry: Registry, contracts: PublishedContracts | None = None
    ) -> None:
        self.database = database
        self.registry = registry
        self.contracts = contracts or PublishedContracts(registry.contracts)
        self._group_commit: GroupCommit[Command, Outcome] = GroupCommit(self._mutate_many, self._mutate_alone)

    async def mutate(self, command: Command) -> Mutation:
        """Run one command by itself; raise `Refused` when it is rejected."""
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
        refusals = [check_command(self.registry, command) for command in commands]
        if all(refusals):
            return [refusal for refusal in refusals if refusal is not None]

        proof = CommitProof()

        async def work(connection: Connection) -> list[Outcome]:
            outcomes = await self._carry_out(connection, commands, LockedRows())
            proof.audit_id = _first_audit_id(outcomes)
            return outcomes

        return await self.database.run(work, org_id=orgs.pop(), plans=_plans(commands), proof=proof)

    async def mutate_in(
        self, connection: Connection, commands: Sequence[Command], held: LockedRows | None = None
    ) -> list[Outcome]:
        """Run commands inside the caller's transaction: they commit or roll back with the caller's rows.

        What the caller holds is not locked and read again, and is what it has become afterwards.
        """
        with traced(commands) as (ours, opened):
            return _noted(await self._carry_out(connection, ours, held or LockedRows()), opened)

    async def _carry_out(
        self, connection: Connection, commands: Sequence[Command], held: LockedRows
    ) -> list[Outcome]:
        """Lock and read what the commands are about; then each goes by the contract that its entity lives by."""
        now, refusals = self.database.clock.now(), [check_command(self.registry, each) for each in commands]
        understood = [each for each, refusal in zip(commands, refusals, strict=True) if refusal is None]
        await _read(connection, understood, held)
        await self.contracts.load(connection, _pins(understood, held))
        drafts = [
            refusal or self._resolve(each, held, now)
            for each, refusal in zip(commands, refusals, strict=True)
        ]
        return await _carry_out_all(connection, drafts, now, held)

    def _resolve(self, command: Command, held: LockedRows, now: datetime) -> ResolvedCommand | Rejection:
        entity_type, newest = command.entity_type, held.newest[command.kind]
        entity = held.entity_of(command)
        version = entity.contract_version if entity is not None else newest
        return resolve_command(
            self.registry,
            command,
            self.contracts.pinned(entity_type, version, newest),
            self.contracts.pinned(entity_type, newest, newest),
            now,
            self.database.settings.payload_bytes_max,
        )


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
    held: LockedRows,
) -> list[Outcome]:
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
    # Asks for nothing, unless code of the application had the connection in between.
    await _read(connection, [item.command for item in drafts if isinstance(item, ResolvedCommand)], held)
    batch = MutationBatch(now, held.entities, held.rules, held.indexes)
    outcomes = [
        await _carry_out(connection, batch, item) if isinstance(item, ResolvedCommand) else item
        for item in drafts
    ]
    if drawn := await _number(connection, batch):
        outcomes = [_with_numbers(outcome, drawn) for outcome in outcomes]
    await _write(connection, batch)
    if any(isinstance(item, ResolvedCommand) and item.needs_connection for item in drafts):
        held.forget()
    return outcomes


async def _read(connection: Connection, commands: Sequence[Command], held: LockedRows) -> None:
    named = sorted({(c.org_id, c.entity_id) for c in commands if c.entity_id} - held.entities.keys())
    if named:
        orgs, ids = [org for org, _ in named], [entity_id for _, entity_id in named]
        rows = await connection.fetch(_SQL.lock_entities, orgs, ids)
        held.entities |= {(row["org_id"], row["id"]): entity_from(row) for row in rows}
    kinds = sorted({command.kind for command in commands} - held.rules.keys())
    if kinds:
        orgs, types = [org for org, _ in kinds], [entity_type for _, entity_type in kinds]
        rows = await connection.fetch(_SQL.load_rules, orgs, types)
        rules = RuleBook.of(rows)
        held.rules |= {kind: rules.about(kind) for kind in kinds}
        held.newest |= {(row["org_id"], row["entity_type"]): row["contract_version"] for row in rows}
        held.indexes |= {(row["org_id"], row["entity_type"]): declaration_of(row) for row in rows}


def _pins(commands: Sequence[Command], held: LockedRows) -> Iterator[tuple[str, int]]:
    """Yield the contract versions that commands go by; none for types of which none is published."""
    for command in commands:
        newest = held.newest[command.kind]
        if newest is not None:
            entity = held.entity_of(command)
            yield command.entity_type, newest
            if entity is not None and entity.type == command.entity_type:
                yield entity.type, entity.contract_version


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
        try:
            return dict(await run(connection, seen, draft.payload))
        except asyncpg.PostgresError as error:
            advise_on_rights(error)
            raise
    return dict(run(seen, draft.payload))


def _result(
    draft: ResolvedCommand, entity: Entity | None, changes: dict[str, Any], base: Any, now: datetime
) -> EntityChange | Rejection:
    data, problems = check_result(draft, changes, base)
    if problems:
        return Rejection.of(problems)
    change = requested_change(draft, entity, data, now)
    return check_locked_edit(change) or change


async def _number(connection: Connection, batch: MutationBatch) -> dict[UUID, Entity]:
    """Draw the numbers of new entities, all in one statement, and return the numbered versions by their ids.

    Nothing is decided after it: a command that is refused has drawn no number.
    """
    wanted: dict[tuple[str, str, str, str], list[tuple[EntityKey, NumberSeries]]] = {}
    for change in batch.changes:
        entity = change.after
        for name, series in change.draft.contract.series.items() if change.before is None else ():
            counter = (entity.org_id, entity.type, name, series.period(batch.now))
            wanted.setdefault(counter, []).append(((entity.org_id, entity.id), series))
    if not wanted:
        return {}
    draws = [
        {**dict(zip(_COUNTER, counter, strict=True)), "amount": len(drawing)}
        for counter, drawing in wanted.items()
    ]
    numbers: dict[EntityKey, dict[str, str]] = {}
    for row in await connection.fetch(_SQL.draw_numbers, draws):
        drawing = wanted[row["org_id"], row["entity_type"], row["field"], row["period"]]
        first = row["last_number"] - len(drawing) + 1
        for number, (key, series) in enumerate(drawing, start=first):
            numbers.setdefault(key, {})[row["field"]] = series.text(number, batch.now)
    keys = [(change.after.org_id, change.after.id) for change in batch.changes]
    batch.changes = [
        change.numbered(numbers[key]) if key in numbers else change
        for key, change in zip(keys, batch.changes, strict=True)
    ]
    numbered = [
        (key, change.after) for key, change in zip(keys, batch.changes, strict=True) if key in numbers
    ]
    batch.entities |= dict(numbered)
    return {entity.version_id: entity for _, entity in numbered}


_COUNTER: Final = ("org_id", "entity_type", "field", "period")


def _with_numbers(outcome: Outcome, versions: Mapping[UUID, Entity]) -> Outcome:
    if isinstance(outcome, Rejection):
        return outcome
    return replace(outcome, entity=versions.get(outcome.entity.version_id, outcome.entity))


async def _write(connection: Connection, batch: MutationBatch) -> None:
    if batch.changes:
        rows, layers = change_rows(batch.changes, batch.indexes, batch.now)
        # Whether a value is taken, the command has to hear; whatever else is refused is a surprise, also later.
        write = connection.execute if _has_unique_values(batch) else partial(put, connection)
        try:
            await write(_SQL.write_entities, rows, layers)
        except asyncpg.PostgresError as error:
            if error.sqlstate != VALUE_TAKEN:
                raise
            raise _ValueTaken(error.detail) from error
    await emit_events(connection, batch.events, batch.now)
    if batch.evidence:
        await put(connection, _SQL.record_rule_evaluations, batch.evidence)


def _has_unique_values(batch: MutationBatch) -> bool:
    return any(change.draft.contract.unique_fields for change in batch.changes)


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
