"""Sends messages to people. It never blocks: the step ends when they are enqueued, or without recipients.

The number of recipients of a step is limited: the data of `to` must not become a mass mailing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assent.engine.nodes.awaiting import may_retry_ambiguous
from assent.engine.nodes.base import Done, Failure, Handler
from assent.engine.programs import Payload
from assent.language import Scope
from assent.model.effect import Effect
from assent.model.graph import Node, NodeKind
from assent.model.names import is_blank

if TYPE_CHECKING:
    from assent.engine.visit import Visit


RECIPIENTS_MAX: Final = 50
"""The recipients of one step at most, unless the setting `recipients_max` of the org says otherwise."""
RECIPIENTS_SETTING: Final = "recipients_max"
RECIPIENTS_SETTING_MAX: Final = 1_000


class Notification(Handler):
    kind = NodeKind.NOTIFICATION

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._message = Payload({key: node.config.get(key) for key in ("to", "subject", "text")}, scope)

    def enter(self, visit: "Visit") -> Done | Failure:
        message = self._message(visit.variables)
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
    """Return the recipients, each once: a member's id, an address, a number, or a list of them."""
    found = to if isinstance(to, list) else [to]
    return list(
        dict.fromkeys(text for one in found if one is not None and not is_blank(text := str(one).strip()))
    )
