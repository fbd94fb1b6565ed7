"""Tells another system over HTTP. Done when that is enqueued; with `await: true` it rests until the answer is there.

With `await: result` it asks the system to do something that takes its time, and rests until the results are there: see
`assent.engine.nodes.requesting`.
"""

from typing import TYPE_CHECKING, Any, Final

from assent.engine.inputs import Input
from assent.engine.nodes.awaiting import may_retry_ambiguous, read_answer, rest_until_answered
from assent.engine.nodes.base import Done, Failure, Handler, Rest, Verdict
from assent.engine.nodes.requesting import new_request, read_results
from assent.engine.programs import Headers, Payload, Values, url_template
from assent.language import Scope
from assent.model.effect import Effect
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Rejection
from assent.model.names import is_blank
from assent.model.outside_request import REQUEST_KEY
from assent.model.problems import Problem

if TYPE_CHECKING:
    from assent.engine.visit import Visit

RESULT: Final = "result"


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

    def resume(self, visit: "Visit", given: Input) -> Verdict | Rejection:
        read = read_results if self._awaits_results else read_answer
        answer = read(visit, given, self._output)
        return super().resume(visit, given) if answer is None else answer

    def _ask(self, visit: "Visit", payload: dict[str, Any]) -> Rest:
        """The request's time is its own: nothing is due at the step."""
        request = new_request(visit, {name: payload[name] for name in ("url", "method", "body")})
        effect = self._effect(payload | {REQUEST_KEY: str(request.id)})
        return Rest(output={"request": str(request.id)}, creates=(request, effect))

    def _payload(self, visit: "Visit", url: str) -> dict[str, Any]:
        payload = {"url": url, "method": self.node.config.get("method", "POST")}
        return payload | self._headers(visit.variables) | {"body": self._body(visit.variables)}

    def _effect(self, payload: dict[str, Any]) -> Effect:
        config = self.node.config
        awaited = bool(config.get("await"))
        return Effect("webhook", payload, awaited, retry_ambiguous=may_retry_ambiguous(config))
