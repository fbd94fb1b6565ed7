"""A form that somebody fills in; its fields become variables of the workflow."""

from typing import TYPE_CHECKING

from assent.engine.choose import guard_against
from assent.engine.inputs import Advance, Input, TimerDue
from assent.engine.nodes.base import Done, Handler, Rest
from assent.engine.nodes.filling import FilledForm
from assent.engine.nodes.waiting import deadline, timed_out
from assent.language import Scope
from assent.model.graph import Node
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Form(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._form = FilledForm(node.config.get("form", {}))

    def enter(self, visit: "Visit") -> Rest:
        return Rest(resume_at=deadline(visit))

    def resume(self, visit: "Visit", given: Input) -> Done | Rejection:
        if isinstance(given, TimerDue):
            return timed_out()
        if not isinstance(given, Advance) or given.event not in visit.node.answers:
            known = ", ".join(sorted(visit.node.answers))
            event = getattr(given, "event", type(given).__name__)
            message = f"`{event}` is not an answer to `{self.node.name}`; possible: {known}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        if denied := self._not_for(visit) or guard_against(visit, given.event):
            return denied
        data, problems = self._form.check(given.data)
        if problems:
            return Rejection.of(problems)
        return Done(given.event, {"command": given.event, "data": data}, data)

    def _not_for(self, visit: "Visit") -> Rejection | None:
        actor, assignee = visit.actor, self.node.config.get("assignee") or {}
        missing = [name for name in self.node.capabilities if not actor.can(name)]
        role, user = assignee.get("role"), assignee.get("user")
        if missing or (role and role not in actor.roles) or (user and user != actor.id):
            wanted = ", ".join(missing) or (f"role {role}" if role else f"user {user}")
            message = f"`{self.node.name}` is not {actor.id}'s to answer: it takes {wanted}"
            return Rejection("POLICY_DENIED", message, ("actor",))
        return None
