"""Sends an HTTP request to another system through the outbox.

Without `await` the step ends when the request is enqueued; with `await: true` it rests until the response is there;
with `await: result` it opens an outside request and rests until its results are there.
"""

from typing import TYPE_CHECKING, Any, Final

from assent.engine.inputs import Input, RequestDecided
from assent.engine.nodes.awaiting import (
    deadline,
    done_with,
    may_retry_ambiguous,
    read_answer,
    rest_until_answered,
    timed_out,
)
from assent.engine.nodes.base import Done, Failure, Handler, Rest, Verdict
from assent.engine.programs import Headers, Payload, Values, url_template
from assent.language import Scope
from assent.model.effect import Effect
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.ids import derived_id
from assent.model.mutation import Rejection
from assent.model.names import is_blank
from assent.model.outside_request import REQUEST_KEY, OutsideRequest
from assent.model.problems import Problem

if TYPE_CHECKING:
    from assent.engine.visit import Visit

RESULT: Final = "result"
REQUEST_FAILED: Final = "REQUEST_FAILED"
REQUEST_EXPIRED: Final = "REQUEST_EXPIRED"


class WebhookOut(Handler):
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
    """Return the verdict of a step whose outside request has ended; None for any other input."""
    if not isinstance(incoming, RequestDecided):
        return None
    if incoming.status == "completed":
        return done_with(visit, incoming.result, output)
    if incoming.status == "expired":
        return _expired(visit, incoming)
    return Failure(REQUEST_FAILED, incoming.error or f"`{visit.node.node.name}` was reported as failed")


def _expired(visit: "Visit", incoming: RequestDecided) -> Done | Failure:
    if Outcome.TIMEOUT in visit.node.answers:
        return timed_out()
    return Failure(REQUEST_EXPIRED, incoming.error or f"`{visit.node.node.name}` had no results in its time")
