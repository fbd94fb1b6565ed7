"""What each step of a scenario does, through the same calls that a door would make."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from assent.approvals import NewDelegation, delegate
from assent.model.actor import Actor
from assent.model.mutation import Command, Refused, Rejection
from assent.store.database import Connection
from assent.testing.outside import answer_effect
from assent.testing.sandbox import Sandbox
from assent.testing.standing import Document, Standing, standing_of
from assent.testing.steps import (
    Act,
    Advance,
    Answer,
    Change,
    ChangeOrg,
    ChangePeople,
    Claim,
    Control,
    Create,
    Delegate,
    Emit,
    Expect,
    Reassign,
    Release,
    Reply,
    Start,
    Step,
    Wait,
)

_NAMED: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(slots=True)
class Stage:
    """A sandbox and the documents that a scenario has made in it so far."""

    sandbox: Sandbox
    documents: dict[str, Document] = field(default_factory=dict)
    last: Document | None = None

    def document(self, name: str | None) -> Document:
        """The one that is named, or the last; raises `Refused` where there is none yet."""
        found = self.documents[name] if name is not None else self.last
        if found is None:
            message = "there is no document yet; `create` one, or `start` a flow"
            raise Refused(Rejection("NOT_FOUND", message))
        return found

    def filled(self, data: Any) -> Any:
        """Data in which `{name}` stands for the id of a document that was made under that name."""
        if isinstance(data, Mapping):
            return {key: self.filled(value) for key, value in data.items()}
        if isinstance(data, list):
            return [self.filled(value) for value in data]
        return _NAMED.sub(self._id, data) if isinstance(data, str) else data

    def _id(self, match: re.Match[str]) -> str:
        document = self.documents.get(match[1])
        return str(document.entity_id or document.instance_id) if document else match[0]

    def add(self, document: Document, name: str | None) -> None:
        self.last = document
        if name is not None:
            self.documents[name] = document

    async def standing(self, step: Act | Expect | Reply) -> Standing:
        return await standing_of(self.sandbox, self.document(step.on))

    async def instance_id(self, step: Act) -> UUID:
        """The document's instance, the newest one."""
        standing = await self.standing(step)
        if standing.view is None:
            raise Refused(Rejection("NOT_FOUND", f"{standing.name} has no workflow"))
        return standing.view.id


async def act(stage: Stage, step: Step) -> None:
    """Do what a step says; raises `Refused` where it is refused."""
    await _ACTS[type(step)](stage, step)


async def _create(stage: Stage, step: Create) -> None:
    sandbox = stage.sandbox
    command = Command(
        sandbox.org_id, f"{step.create}.create", await sandbox.actor(step.as_), stage.filled(step.data)
    )
    entity = (await sandbox.runtime.kernel.mutate(command)).entity
    stage.add(Document(step.name or step.create, entity_id=entity.id), step.name)


async def _start(stage: Stage, step: Start) -> None:
    sandbox = stage.sandbox
    actor, data = await sandbox.actor(step.as_), stage.filled(step.data)
    view = await sandbox.runtime.start(sandbox.org_id, step.start, actor, data)
    stage.add(Document(step.name or step.start, instance_id=view.id), step.name)


async def _change(stage: Stage, step: Change) -> None:
    """A transition goes through the workflow, where there is one; everything else to the kernel."""
    sandbox, document = stage.sandbox, stage.document(step.on)
    actor, data = await sandbox.actor(step.as_), stage.filled(step.data)
    entity = (await stage.standing(step)).entity
    if entity is None:
        message = f"{document.name} is a flow: `{step.verb}` is no step of it"
        raise Refused(Rejection("UNKNOWN_ACTION", message, hint="write `advance: <event>`"))
    contract = sandbox.app.registry.contracts[entity.type]
    if step.verb in contract.lifecycle.transitions and contract.workflow != "none":
        await sandbox.runtime.transition(sandbox.org_id, entity.id, step.verb, actor, data)
        return
    command = Command(sandbox.org_id, f"{entity.type}.{step.verb}", actor, data, entity.id)
    changed = (await sandbox.runtime.kernel.mutate(command)).entity
    if changed.id != entity.id:
        stage.add(Document(f"{document.name} (amended)", entity_id=changed.id), None)


async def _answer(stage: Stage, step: Answer) -> None:
    sandbox = stage.sandbox
    actor, standing = await sandbox.actor(step.as_), await stage.standing(step)
    wait = standing.wait_at(step.node)
    request_id = wait.waiting.request_id if wait else standing.request_of(step.node)
    if request_id is not None:
        await sandbox.runtime.decide(
            sandbox.org_id,
            request_id,
            step.outcome,
            actor,
            reason=step.reason,
            on_behalf_of=step.on_behalf_of,
            group=step.group,
            data=stage.filled(step.data),
        )
    elif wait is not None and standing.view is not None:
        await sandbox.runtime.advance(
            sandbox.org_id, standing.view.id, step.verb, actor, stage.filled(step.data), step=step.node
        )
    else:
        raise _not_waiting(standing, step.node)


async def _advance(stage: Stage, step: Advance) -> None:
    sandbox, instance_id = stage.sandbox, await stage.instance_id(step)
    actor = await sandbox.actor(step.as_)
    await sandbox.runtime.advance(
        sandbox.org_id, instance_id, step.advance, actor, stage.filled(step.data), step=step.step
    )


async def _claim(stage: Stage, step: Claim) -> None:
    actor, request_id = await _asked(stage, step, step.claim)
    await stage.sandbox.runtime.claim(stage.sandbox.org_id, request_id, actor)


async def _release(stage: Stage, step: Release) -> None:
    actor, request_id = await _asked(stage, step, step.release)
    await stage.sandbox.runtime.release(stage.sandbox.org_id, request_id, actor)


async def _reassign(stage: Stage, step: Reassign) -> None:
    wanted = step.reassign
    actor, request_id = await _asked(stage, step, wanted.step)
    await stage.sandbox.runtime.reassign(
        stage.sandbox.org_id,
        request_id,
        actor,
        from_user=wanted.from_,
        to_user=wanted.to,
        reason=wanted.reason,
    )


async def _asked(stage: Stage, step: Act, node: str) -> tuple[Actor, UUID]:
    """Who acts, and what is asked at a step."""
    actor, standing = await stage.sandbox.actor(step.as_), await stage.standing(step)
    request_id = standing.request_of(node)
    if request_id is None:
        raise _not_waiting(standing, node)
    return actor, request_id


async def _delegate(stage: Stage, step: Delegate) -> None:
    sandbox, wanted = stage.sandbox, step.delegate
    now, actor = sandbox.clock.now(), await sandbox.actor(step.as_)
    ends_at = now + wanted.length if wanted.length else None
    given = NewDelegation(sandbox.org_id, step.as_, wanted.to, ends_at=ends_at, reason=wanted.reason)

    async def work(connection: Connection) -> None:
        kept = await delegate(connection, sandbox.runtime.directory, given, actor, now)
        if isinstance(kept, Rejection):
            raise Refused(kept)

    await sandbox.database.run(work, org_id=sandbox.org_id)


async def _control(stage: Stage, step: Control) -> None:
    runtime, org_id = stage.sandbox.runtime, stage.sandbox.org_id
    instance_id, actor = await stage.instance_id(step), await stage.sandbox.actor(step.as_)
    match step.workflow:
        case "cancel":
            await runtime.cancel(org_id, instance_id, actor, step.reason)
        case "pause":
            await runtime.pause(org_id, instance_id, actor, step.reason)
        case "resume":
            await runtime.resume(org_id, instance_id, actor)
        case "retry":
            await runtime.retry(org_id, instance_id, actor, step.step)
        case "fail":
            await runtime.force_fail(org_id, instance_id, actor, step.reason)


async def _emit(stage: Stage, step: Emit) -> None:
    await stage.sandbox.runtime.emit(stage.sandbox.org_id, stage.filled(step.emit), stage.filled(step.data))


async def _reply(stage: Stage, step: Reply) -> None:
    sandbox, standing = stage.sandbox, await stage.standing(step)
    wait = standing.wait_at(step.reply)
    step_id = wait.waiting.step_id if wait else None
    mishap = step.error.model_dump() if step.error else None
    if step_id is None or not await answer_effect(sandbox, step_id, stage.filled(step.data), mishap):
        raise _not_waiting(standing, step.reply)


async def _wait(stage: Stage, step: Wait) -> None:
    await stage.sandbox.advance_time(step.length)


async def _people(stage: Stage, step: ChangePeople) -> None:
    await stage.sandbox.people(**{name: member.model_dump() for name, member in step.people.items()})


async def _org(stage: Stage, step: ChangeOrg) -> None:
    await stage.sandbox.org_settings(**step.org)


def _not_waiting(standing: Standing, node: str) -> Refused:
    waiting = ", ".join(standing.waiting) or "nothing"
    message = f"`{node}` does not wait for anybody; what waits is: {waiting}"
    return Refused(Rejection("STEP_NOT_FOUND", message, ("step",)))


_ACTS: Final[Mapping[type[Step], Callable[[Stage, Any], Awaitable[None]]]] = {
    Create: _create,
    Start: _start,
    Change: _change,
    Answer: _answer,
    Advance: _advance,
    Claim: _claim,
    Release: _release,
    Reassign: _reassign,
    Delegate: _delegate,
    Control: _control,
    Emit: _emit,
    Reply: _reply,
    Wait: _wait,
    ChangePeople: _people,
    ChangeOrg: _org,
}
