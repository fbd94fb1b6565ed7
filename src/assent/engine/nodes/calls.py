"""Kinds of node that do something by themselves: mutations, calls, tasks, webhooks, notifications, events."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from assent.engine.edges import choose
from assent.engine.inputs import Input, RequestDecided
from assent.engine.nodes.base import (
    Call,
    CheckEventKey,
    Done,
    Failure,
    Handler,
    Mutate,
    ResolveTask,
    Rest,
    RunVerb,
    Verdict,
    deadline,
    done_with,
    may_retry_ambiguous,
    read_answer,
    rest_until_answered,
    timed_out,
    verb_variables,
)
from assent.engine.programs import Headers, Payload, Values, program, template, url_template
from assent.language import Scope
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.ids import derived_id
from assent.model.job import Effect, OutsideWork, Submittable, TaskSpec, openapi_name
from assent.model.mutation import KeyedEvent, Mutation, Refused, Rejection, entity_view
from assent.model.names import is_blank, require_name
from assent.model.outside_request import REQUEST_KEY, OutsideRequest
from assent.model.problems import Problem

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Action(Handler):
    """A mutation through the kernel: of the instance's own entity, or of another one."""

    kind = NodeKind.ACTION

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._payload = Payload(node.config.get("payload", {}), scope)
        self._entity = program(node.config.get("entity"), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Mutate | Failure:
        entity_id: UUID | None = None
        if self._entity is not None:
            found = self._entity.value(visit.variables)
            try:
                entity_id = UUID(str(found))
            except ValueError:
                return Failure("ENTITY_MISSING", f"`entity` of `{self.node.name}` gave {found!r}, not an id")
        payload = self._payload(visit.variables)
        visit.input = {"payload": payload} | ({"entity": str(entity_id)} if entity_id is not None else {})
        return Mutate(str(self.node.config["action"]), payload, entity_id)

    def answered(self, visit: "Visit", answer: Mutation | Rejection) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure.refused(answer)
        entity = answer.entity
        output: dict[str, object] = {"mutation": answer.to_output()}
        if entity.id == visit.instance.entity_id:
            output["entity_version"] = entity.version
        result = {**visit.variables, "result": entity_view(entity)}
        return Done(output=output, sets=self._output(result))


class System(Handler):
    """A call of the application or, over HTTP, of a service that it registered.

    A registered function runs inside the transaction, and so does a verb, with the rights of the person on whose behalf
    the step acts. What cannot, the application says when it is called: then the effects worker does it, and the token
    rests until the answer is there.
    """

    kind = NodeKind.SYSTEM

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        operation = node.config["operation"]
        self._verb = operation.get("verb")
        self._name = operation.get("sdk") or openapi_name(operation.get("openapi", ""))
        self._input = Values(node.config.get("input", {}), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Call | RunVerb:
        visit.input = arguments = self._input(visit.variables)
        if self._verb is not None:
            return RunVerb(self._verb, {**verb_variables(visit), **arguments})
        return Call(self._name, arguments)

    def answered(self, visit: "Visit", answer: Any) -> Done | Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure.refused(answer) if self._verb else Failure(answer.code, answer.message)
        if isinstance(answer, OutsideWork):
            again = may_retry_ambiguous(self.node.config, answer.retry_ambiguous)
            effect = Effect("integration", answer.payload, awaited=True, retry_ambiguous=again)
            return rest_until_answered(visit, effect)
        return done_with(visit, answer, self._output)

    def resume(self, visit: "Visit", incoming: Input) -> Verdict | Rejection:
        answer = read_answer(visit, incoming, self._output)
        return super().resume(visit, incoming) if answer is None else answer


class Task(Handler):
    """Background work of our own workers. The token rests until it has ended; with `await: false` it goes on."""

    kind = NodeKind.TASK

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._type = node.config["task"]
        self._input = Values(node.config.get("input", {}), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> ResolveTask:
        visit.input = given = self._input(visit.variables)
        return ResolveTask(self._type, given)

    def answered(self, visit: "Visit", answer: Any) -> Done | Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, str(answer))
        task = self._wanted(answer)
        return Rest(resume_at=deadline(visit), creates=(task,)) if task.awaited else Done(creates=(task,))

    def resume(self, visit: "Visit", incoming: Input) -> Verdict | Rejection:
        answer = read_answer(visit, incoming, self._output)
        return super().resume(visit, incoming) if answer is None else answer

    def _wanted(self, found: Submittable) -> TaskSpec:
        config = self.node.config
        priority = config.get("priority", found.priority)
        delay = config.get("delay")
        return TaskSpec(
            self._type,
            found.input,
            priority,
            found.attempts_max,
            awaited=config.get("await", True),
            throttle=found.throttle,
            delay=None if delay is None else timedelta(seconds=delay),
        )


RESULT: Final = "result"
REQUEST_FAILED: Final = "REQUEST_FAILED"
REQUEST_EXPIRED: Final = "REQUEST_EXPIRED"


class WebhookOut(Handler):
    """Sends an HTTP request to another system through the outbox.

    Without `await` the step ends when the request is enqueued; with `await: true` it rests until the response is there;
    with `await: result` it opens an outside request and rests until its results are there.
    """

    kind = NodeKind.WEBHOOK_OUT

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        config = node.config
        self._url = url_template(config["url"], scope)
        self._headers = Headers(config.get("headers", {}), scope)
        self._body = Payload(config.get("body"), scope)
        self._output = Values(config.get("output", {}), scope)
        self._awaits_results = config.get("await") == RESULT

    def enter(self, visit: "Visit") -> Done | Rest | Failure:
        url = self._url.value(visit.variables)
        if isinstance(url, Problem):
            return Failure(url.code, f"the URL of `{self.node.name}` cannot be called: {url.message}")
        if not isinstance(url, str) or is_blank(url):
            return Failure("URL_MISSING", f"the URL of `{self.node.name}` is empty")
        payload = self._payload(visit, url)
        visit.input = {name: payload[name] for name in ("url", "method", "body")}
        if self._awaits_results:
            return self._ask(visit, payload)
        effect = self._effect(payload)
        return rest_until_answered(visit, effect) if effect.awaited else Done(creates=(effect,))

    def resume(self, visit: "Visit", incoming: Input) -> Verdict | Rejection:
        read = _read_results if self._awaits_results else read_answer
        answer = read(visit, incoming, self._output)
        return super().resume(visit, incoming) if answer is None else answer

    def _ask(self, visit: "Visit", payload: dict[str, Any]) -> Rest:
        """Open an outside request. Its time limit is its own: nothing is due at the step."""
        request = _new_request(visit, {name: payload[name] for name in ("url", "method", "body")})
        effect = self._effect(payload | {REQUEST_KEY: str(request.id)})
        return Rest(output={"request": str(request.id)}, creates=(request, effect))

    def _payload(self, visit: "Visit", url: str) -> dict[str, Any]:
        payload = {"url": url, "method": self.node.config.get("method", "POST")}
        return payload | self._headers(visit.variables) | {"body": self._body(visit.variables)}

    def _effect(self, payload: dict[str, Any]) -> Effect:
        config = self.node.config
        awaited = bool(config.get("await"))
        return Effect("webhook", payload, awaited, retry_ambiguous=may_retry_ambiguous(config))


def _new_request(visit: "Visit", arguments: dict[str, Any]) -> OutsideRequest:
    """Return an outside request with the time limit of the node. Headers may hold secrets, and are no arguments."""
    instance, node = visit.instance, visit.node.node
    return OutsideRequest(
        org_id=instance.org_id,
        id=derived_id("outside_request", visit.key),
        instance_id=instance.id,
        step_id=visit.step_id,
        node_id=node.id,
        token_id=visit.token.id,
        name=f"{visit.plan.workflow.key}.{node.name}",
        created_at=visit.now,
        arguments=arguments,
        expected=node.config.get("expects", 1),
        expires_at=deadline(visit),
        partition_id=instance.partition_id,
        entity_type=instance.entity_type,
        entity_id=instance.entity_id,
    )


def _read_results(visit: "Visit", incoming: Input, output: Values) -> Done | Failure | None:
    """Return the verdict of a step whose outside request has ended or has a part; None for any other input."""
    if not isinstance(incoming, RequestDecided):
        return None
    if incoming.status == "completed":
        return done_with(visit, incoming.result, output, incoming)
    if incoming.status == "partial":
        return _partial(visit, incoming, output)
    if incoming.status == "expired":
        return _expired(visit, incoming)
    return Failure(REQUEST_FAILED, incoming.error or f"`{visit.node.node.name}` was reported as failed")


def _partial(visit: "Visit", incoming: RequestDecided, output: Values) -> Done | None:
    """Return the verdict of a step that goes on with a part of its results; None where no edge takes it there.

    Without such an edge, or while no condition holds, the step waits for the rest.
    """
    done = replace(done_with(visit, incoming.result, output, incoming), outcome=Outcome.PARTIAL)
    edge, _ = choose(visit, Outcome.PARTIAL, visit.variables_with(done.sets))
    return done if edge is not None else None


def _expired(visit: "Visit", incoming: RequestDecided) -> Done | Failure:
    if Outcome.TIMEOUT in visit.node.answers:
        return timed_out()
    return Failure(REQUEST_EXPIRED, incoming.error or f"`{visit.node.node.name}` had no results in its time")


RECIPIENTS_MAX: Final = 50
"""The recipients of one step at most, unless the setting `recipients_max` of the org says otherwise."""
RECIPIENTS_SETTING: Final = "recipients_max"
RECIPIENTS_SETTING_MAX: Final = 1_000


class Notification(Handler):
    """Sends messages to people. It never blocks: the step ends when they are enqueued, or without recipients.

    The number of recipients of a step is limited: the data of `to` must not become a mass mailing.
    """

    kind = NodeKind.NOTIFICATION

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._message = Payload({key: node.config.get(key) for key in ("to", "subject", "text")}, scope)

    def enter(self, visit: "Visit") -> Done | Failure:
        visit.input = message = self._message(visit.variables)
        people = _people(message["to"])
        if not people:
            return Done(output={"recipients": [], "reason": f"`to` of `{self.node.name}` has no recipients"})
        if len(people) > (most := _recipients_max(visit.variables["org"])):
            message = (
                f"`to` of `{self.node.name}` has {len(people)} recipients; a step notifies at most {most}"
            )
            return Failure("TOO_MANY_RECIPIENTS", message)
        subject = str(message["subject"] or self.node.label or self.node.name)
        about = {"subject": subject, "text": str(message["text"] or "")}
        return Done(output={"recipients": people}, creates=tuple(self._effect(to, about) for to in people))

    def _effect(self, to: str, about: dict[str, str]) -> Effect:
        config = self.node.config
        return Effect(config["channel"], {"to": to, **about}, retry_ambiguous=may_retry_ambiguous(config))


def _recipients_max(settings: Mapping[str, Any]) -> int:
    found = settings.get(RECIPIENTS_SETTING)
    if isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= RECIPIENTS_SETTING_MAX:
        return found
    return RECIPIENTS_MAX


def _people(to: Any) -> list[str]:
    """Return the recipients, each once: a member's id, an address, a number, or a list of them.

    Each entry of a list that an author wrote may be an expression that gives a list.
    """
    entries = to if isinstance(to, list) else [to]
    found = chain.from_iterable(one if isinstance(one, list) else [one] for one in entries)
    return list(
        dict.fromkeys(text for one in found if one is not None and not is_blank(text := str(one).strip()))
    )


class Emit(Handler):
    """Emits an event under a key, such as `order:paid:{workflow.order_id}`, for the steps that wait for it."""

    """Ends at once; the event is written with the step, once for the key of the step.

    A key that a source of signed events owns is refused: such events come with the signature of the source.
    """

    kind = NodeKind.EMIT

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._key = template(node.config["key"], scope)
        self._data = Payload(node.config.get("data"), scope)

    def enter(self, visit: "Visit") -> CheckEventKey | Failure:
        key = self._event_key(visit)
        try:
            require_name(key, "key", length_max=KeyedEvent.KEY_CHARACTERS_MAX)
        except Refused as refused:
            message = f"the key of `{self.node.name}` cannot be used: {refused.rejection.message}"
            return Failure("KEY_MISSING" if refused.rejection.code == "BLANK" else "KEY_UNUSABLE", message)
        return CheckEventKey(key)

    def answered(self, visit: "Visit", answer: Any) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, str(answer))
        key = self._event_key(visit)
        event = KeyedEvent(key, self._data(visit.variables))
        return Done(output={"event_key": key}, creates=(event,))

    def _event_key(self, visit: "Visit") -> str:
        return str(self._key.value(visit.variables) or "")
