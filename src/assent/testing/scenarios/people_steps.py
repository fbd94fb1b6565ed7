"""What people do about their requests: decide, claim, release, reassign, delegate."""

from dataclasses import dataclass
from uuid import UUID

from assent.model.actor import Actor
from assent.model.mutation import Refused, Rejection
from assent.people import NewDelegation, delegate
from assent.store.database import Connection
from assent.testing.scenarios.stage import Stage, not_waiting
from assent.testing.scenarios.steps import (
    ActStep,
    AnswerStep,
    ClaimStep,
    DelegateStep,
    ReassignStep,
    ReleaseStep,
)


@dataclass(frozen=True, slots=True)
class ScenarioTarget:
    """Who acts, and on what: an approval by its request, or a form by its step."""

    actor: Actor
    id: UUID
    is_form: bool


async def answer(stage: Stage, step: AnswerStep) -> None:
    """An approval is decided, anything else that waits is advanced."""
    sandbox, standing = stage.sandbox, await stage.standing(step)
    actor, data = await sandbox.actor(step.as_), stage.filled(step.data)
    wait = standing.wait_at(step.node)
    if wait is not None and wait.waiting.kind != "approval":
        await sandbox.runtime.org(sandbox.org_id, actor).instances.advance(
            standing.instance_id, step.verb, data, step=step.node
        )
        return
    request_id = standing.request_of(step.node)
    if request_id is None:
        raise not_waiting(standing, step.node)
    await sandbox.runtime.org(sandbox.org_id, actor).approvals.decide(
        request_id,
        step.outcome,
        reason=step.reason,
        on_behalf_of=step.on_behalf_of,
        group=step.group,
        data=data,
    )


async def claim(stage: Stage, step: ClaimStep) -> None:
    asked = await _asked(stage, step, step.claim)
    org = stage.sandbox.runtime.org(stage.sandbox.org_id, asked.actor)
    await (org.forms if asked.is_form else org.approvals).claim(asked.id)


async def release(stage: Stage, step: ReleaseStep) -> None:
    asked = await _asked(stage, step, step.release)
    org = stage.sandbox.runtime.org(stage.sandbox.org_id, asked.actor)
    await (org.forms if asked.is_form else org.approvals).release(asked.id)


async def reassign(stage: Stage, step: ReassignStep) -> None:
    wanted = step.reassign
    asked = await _asked(stage, step, wanted.step)
    org = stage.sandbox.runtime.org(stage.sandbox.org_id, asked.actor)
    await (org.forms if asked.is_form else org.approvals).reassign(
        asked.id, from_user=wanted.from_, to_user=wanted.to, reason=wanted.reason
    )


async def _asked(stage: Stage, step: ActStep, node: str) -> ScenarioTarget:
    actor, standing = await stage.sandbox.actor(step.as_), await stage.standing(step)
    wait = standing.wait_at(node)
    is_form = wait is not None and wait.waiting.kind == "form"
    found = wait.waiting.step_id if wait is not None and is_form else standing.request_of(node)
    if found is None:
        raise not_waiting(standing, node)
    return ScenarioTarget(actor, found, is_form)


async def stand_in(stage: Stage, step: DelegateStep) -> None:
    sandbox, wanted = stage.sandbox, step.delegate
    now, actor = sandbox.clock.now(), await sandbox.actor(step.as_)
    ends_at = now + wanted.length if wanted.length else None
    given = NewDelegation(sandbox.org_id, step.as_, wanted.to, ends_at=ends_at, reason=wanted.reason)

    async def work(connection: Connection) -> None:
        kept = await delegate(connection, sandbox.runtime.core.directory, given, actor, now)
        if isinstance(kept, Rejection):
            raise Refused(kept)

    await sandbox.database.run(work, org_id=sandbox.org_id)
