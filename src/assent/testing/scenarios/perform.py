"""What each step of a scenario does, through the same calls that a door would make."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from assent.model.mutation import Command, Refused, Rejection
from assent.testing.outside import answer_effect, push_result
from assent.testing.scenarios import people_steps
from assent.testing.scenarios.document_state import ScenarioDocument
from assent.testing.scenarios.stage import Stage, not_waiting
from assent.testing.scenarios.steps import (
    AdvanceStep,
    AnswerStep,
    ChangeOrgStep,
    ChangePeopleStep,
    ChangeStep,
    ClaimStep,
    ControlStep,
    CreateStep,
    DelegateStep,
    EmitStep,
    ReassignStep,
    ReleaseStep,
    ReplyStep,
    ResultStep,
    ScenarioStep,
    StartStep,
    WaitStep,
)


async def act(stage: Stage, step: ScenarioStep) -> None:
    """Do what a step says; raises `Refused` where it is refused."""
    await _ACTS[type(step)](stage, step)


async def _create(stage: Stage, step: CreateStep) -> None:
    sandbox = stage.sandbox
    command = Command(
        sandbox.org_id, f"{step.create}.create", await sandbox.actor(step.as_), stage.filled(step.data)
    )
    entity = (await sandbox.runtime.core.kernel.mutate(command)).entity
    stage.add(ScenarioDocument(step.name or step.create, entity_id=entity.id), step.name)


async def _start(stage: Stage, step: StartStep) -> None:
    sandbox = stage.sandbox
    actor, data = await sandbox.actor(step.as_), stage.filled(step.data)
    view = await sandbox.runtime.org(sandbox.org_id, actor).instances.start(step.start, data)
    stage.add(ScenarioDocument(step.name or step.start, instance_id=view.id), step.name)


async def _change(stage: Stage, step: ChangeStep) -> None:
    """A transition goes through the workflow, where there is one; everything else to the kernel."""
    sandbox, document = stage.sandbox, stage.document(step.on)
    actor, data = await sandbox.actor(step.as_), stage.filled(step.data)
    entity = (await stage.standing(step)).entity
    if entity is None:
        message = f"{document.name} is a flow: `{step.verb}` is no step of it"
        raise Refused(Rejection("UNKNOWN_ACTION", message, hint="write `advance: <event>`"))
    contract = sandbox.app.registry.contracts[entity.type]
    if step.verb in contract.lifecycle.transitions and contract.workflow != "none":
        await sandbox.runtime.org(sandbox.org_id, actor).entities.transition(entity.id, step.verb, data)
        return
    command = Command(sandbox.org_id, f"{entity.type}.{step.verb}", actor, data, entity.id)
    changed = (await sandbox.runtime.core.kernel.mutate(command)).entity
    if changed.id != entity.id:
        stage.add(ScenarioDocument(f"{document.name} (amended)", entity_id=changed.id), None)


async def _advance(stage: Stage, step: AdvanceStep) -> None:
    sandbox, instance_id = stage.sandbox, (await stage.standing(step)).instance_id
    actor = await sandbox.actor(step.as_)
    await sandbox.runtime.org(sandbox.org_id, actor).instances.advance(
        instance_id, step.advance, stage.filled(step.data), step=step.step
    )


async def _control(stage: Stage, step: ControlStep) -> None:
    runtime, org_id = stage.sandbox.runtime, stage.sandbox.org_id
    instance_id, actor = (await stage.standing(step)).instance_id, await stage.sandbox.actor(step.as_)
    match step.workflow:
        case "cancel":
            await runtime.org(org_id, actor).instances.cancel(instance_id, step.reason)
        case "pause":
            await runtime.org(org_id, actor).instances.pause(instance_id, step.reason)
        case "resume":
            await runtime.org(org_id, actor).instances.resume(instance_id)
        case "retry":
            await runtime.org(org_id, actor).instances.retry(instance_id, step.step)
        case "fail":
            await runtime.org(org_id, actor).instances.force_fail(instance_id, step.reason)


async def _emit(stage: Stage, step: EmitStep) -> None:
    await stage.sandbox.runtime.org(stage.sandbox.org_id).events.emit(
        stage.filled(step.emit), stage.filled(step.data)
    )


async def _reply(stage: Stage, step: ReplyStep) -> None:
    sandbox, standing = stage.sandbox, await stage.standing(step)
    wait = standing.wait_at(step.reply)
    step_id = wait.waiting.step_id if wait else None
    mishap = step.error.model_dump() if step.error else None
    if step_id is None or not await answer_effect(sandbox, step_id, stage.filled(step.data), mishap):
        raise not_waiting(standing, step.reply)


async def _result(stage: Stage, step: ResultStep) -> None:
    standing = await stage.standing(step)
    wait = standing.wait_at(step.result)
    step_id = wait.waiting.step_id if wait else None
    sent = {"items": stage.filled(list(step.items)), "status": step.status, "error": step.error}
    if step_id is None or not await push_result(stage.sandbox, step_id, step.key, sent):
        raise not_waiting(standing, step.result)


async def _wait(stage: Stage, step: WaitStep) -> None:
    await stage.sandbox.advance_time(step.length)


async def _people(stage: Stage, step: ChangePeopleStep) -> None:
    await stage.sandbox.people(**{name: member.model_dump() for name, member in step.people.items()})


async def _org(stage: Stage, step: ChangeOrgStep) -> None:
    await stage.sandbox.org_settings(**step.org)


_ACTS: Final[Mapping[type[ScenarioStep], Callable[[Stage, Any], Awaitable[None]]]] = {
    CreateStep: _create,
    StartStep: _start,
    ChangeStep: _change,
    AnswerStep: people_steps.answer,
    AdvanceStep: _advance,
    ClaimStep: people_steps.claim,
    ReleaseStep: people_steps.release,
    ReassignStep: people_steps.reassign,
    DelegateStep: people_steps.stand_in,
    ControlStep: _control,
    EmitStep: _emit,
    ReplyStep: _reply,
    ResultStep: _result,
    WaitStep: _wait,
    ChangePeopleStep: _people,
    ChangeOrgStep: _org,
}
