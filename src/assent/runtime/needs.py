"""Fulfilling what nodes need for: mutations in one call to the kernel, functions one by one in savepoints."""

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from assent.approvals.requests import consume_requests, write_requests
from assent.approvals.resolve import PeopleQuery, find_people
from assent.documents.requirements import ActorsChange, load_requirements, write_requirements
from assent.engine.nodes.base import (
    Call,
    CheckEventKey,
    EvaluateRule,
    FindPeople,
    Mutate,
    Need,
    ResolveTask,
    RuleVerdict,
    RunVerb,
)
from assent.engine.visit import Visit, variables_of
from assent.kernel import Kernel, Outcome
from assent.kernel.entities import LockedRows
from assent.kernel.rules import RulePrograms, denied_without_setting, programs_of
from assent.language import as_json
from assent.model.actor import SYSTEM, Actor
from assent.model.canonical import require_canonical
from assent.model.ids import new_id
from assent.model.job import OutsideWork, Submittable
from assent.model.mutation import Command, KeyedEvent, Mutation, Refused, Rejection
from assent.model.names import is_blank
from assent.model.problems import Invalid
from assent.people.directory import Directory
from assent.runtime.batch import Execution
from assent.runtime.declared_names import require_unknown
from assent.runtime.errors import CallsApplication, InstanceBusy, StepFailed
from assent.store.connection import put, send_unsent
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.table_grants import advise_on_rights
from assent.tasks.task_type import TaskType
from assent.telemetry import scope

if TYPE_CHECKING:
    from assent.runtime.verb_commands import StepVerbs

_SQL: Final = load_queries("assent.runtime", "runtime.sql")
_KERNEL_SQL: Final = load_queries("assent.kernel", "kernel.sql")

NeedOfRun = tuple[Execution, Visit, Need]


@dataclass
class NeedsFulfilment:
    """What needs are fulfilled with."""

    kernel: Kernel
    directory: Directory
    operations: dict[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, TaskType] = field(default_factory=dict)
    verbs: "StepVerbs | None" = None
    """Runs the verbs of steps; the application sets it, for it runs the commands that lie above."""


async def fulfil_needs(
    connection: Connection,
    means: NeedsFulfilment,
    needs: Sequence[NeedOfRun],
    held: LockedRows,
    now: datetime,
) -> None:
    """Answer every need of a wave; a step's time is that of the statements that it shares, or of its own call."""
    kernel, operations = means.kernel, means.operations
    mutations = [(job, visit, need) for job, visit, need in needs if isinstance(need, Mutate)]
    if mutations:
        with _timed(mutations):
            await _consume(connection, mutations, now)
            await _mutate(connection, kernel, mutations, held)
    questions = [(job, visit, need) for job, visit, need in needs if isinstance(need, FindPeople)]
    if questions:
        with _timed(questions):
            await _find_people(connection, means.directory, questions, now)
    rules = [(job, visit, need) for job, visit, need in needs if isinstance(need, EvaluateRule)]
    if rules:
        with _timed(rules):
            await _ask_rules(connection, rules, now)
    keys = [(job, visit, need) for job, visit, need in needs if isinstance(need, CheckEventKey)]
    if keys:
        with _timed(keys):
            await _check_event_keys(connection, keys)
    for job, visit, need in needs:
        if isinstance(need, ResolveTask):
            job.run.answer(visit, await _check_task(connection, means.tasks, need))
        if isinstance(need, Call):
            await send_unsent(connection)  # its receipt, before the function runs
            with _timed([(job, visit, need)]):
                job.run.answer(visit, await _call(connection, operations, job, visit, need))
            held.forget()
        if isinstance(need, RunVerb):
            await send_unsent(connection)
            with _timed([(job, visit, need)]):
                job.run.answer(visit, await _run_verb(connection, means, job, visit, need, now))
            held.forget()


def require_no_calls(means: NeedsFulfilment, needs: Sequence[NeedOfRun]) -> None:
    """Raise `CallsApplication` if a need calls a function of the application that may wait for something."""
    for _, visit, need in needs:
        waits = isinstance(need, Mutate) and means.kernel.registry.may_wait(need.action)
        if waits or isinstance(need, Call):
            raise CallsApplication(f"{visit.node.id} calls a function of the application")


@contextmanager
def _timed(needs: Sequence[tuple[Execution, Visit, Need]]) -> Iterator[None]:
    """Add the time that is spent within to each of these steps."""
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    for job, visit, _ in needs:
        job.add_time(visit.step_id, seconds)


async def _consume(
    connection: Connection, needs: Sequence[tuple[Execution, Visit, Mutate]], now: datetime
) -> None:
    """Use up the approvals that gates pass with, in one conditional UPDATE (WF-03)."""
    consumed = {r.id: (r, visit.step_id) for _, visit, need in needs for r in need.consumes}
    if not consumed:
        return
    gates = {r.id: visit.node.id for _, visit, need in needs for r in need.consumes}

    def refuse(request_id: UUID) -> Exception:
        return StepFailed(gates[request_id], ValueError(f"approval {request_id} was void or consumed before"))

    # A request that was approved in this transaction is written now, and no second time when the batch is written.
    unwritten = [c for job, _, need in needs for c in job.run.world.request_changes(need.consumes)]
    await write_requests(connection, unwritten, now)
    await consume_requests(connection, consumed, now, refuse)
    for job, visit, need in needs:
        for request in need.consumes:
            job.run.world.consume(request, visit.step_id)


async def _find_people(
    connection: Connection,
    directory: Directory,
    needs: Sequence[tuple[Execution, Visit, FindPeople]],
    now: datetime,
) -> None:
    asked = [_asked(job, visit, need) for job, visit, need in needs]
    found = await find_people(connection, directory, asked, now)
    for (job, visit, _), answer in zip(needs, found, strict=True):
        job.run.answer(visit, answer)


def _asked(job: Execution, visit: Visit, need: FindPeople) -> PeopleQuery:
    instance = job.run.instance
    return PeopleQuery(
        org_id=instance.org_id,
        workflow=job.run.plan.workflow.key,
        entity_type=instance.entity_type,
        entity_id=instance.entity_id,
        subject_id=instance.subject_id,
        groups=need.groups,
        originators=need.sitting.union(instance.originators.ids),
        separates=need.separates,
    )


async def _mutate(
    connection: Connection,
    kernel: Kernel,
    needs: Sequence[tuple[Execution, Visit, Mutate]],
    held: LockedRows,
) -> None:
    commands = [_command(job, visit, need) for job, visit, need in needs]
    await _require_free(connection, [command for command in commands if command.by_instance is None])
    outcomes: list[Outcome] = await kernel.mutate_in(connection, commands, held)
    for (job, visit, need), outcome in zip(needs, outcomes, strict=True):
        if isinstance(outcome, Rejection) and outcome.code == "UNKNOWN_ACTION":
            await require_unknown(connection, f"action:{need.action}")
        if isinstance(outcome, Mutation) and outcome.entity.id == job.run.instance.entity_id:
            job.run.world.entity = outcome.entity
            visit.forget_variables()  # they were read before the write
        job.run.answer(visit, outcome)


async def _require_free(connection: Connection, commands: Sequence[Command]) -> None:
    """Another instance's entity: its lock comes out of order, so it is tried and never waited for (D11, D28)."""
    foreign = [command for command in commands if command.entity_id is not None]
    if not foreign:
        return
    orgs, ids = [command.org_id for command in foreign], [command.entity_id for command in foreign]
    busy = await connection.fetch(_SQL.find_busy_entities, orgs, ids)
    if busy:
        raise InstanceBusy(f"another transaction has locked entity {busy[0]['id']}")


def _command(job: Execution, visit: Visit, need: Mutate) -> Command:
    instance, own = job.run.instance, need.entity_id is None
    actor = _actor(visit, need)
    return Command(
        org_id=instance.org_id,
        action=need.action,
        actor=actor,
        acted_by=_acted_by(job, visit, actor),
        authority=visit.token.authority,
        contributors=instance.originators.ids,
        payload=need.payload,
        entity_id=instance.entity_id if own else need.entity_id,
        channel=job.origin.channel,
        place=job.origin.place,
        reason=need.reason or f"step {visit.node.node.name}",
        trace_id=job.trace_of(visit.step_id),
        partition_id=instance.partition_id,
        by_instance=instance.id if own else None,
        by_step=True,
        to_state=need.to_state,
    )


def _actor(visit: Visit, need: Mutate) -> Actor:
    """Return whose rights count: the node's `run_as`, or the person on whose behalf the token moves."""
    actor = acting(visit)
    if not need.grant or actor.kind == "system":
        return actor
    # The rights of the actor who brought the token to a gate were checked then; the gate's own write is the instance's
    # right.
    entity_type = need.action.partition(".")[0]
    right = f"{entity_type}:{need.payload['transition']}"
    return replace(actor, capabilities=[*actor.capabilities, right])


def acting(visit: Visit) -> Actor:
    """Return with whose rights a step acts: its `run_as`, or the person on whose behalf the token moves."""
    config = visit.node.node.config
    run_as = config.get("run_as", "actor")
    if run_as == "system":
        return SYSTEM
    if run_as == "service_account":
        return _service_account(visit, str(config["service_account"]))
    return visit.actor


def _service_account(visit: Visit, name: str) -> Actor:
    """Return the account with the rights that it has now; a member who is a person is no account, and lends none."""
    found = visit.world.actors.get(name)
    is_account = found is not None and found.kind == "service_account"
    return found if found is not None and is_account else Actor(name, "service_account")


def _acted_by(job: Execution, visit: Visit, actor: Actor) -> Actor | None:
    """Return who carried it out, where it is not the actor: the system after a wait, an operator who retries."""
    acts_as_itself = visit.node.node.config.get("run_as", "actor") != "actor"
    return None if acts_as_itself or job.run.actor.id == actor.id else job.run.actor


async def _ask_rules(
    connection: Connection,
    needs: Sequence[tuple[Execution, Visit, EvaluateRule]],
    now: datetime,
) -> None:
    """Evaluate rules of the orgs for the entities of the instances, and keep the evidence as the kernel does."""
    orgs = sorted({job.work.org_id for job, _, _ in needs})
    names = sorted({need.name for _, _, need in needs})
    rows = await connection.fetch(_SQL.load_rules_by_name, orgs, names)
    rules = {(row["org_id"], row["entity_type"], row["name"]): row for row in rows}
    evidence: list[dict[str, Any]] = []
    for job, visit, need in needs:
        rule = rules.get((job.work.org_id, job.run.instance.entity_type, need.name))
        verdict = _rule_verdict(job, visit, rule, need)
        if isinstance(verdict, RuleVerdict):
            evidence.append(_rule_evidence(job, visit, rule, verdict, now))
        job.run.answer(visit, verdict)
    if evidence:
        await put(connection, _KERNEL_SQL.record_rule_evaluations, evidence)


def _rule_verdict(job: Execution, visit: Visit, rule: Any, need: EvaluateRule) -> RuleVerdict | Rejection:
    """Return what a rule says of the instance's entity, or why it cannot: it is broken, or not there."""
    contract = job.run.plan.contract
    if rule is None or contract is None:
        about = job.run.instance.entity_type or "a flow without an entity"
        return Rejection("RULE_MISSING", f"there is no rule `{need.name}` for {about}")
    programs, problems = programs_of(rule["condition"], rule["outcome"], rule["outcome_json"], contract)
    if programs is None:
        return Rejection("RULE_BROKEN", f"rule `{need.name}` cannot be applied: {problems[0].message}")
    variables = variables_of(job.run.instance, job.run.world, visit.actor)
    return _verdict_of(need.name, rule["outcome"], programs, variables)


def _verdict_of(
    name: str, outcome: str, programs: RulePrograms, variables: Mapping[str, Any]
) -> RuleVerdict | Rejection:
    evaluation = programs.condition(variables)
    found = evaluation.to_json()
    if not evaluation.holds:
        missing = programs.missing_setting(evaluation) if outcome == "deny" else None
        return RuleVerdict(found, denial=missing and denied_without_setting(name, missing).message)
    if outcome == "deny":
        return RuleVerdict(found, denial=programs.message(variables))
    if outcome == "set":
        return RuleVerdict(found, sets=programs.sets(variables))
    key = programs.key(variables)
    if is_blank(key) or len(key) > KeyedEvent.KEY_CHARACTERS_MAX:
        return Rejection("RULE_BROKEN", f"rule `{name}` cannot be applied: its key is {key!r}")
    return RuleVerdict(found, event=KeyedEvent(key, programs.payload(variables)))


def _rule_evidence(
    job: Execution, visit: Visit, rule: Any, verdict: RuleVerdict, now: datetime
) -> dict[str, Any]:
    instance, applies = job.run.instance, verdict.evaluation["result"] is True or verdict.denial is not None
    return {
        **{name: rule[name] for name in ("org_id", "timing", "entity_type")},
        "id": new_id(now),
        "rule_id": rule["id"],
        "rule_name": rule["name"],
        "action": "workflow.rule",
        "entity_id": instance.entity_id,
        "entity_version": instance.entity_version,
        "expression": verdict.evaluation["expression"],
        "variables": verdict.evaluation["variables"],
        "result": applies,
        "outcome": rule["outcome"] if applies else None,
        "actor_id": job.run.actor.id,
        "trace_id": job.trace_of(visit.step_id),
        "at": now,
    }


async def _check_event_keys(
    connection: Connection, needs: Sequence[tuple[Execution, Visit, CheckEventKey]]
) -> None:
    """Refuse keys of sources that sign their events, for all steps in one statement."""
    orgs, keys = [job.work.org_id for job, _, _ in needs], [need.key for _, _, need in needs]
    rows = await connection.fetch(_SQL.find_signed_keys, orgs, keys)
    signed = {(row["org_id"], row["key"]) for row in rows}
    for job, visit, need in needs:
        message = f"events under the key `{need.key}` must be signed by their source; a step cannot emit them"
        refusal = Rejection("KEY_IS_SIGNED", message) if (job.work.org_id, need.key) in signed else None
        job.run.answer(visit, refusal)


async def _check_task(
    connection: Connection, tasks: Mapping[str, TaskType], need: ResolveTask
) -> Submittable | Rejection:
    """Return whether the application knows such a task and its input will do."""
    kind = tasks.get(need.type)
    if kind is None:
        await require_unknown(connection, f"task:{need.type}")
        return Rejection("UNKNOWN_TASK", f"no task `{need.type}` is registered")
    try:
        return kind.submittable(need.input)
    except Invalid as invalid:
        return Rejection.of(invalid.problems)


async def _call(connection: Connection, operations: Any, job: Execution, visit: Visit, need: Call) -> Any:
    """Call a function of the application: what it raises rolls the attempt back, what it refuses answers the need."""
    function = operations.get(need.name)
    if function is None:
        await require_unknown(connection, f"operation:{need.name}")
        return Rejection("UNKNOWN_OPERATION", f"no operation `{need.name}` is registered")
    org_id, instance_id = job.work.key
    try:
        with scope(org_id=org_id, instance_id=instance_id, trace=job.trace_of(visit.step_id)):
            async with connection.transaction():
                answer = function(connection, need.arguments)
                return _kept(await answer if inspect.isawaitable(answer) else answer)
    except Refused as refusal:
        return refusal.rejection
    except Exception as error:
        advise_on_rights(error)
        raise StepFailed(visit.node.id, error) from error


async def _run_verb(  # noqa: PLR0913, PLR0917
    connection: Connection,
    means: NeedsFulfilment,
    job: Execution,
    visit: Visit,
    need: RunVerb,
    now: datetime,
) -> Any:
    """Run a verb with the rights of the step's person; what it refuses is its answer.

    It may move requirements of the instance itself: those that the instance has moved so far are written before it, and
    what is required is read again after it.
    """
    instance, world = job.run.instance, job.run.world
    if means.verbs is None:
        raise StepFailed(visit.node.id, RuntimeError("expected a runtime of an application, found none"))
    if job.run.plan.has_requirements:
        moved = [ActorsChange(one, job.run.actor.id) for one in world.changed]
        await write_requirements(connection, moved, now, wakes=False)
        world.changed.clear()
    actor = acting(visit)
    try:
        with scope(org_id=instance.org_id, instance_id=instance.id, trace=job.trace_of(visit.step_id)):
            async with connection.transaction():
                answer = await means.verbs.run(connection, instance, actor, need.call, need.variables)
    except Refused as refusal:
        return refusal.rejection
    except Exception as error:
        advise_on_rights(error)
        raise StepFailed(visit.node.id, error) from error
    if job.run.plan.has_requirements:
        found = await load_requirements(connection, [job.work.key])
        world.requirements = found.get(job.work.key, {})
    return answer


def _kept(answer: Any) -> Any:
    """Return an answer as the step keeps it; one that cannot be kept is the function's failure."""
    if isinstance(answer, OutsideWork):
        require_canonical(answer.payload)
        return answer
    kept = as_json(answer)
    require_canonical(kept)
    return kept
