"""Tells another system over HTTP. Done when that is enqueued; with `await: true` it rests until the answer is there."""

from typing import TYPE_CHECKING

from assent.engine.inputs import Input
from assent.engine.nodes.awaiting import may_retry_ambiguous, read_answer, rest_until_answered
from assent.engine.nodes.base import Done, Failure, Handler, Rest, Verdict
from assent.engine.programs import Payload, Values, template
from assent.language import Scope
from assent.model.effect import Effect
from assent.model.graph import Node
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class WebhookOut(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        config = node.config
        self._url = template(config["url"], scope)
        self._headers = Payload(config.get("headers", {}), scope)
        self._body = Payload(config.get("body"), scope)
        self._output = Values(config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Done | Rest | Failure:
        url = self._url.value(visit.variables)
        if not isinstance(url, str) or not url:
            return Failure("URL_MISSING", f"the URL of `{self.node.name}` is empty")
        effect = self._effect(visit, url)
        return rest_until_answered(visit, effect) if effect.awaited else Done(effects=(effect,))

    def resume(self, visit: "Visit", given: Input) -> Verdict | Rejection:
        answer = read_answer(visit, given, self._output)
        return super().resume(visit, given) if answer is None else answer

    def _effect(self, visit: "Visit", url: str) -> Effect:
        config = self.node.config
        headers = {name: str(value) for name, value in self._headers(visit.variables).items()}
        payload = {"url": url, "method": config.get("method", "POST"), "headers": headers}
        payload |= {"body": self._body(visit.variables)}
        awaited = bool(config.get("await"))
        return Effect("webhook", payload, awaited, retry_ambiguous=may_retry_ambiguous(config))
