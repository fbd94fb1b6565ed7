"""Tells somebody something. It never blocks: the step is done once that is enqueued, or where nobody is to be told."""

from typing import TYPE_CHECKING, Any

from assent.engine.nodes.awaiting import may_retry_ambiguous
from assent.engine.nodes.base import Done, Handler
from assent.engine.programs import Payload
from assent.language import Scope
from assent.model.effect import Effect
from assent.model.graph import Node

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Notification(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._message = Payload({key: node.config.get(key) for key in ("to", "subject", "text")}, scope)

    def enter(self, visit: "Visit") -> Done:
        message = self._message(visit.variables)
        people = _people(message["to"])
        if not people:
            return Done(output={"told": [], "reason": f"`to` of `{self.node.name}` gave nobody"})
        subject = str(message["subject"] or self.node.label or self.node.name)
        about = {"subject": subject, "text": str(message["text"] or "")}
        return Done(output={"told": people}, effects=tuple(self._effect(to, about) for to in people))

    def _effect(self, to: str, about: dict[str, str]) -> Effect:
        config = self.node.config
        return Effect(config["channel"], {"to": to, **about}, retry_ambiguous=may_retry_ambiguous(config))


def _people(to: Any) -> list[str]:
    """Those who are to be told, each once: a member's id, an address, a number, or several of them."""
    found = to if isinstance(to, list) else [to]
    return list(dict.fromkeys(text for one in found if one is not None and (text := str(one).strip())))
