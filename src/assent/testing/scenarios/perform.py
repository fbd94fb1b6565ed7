"""What each step of a scenario does, through the same calls that a door would make.

`Stage` is what a scenario has brought about so far: its documents, by the names that the steps give them. People
decide, claim, release, reassign and delegate. The test speaks for the outside world: what a step awaits is
answered, or handed in, without being sent.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from assent.kernel.rules import RuleSpec
from assent.model.actor import Actor
from assent.model.document import DocumentRequirement
from assent.model.graph import Outcome
from assent.model.ids import new_id
from assent.model.mutation import Command, Refused, Rejection
from assent.outbox.events import completion_event, emit_events
from assent.people import NewDelegation, delegate
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.testing.sandbox import Sandbox
from assent.testing.scenarios.document_state import DocumentState, ScenarioDocument, document_state
from assent.testing.scenarios.steps import (
    ActStep,
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
    ExpectStep,
    HandInStep,
    ReassignStep,
    ReleaseStep,
    ReplyStep,
    ResultStep,
    ReviewStep,
    RulesStep,
    ScenarioStep,
    StartStep,
    TablesStep,
    WaitStep,
)

_NAMED: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(slots=True)
class Stage:
    """A sandbox and the documents that a scenario has made in it so far."""

    sandbox: Sandbox
    documents: dict[str, ScenarioDocument] = field(default_factory=dict)
    last: ScenarioDocument | None = None

    def document(self, name: str | None) -> ScenarioDocument:
        """Return the one that is named, or the last; raise `Refused` where there is none yet."""
        found = self.documents[name] if name is not None else self.last
        if found is None:
            message = "there is no document yet; `create` one, or `start` a flow"
            raise Refused(Rejection("NOT_FOUND", message))
        return found

    def filled(self, data: Any) -> Any:
        """Data in which `{name}` stands for the id of a document that was made under that name."""
        if isinstance(data, Mapping):
            return {key: self.filled(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.filled(value) for value in data]
        return _NAMED.sub(self._id, data) if isinstance(data, str) else data

    def _id(self, match: re.Match[str]) -> str:
        document = self.documents.get(match[1])
        return str(document.entity_id or document.instance_id) if document else match[0]

    def add(self, document: ScenarioDocument, name: str | None) -> None:
        self.last = document
        if name is not None:
            self.documents[name] = document

    async def standing(self, step: ActStep | ExpectStep | ReplyStep | ResultStep) -> DocumentState:
        return await document_state(self.sandbox, self.document(step.on))


def not_waiting(standing: DocumentState, node: str) -> Refused:
    waiting = ", ".join(standing.waiting) or "nothing"
    message = f"`{node}` does not wait for anybody; what waits is: {waiting}"
    return Refused(Rejection("STEP_NOT_FOUND", message, ("step",)))


_SQL: Final = load_queries("assent.testing", "testing.sql")


async def answer_effect(
    sandbox: Sandbox, step_id: UUID, data: Any, error: Mapping[str, Any] | None = None
) -> bool:
    """Let a step have the answer that it awaits, or the error; false where it awaits none."""
    outcome, reply = (Outcome.ERROR, error) if error is not None else (Outcome.COMPLETED, data)

    async def work(connection: Connection) -> bool:
        now = sandbox.clock.now()
        effect = await connection.fetchrow(
            _SQL.answer_awaited_effect, sandbox.org_id, step_id, {"answer": reply}
        )
        if effect is None:
            return False
        await emit_events(connection, [completion_event(dict(effect), outcome, reply, now)], now)
        return True

    return await sandbox.database.run(work, org_id=None)


async def push_result(sandbox: Sandbox, step_id: UUID, key: str | None, sent: Mapping[str, Any]) -> bool:
    """Hand in what an outside party sends for what a step asked; false where it asked nothing. Raises `Refused`."""
    async with sandbox.database.transaction(sandbox.org_id) as connection:
        request_id = await connection.fetchval(_SQL.find_request_of_step, sandbox.org_id, step_id)
    if request_id is None:
        return False
    its_key = key or str(new_id(sandbox.clock.now()))
    await sandbox.runtime.org(sandbox.org_id).requests.push_result(request_id, its_key, **sent)
    return True


@dataclass(frozen=True, slots=True)
class ScenarioTarget:
    """Who acts, and on what: an approval by its request, or a form by its step."""

    actor: Actor
    id: UUID
    is_form: bool


async def answer(stage: Stage, step: AnswerStep) -> None:
    """Decide an approval, or advance anything else that waits."""
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
    starts_at = now + wanted.starts_in if wanted.starts_in else None
    ends_at = now + wanted.length if wanted.length else None
    given = NewDelegation(sandbox.org_id, step.as_, wanted.to, starts_at, ends_at, reason=wanted.reason)

    async def work(connection: Connection) -> None:
        await delegate(connection, sandbox.runtime.core.directory, given, actor, now)

    await sandbox.database.run(work, org_id=sandbox.org_id)


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
    """Send a transition through the workflow, where there is one; everything else to the kernel."""
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


async def _required(stage: Stage, step: HandInStep | ReviewStep, doc_type: str) -> DocumentRequirement:
    """Return what the workflow requires of a subject; raise `Refused` if it does not."""
    sandbox, standing = stage.sandbox, await stage.standing(step)
    subject = stage.filled(step.of)
    page = await sandbox.runtime.org(sandbox.org_id).requirements.list(
        instance_id=standing.instance_id, subject=subject, doc_type=doc_type
    )
    if not page.items:
        raise Refused(Rejection("NOT_FOUND", f"no {doc_type} of {subject} is required"))
    return page.items[0]


async def _hand_in(stage: Stage, step: HandInStep) -> None:
    sandbox, required = stage.sandbox, await _required(stage, step, step.hand_in)
    documents = sandbox.runtime.org(sandbox.org_id, await sandbox.actor(step.as_)).documents
    document = await documents.create(step.hand_in, required.subject, requirement_id=required.id)
    await documents.add_version(document.id, structured_data=stage.filled(step.data))


async def _review(stage: Stage, step: ReviewStep) -> None:
    sandbox, required = stage.sandbox, await _required(stage, step, step.review)
    documents = sandbox.runtime.org(sandbox.org_id, await sandbox.actor(step.as_)).documents
    if required.document_id is None or required.version_id is None:
        raise Refused(Rejection("NOT_FOUND", f"no {step.review} of {required.subject} was handed in"))
    if step.code is None:
        await documents.verify(required.document_id, required.version_id)
    else:
        await documents.reject(required.document_id, required.version_id, step.code)


async def _wait(stage: Stage, step: WaitStep) -> None:
    await stage.sandbox.advance_time(step.length)


async def _people(stage: Stage, step: ChangePeopleStep) -> None:
    await stage.sandbox.people(**{name: member.model_dump() for name, member in step.people.items()})


async def _org(stage: Stage, step: ChangeOrgStep) -> None:
    await stage.sandbox.org_settings(**step.org)


async def _rules(stage: Stage, step: RulesStep) -> None:
    await stage.sandbox.rules(*(rule_as_written(rule) for rule in step.rules))


def rule_as_written(rule: RuleSpec) -> dict[str, Any]:
    return rule.model_dump(mode="json", by_alias=True)


async def _tables(stage: Stage, step: TablesStep) -> None:
    await stage.sandbox.put_rows(stage.filled(step.tables))


_ACTS: Final[Mapping[type[ScenarioStep], Callable[[Stage, Any], Awaitable[None]]]] = {
    CreateStep: _create,
    StartStep: _start,
    ChangeStep: _change,
    AnswerStep: answer,
    AdvanceStep: _advance,
    ClaimStep: claim,
    ReleaseStep: release,
    ReassignStep: reassign,
    DelegateStep: stand_in,
    ControlStep: _control,
    EmitStep: _emit,
    ReplyStep: _reply,
    ResultStep: _result,
    HandInStep: _hand_in,
    ReviewStep: _review,
    WaitStep: _wait,
    ChangePeopleStep: _people,
    ChangeOrgStep: _org,
    RulesStep: _rules,
    TablesStep: _tables,
}
