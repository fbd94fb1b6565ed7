"""A form that somebody fills in; its fields become variables of the workflow.

Who is asked is settled when the token arrives, as for approvals. Whoever has the role is as good as asked: somebody may
get it later. What is answered is what is sent; a draft is only kept for whoever writes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from assent.engine.edges import guard_against
from assent.engine.inputs import Advance, Input, TimerDue
from assent.engine.nodes.asking import PeopleFinder, messages_to
from assent.engine.nodes.base import Done, Failure, FindPeople, Handler, Rest, Stay
from assent.engine.nodes.filling import FilledForm
from assent.engine.nodes.new_form import answers_of, new_form, no_people_failure, starter_of
from assent.engine.nodes.patience import Deadlines
from assent.engine.nodes.waiting import timed_out
from assent.engine.seats import SeatRules
from assent.language import Scope
from assent.model.actor import Actor
from assent.model.approval import FoundGroup, FoundPeople, GroupQuery, PeopleSearch, Seat
from assent.model.form import ASSIGNEES, FormRequest
from assent.model.form_schema import form_schema
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Rejection
from assent.model.problems import Problem

if TYPE_CHECKING:
    from assent.engine.visit import Visit


@dataclass(frozen=True, slots=True)
class Filler:
    """Somebody who may fill a form in: in a seat, their own or another's, or by the role that they have."""

    user_id: str
    seat: Seat | None = None

    def names(self) -> dict[str, str]:
        behalf = self.seat.user_id if self.seat is not None else self.user_id
        return {"by": self.user_id} | ({"for": behalf} if behalf != self.user_id else {})


class Form(Handler):
    kind = NodeKind.FORM

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        assignee = node.config.get("assignee")
        self._assignee = PeopleFinder(assignee, scope) if assignee else None
        self._form = FilledForm(node.config.get("form", {}))
        self._schema = form_schema(self._form.fields, node.label or node.name)
        self._patience = Deadlines(node)

    def enter(self, visit: "Visit") -> FindPeople | Rest | Failure:
        if self._assignee is None and "notify" not in self.node.config:
            return self._asked(visit, FoundGroup(ASSIGNEES, starter_of(visit)))
        return FindPeople((GroupQuery(ASSIGNEES, self._seek(visit)),), separates=False)

    def answered(self, visit: "Visit", answer: FoundPeople | Rejection) -> Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        (group,) = answer.groups
        if self._assignee is None and not group.people:
            # Whoever starts a workflow need not be in a directory.
            group = FoundGroup(ASSIGNEES, starter_of(visit))
        return self._asked(visit, group)

    def resume(self, visit: "Visit", given: Input) -> Done | Stay | Rejection:
        form = self._form_at(visit)
        if isinstance(given, TimerDue):
            return self._on_time(visit, form)
        known = answers_of(visit)
        if not isinstance(given, Advance) or given.event not in known:
            event = getattr(given, "event", type(given).__name__)
            message = f"`{event}` is not an answer to `{self.node.name}`; possible: {', '.join(known)}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        return self._answer(visit, form, given)

    def filler(self, visit: "Visit", form: FormRequest) -> Filler | Rejection:
        """Whether it is the actor's to fill in, and in whose place."""
        actor = visit.actor
        if missing := [name for name in self.node.capabilities if not actor.can(name)]:
            return Rejection("POLICY_DENIED", f"`{self.node.name}` takes {', '.join(missing)}", ("actor",))
        if form.claimed_by not in (None, actor.id):
            hint = "it must be released first"
            return Rejection("CLAIMED", f"{form.claimed_by} has claimed it", ("step",), hint=hint)
        seat = SeatRules.of(visit.world, visit.plan.workflow.key, form).find(actor.id)
        if isinstance(seat, Rejection):
            return Filler(actor.id) if self._is_open_to(visit, form, actor) else seat
        return Filler(actor.id, seat)

    def problems(self, data: Mapping[str, Any]) -> Sequence[Problem]:
        """What would be wrong with it if it were sent."""
        return self._form.check(data)[1]

    def _seek(self, visit: "Visit") -> PeopleSearch:
        if self._assignee is None:
            return PeopleSearch("users", (visit.instance.subject_id,))
        return self._assignee.seek(visit)

    def _is_of_a_role(self, visit: "Visit") -> bool:
        return self._assignee is not None and self._seek(visit).strategy in ("roles", "permission")

    def _is_open_to(self, visit: "Visit", form: FormRequest, actor: Actor) -> bool:
        """Whether they have the role now. Where one of it was picked, it is theirs; and what is given away stays so."""
        seek = self._seek(visit)
        if any(seat.user_id == actor.id for seat in form.seats):
            return False
        if seek.strategy == "permission":
            capability, *roles = seek.names
            return actor.can(capability) or actor.has_role(roles)
        if seek.strategy == "roles":
            return actor.has_role(seek.names) and (seek.pick == "all" or not form.seats)
        # The application itself may do what its user would; nobody has a seat where the row is missing.
        by_program = self._assignee is None and actor.kind == "system"
        return by_program or (not form.seats and seek.strategy == "users" and actor.id in seek.names)

    def _form_at(self, visit: "Visit") -> FormRequest:
        """The form that is asked here. A step from before forms had rows has none, and is answered all the same."""
        assert visit.token.step_id is not None
        found = visit.world.forms.get(visit.token.step_id)
        if found is not None:
            return found
        since = visit.token.step_at or visit.now
        return replace(new_form(visit, FoundGroup(ASSIGNEES, ()), {}), is_new=False, created_at=since)

    def _asked(self, visit: "Visit", group: FoundGroup) -> Rest | Failure:
        if not group.people and not self._is_of_a_role(visit):
            return Failure("NO_ASSIGNEE", no_people_failure(self.node.name, group))
        form = new_form(visit, group, self._schema)
        told = messages_to(visit, self.node.config, form, form.seats)
        output = {"asked": [seat.user_id for seat in form.seats]}
        return Rest(self._patience.next_time(visit, form), output=output, creates=(form, *told))

    def _answer(self, visit: "Visit", form: FormRequest, given: Advance) -> Done | Rejection:
        filler = self.filler(visit, form)
        if isinstance(filler, Rejection):
            return filler
        if denied := guard_against(visit, given.event):
            return denied
        data, problems = self._form.check(given.data)
        if problems:
            return Rejection.of(problems)
        if filler.seat is not None:
            form.set_seats({filler.seat.id: "decided"})
        output = {"command": given.event, "data": data, **filler.names()}
        if filler.seat is not None and filler.seat.user_id != filler.user_id:
            output["contributors"] = [filler.seat.user_id]
        return Done(given.event, output, data)

    def _on_time(self, visit: "Visit", form: FormRequest) -> Done | Stay:
        if self._patience.is_over(visit, form):
            return timed_out()
        reminded = self._patience.reminded(visit, form)
        round_now = self._patience.round(visit, form)
        told = messages_to(visit, self.node.config, form, reminded, "reminded", round_of_reminders=round_now)
        return Stay(self._patience.next_time(visit, form), told)
