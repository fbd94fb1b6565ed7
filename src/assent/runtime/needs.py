"""Fulfilling what nodes wish for: mutations in one call to the kernel, functions one by one in savepoints."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from assent.approvals.requests import consume_requests, write_requests
from assent.approvals.resolve import PeopleQuery, find_people
from assent.engine.nodes.base import Call, EvaluateRule, FindPeople, Mutate, Need, ResolveTask
from assent.engine.visit import Visit, variables_of
from assent.kernel import Kernel, Outcome
from assent.kernel.locked_rows import LockedRows
from assent.kernel.programs import programs_of
from assent.language import as_json
from assent.model.actor import SYSTEM, Actor
from assent.model.canonical import require_canonical
from assent.model.effect import OutsideWork
from assent.model.mutation import Command, Mutation, Refused, Rejection
from assent.model.problems import Invalid
from assent.model.task import Submittable
from assent.people.directory import Directory
from assent.runtime.batch import Execution
from assent.runtime.errors import InstanceBusy, StepFailed
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.task_type import TaskType
from assent.telemetry import scope

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

NeedOfRun = tuple[Execution, Visit, Need]


@dataclass
class NeedsFulfilment:
    """What needs are fulfilled with."""

    kernel: Kernel
    directory: Directory
    operations: dict[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, TaskType] = field(default_factory=dict)


async def fulfil_needs(
    connection: Connection,
    means: NeedsFulfilment,
    wishes: Sequence[NeedOfRun],
    held: LockedRows,
    now: datetime,
) -> None:
    """Give every wish of a wave its answer."""
    kernel, operations = means.kernel, means.operations
    mutations = [(job, visit, wish) for job, visit, wish in wishes if isinstance(wish, Mutate)]
    if mutations:
        await _consume(connection, mutations, now)
        await _mutate(connection, kernel, mutations, held)
    questions = [(job, visit, wish) for job, visit, wish in wishes if isinstance(wish, FindPeople)]
    if questions:
        await _find_people(connection, means.directory, questions, now)
    rules = [(job, visit, wish) for job, visit, wish in wishes if isinstance(wish, EvaluateRule)]
    if rules:
        await _ask_rules(connection, kernel, rules)
    for job, visit, wish in wishes:
        if isinstance(wish, ResolveTask):
            job.run.answer(visit, _check_task(means.tasks, wish))
        if isinstance(wish, Call):
            job.run.answer(visit, await _call(connection, operations, job, visit, wish))
            held.forget()


async def _consume(
    connection: Connection, wishes: Sequence[tuple[Execution, Visit, Mutate]], now: datetime
) -> None:
    """Use up the approvals that gates pass with, in one conditional UPDATE (WF-03)."""
    consumed = {r.id: (r, visit.step_id) for _, visit, wish in wishes for r in wish.consumes}
    if not consumed:
        return
    # A request that was approved in this transaction is written now, and no second time when the batch is written.
    unwritten = [c for job, _, wish in wishes for c in job.run.world.request_changes(wish.consumes)]
    await write_requests(connection, unwritten, now)
    done = await consume_requests(connection, consumed, now)
    for job, visit, wish in wishes:
        for request in wish.consumes:
            if request.id not in done:
                raise StepFailed(
                    visit.node.id, ValueError(f"approval {request.id} was void or consumed before")
                )
            job.run.world.consume(request, visit.step_id)


async def _find_people(
    connection: Connection,
    directory: Directory,
    wishes: Sequence[tuple[Execution, Visit, FindPeople]],
    now: datetime,
) -> None:
    asked = [_asked(job, visit, wish) for job, visit, wish in wishes]
    found = await find_people(connection, directory, asked, now)
    for (job, visit, _), answer in zip(wishes, found, strict=True):
        job.run.answer(visit, answer)


def _asked(job: Execution, visit: Visit, wish: FindPeople) -> PeopleQuery:
    instance = job.run.instance
    return PeopleQuery(
        org_id=instance.org_id,
        workflow=job.run.plan.workflow.key,
        entity_type=instance.entity_type,
        entity_id=instance.entity_id,
        subject_id=instance.subject_id,
        groups=wish.groups,
        originators=wish.sitting.union(instance.originators.ids),
        separates=wish.separates,
    )


async def _mutate(
    connection: Connection,
    kernel: Kernel,
    wishes: Sequence[tuple[Execution, Visit, Mutate]],
    held: LockedRows,
) -> None:
    commands = [_command(job, visit, wish) for job, visit, wish in wishes]
    await _require_free(connection, [command for command in commands if command.by_instance is None])
    outcomes: list[Outcome] = await kernel.mutate_in(connection, commands, held)
    for (job, visit, _), outcome in zip(wishes, outcomes, strict=True):
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


def _command(job: Execution, visit: Visit, wish: Mutate) -> Command:
    instance, own = job.run.instance, wish.entity_id is None
    actor = _actor(visit, wish)
    return Command(
        org_id=instance.org_id,
        action=wish.action,
        actor=actor,
        acted_by=_acted_by(job, visit, actor),
        authority=visit.token.authority,
        contributors=instance.originators.ids,
        payload=wish.payload,
        entity_id=instance.entity_id if own else wish.entity_id,
        channel=job.origin.channel,
        place=job.origin.place,
        reason=wish.reason or f"step {visit.node.node.name}",
        trace_id=job.trace_of(visit.step_id),
        partition_id=instance.partition_id,
        by_instance=instance.id if own else None,
        by_step=True,
        to_state=wish.to_state,
    )


def _actor(visit: Visit, wish: Mutate) -> Actor:
    """Return whose rights count: the node's `run_as`, or the person on whose behalf the token moves."""
    config = visit.node.node.config
    run_as = config.get("run_as", "actor")
    if run_as == "system":
        return SYSTEM
    actor = visit.actor
    if run_as == "service_account":
        actor = _service_account(visit, str(config["service_account"]))
    if not wish.grant:
        return actor
    # Whoever brought the token to a gate was asked then; the gate's own write is the instance's right.
    entity_type = wish.action.partition(".")[0]
    return replace(actor, capabilities=actor.capabilities | {f"{entity_type}:{wish.payload['transition']}"})


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
    connection: Connection, kernel: Kernel, wishes: Sequence[tuple[Execution, Visit, EvaluateRule]]
) -> None:
    orgs = sorted({job.work.org_id for job, _, _ in wishes})
    names = sorted({wish.name for _, _, wish in wishes})
    rows = await connection.fetch(_SQL.load_rules_by_name, orgs, names)
    rules = {(row["org_id"], row["name"]): row for row in rows}
    for job, visit, wish in wishes:
        job.run.answer(visit, _rule_answer(kernel, job, visit, rules.get((job.work.org_id, wish.name)), wish))


def _rule_answer(kernel: Kernel, job: Execution, visit: Visit, rule: Any, wish: EvaluateRule) -> Any:
    """What a rule sets, or a rejection: it denies, it is broken, it is not there."""
    contract = kernel.registry.contracts.get(job.run.instance.entity_type or "")
    if rule is None or contract is None:
        return Rejection("RULE_MISSING", f"there is no rule `{wish.name}` for this entity")
    programs, problems = programs_of(rule["condition"], rule["outcome"], rule["outcome_json"], contract)
    if programs is None:
        return Rejection("RULE_BROKEN", f"rule `{wish.name}` cannot be applied: {problems[0].message}")
    variables = variables_of(job.run.instance, job.run.world, visit.actor)
    if not programs.condition.holds(variables):
        return {}
    if rule["outcome"] == "deny":
        return Rejection("RULE_DENIED", programs.message(variables))
    return programs.sets(variables) if rule["outcome"] == "set" else {}


def _check_task(tasks: Mapping[str, TaskType], wish: ResolveTask) -> Submittable | Rejection:
    """Whether the application knows such a task and its input will do."""
    kind = tasks.get(wish.type)
    if kind is None:
        return Rejection("UNKNOWN_TASK", f"no task `{wish.type}` is registered")
    try:
        return kind.submittable(wish.input)
    except Invalid as invalid:
        return Rejection.of(invalid.problems)


async def _call(connection: Connection, operations: Any, job: Execution, visit: Visit, wish: Call) -> Any:
    """A function of the application: what it raises rolls the attempt back, what it refuses is its answer."""
    function = operations.get(wish.name)
    if function is None:
        return Rejection("UNKNOWN_OPERATION", f"no operation `{wish.name}` is registered")
    org_id, instance_id = job.work.key
    try:
        with scope(org_id=org_id, instance_id=instance_id, trace=job.trace_of(visit.step_id)):
            async with connection.transaction():
                answer = function(connection, wish.arguments)
                return _kept(await answer if inspect.isawaitable(answer) else answer)
    except Refused as refusal:
        return refusal.rejection
    except Exception as error:
        raise StepFailed(visit.node.id, error) from error


def _kept(answer: Any) -> Any:
    """Return an answer as the step keeps it; one that cannot be kept is the function's failure."""
    if isinstance(answer, OutsideWork):
        require_canonical(answer.payload)
        return answer
    kept = as_json(answer)
    require_canonical(kept)
    return kept
