"""A form that a person fills in; its fields become variables of the workflow.

The people who are asked are found when the token arrives, as for approvals. A person who gets the role later may fill
it in as well. The answer is what is sent; a draft is only kept for its writer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from assent.engine.consent import SeatRules
from assent.engine.edges import guard_against
from assent.engine.inputs import Advance, Input, TimerDue
from assent.engine.nodes.asking import Deadlines, FilledForm, PeopleFinder, common_fields, messages_to
from assent.engine.nodes.base import Done, Failure, FindPeople, Handler, Rest, Stay, timed_out
from assent.language import Scope
from assent.model.actor import Actor
from assent.model.approval import STARTER, FoundGroup, FoundPeople, GroupQuery, PeopleSearch, Person, Seat
from assent.model.form import ASSIGNEES, FormRequest, form_schema
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.ids import new_id
from assent.model.mutation import Rejection
from assent.model.problems import Problem

if TYPE_CHECKING:
    from assent.engine.visit import Visit


@dataclass(frozen=True, slots=True)
class Filler:
    """A person who may fill a form in: in a seat, their own or another's, or by a role."""

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
        if self._assignee is None and not self.node.config.keys() & {"notify", "remind"}:
            return self._asked(visit, FoundGroup(ASSIGNEES, _starter_of(visit)))
        return FindPeople((GroupQuery(ASSIGNEES, self._seek(visit)),), separates=False)

    def answered(self, visit: "Visit", answer: FoundPeople | Rejection) -> Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        (group,) = answer.groups
        if self._assignee is None and not group.people:
            # The person who starts a workflow need not be in a directory.
            group = FoundGroup(ASSIGNEES, _starter_of(visit))
        return self._asked(visit, group)

    def resume(self, visit: "Visit", incoming: Input) -> Done | Stay | Rejection:
        form = visit.world.forms.get(visit.token.step_id) if visit.token.step_id else None
        if form is None:
            return super().resume(visit, incoming)  # type: ignore[return-value]
        if isinstance(incoming, TimerDue):
            return self._on_time(visit, form)
        known = _answers_of(visit)
        if not isinstance(incoming, Advance) or incoming.event not in known:
            event = getattr(incoming, "event", type(incoming).__name__)
            message = f"`{event}` is not an answer to `{self.node.name}`; possible: {', '.join(known)}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        return self._answer(visit, form, incoming)

    def filler(self, visit: "Visit", form: FormRequest) -> Filler | Rejection:
        """Return the actor as the filler of the form, with the seat, or why the actor may not fill it in."""
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
        """Return the problems that sending it would have."""
        return self._form.check(data)[1]

    def _seek(self, visit: "Visit") -> PeopleSearch:
        if self._assignee is None:
            return PeopleSearch("users", (visit.instance.subject_id,))
        return self._assignee.seek(visit)

    def _is_of_a_role(self, visit: "Visit") -> bool:
        return self._assignee is not None and self._seek(visit).strategy in ("roles", "permission")

    def _is_open_to(self, visit: "Visit", form: FormRequest, actor: Actor) -> bool:
        """Return whether the actor has the role now; not if one person was picked, or the actor gave a seat away."""
        seek = self._seek(visit)
        if any(seat.user_id == actor.id for seat in form.seats):
            return False
        if seek.strategy == "permission":
            capability, *roles = seek.names
            return actor.can(capability) or actor.has_role(roles)
        if seek.strategy == "roles":
            return actor.has_role(seek.names) and (seek.pick == "all" or not form.seats)
        # The application itself may do what its user would.
        return self._assignee is None and actor.kind == "system"

    def _asked(self, visit: "Visit", group: FoundGroup) -> Rest | Failure:
        if not group.people and not self._is_of_a_role(visit):
            return Failure("NO_ASSIGNEE", _no_people_failure(self.node.name, group))
        form = _new_form(visit, group, self._schema)
        messages = messages_to(visit, self.node.config, form, form.seats)
        output = {"asked": [seat.user_id for seat in form.seats]}
        return Rest(self._patience.next_time(visit, form), output=output, creates=(form, *messages))

    def _answer(self, visit: "Visit", form: FormRequest, incoming: Advance) -> Done | Rejection:
        filler = self.filler(visit, form)
        if isinstance(filler, Rejection):
            return filler
        if denied := guard_against(visit, incoming.event):
            return denied
        data, problems = self._form.check(incoming.data)
        if problems:
            return Rejection.of(problems)
        if filler.seat is not None:
            visit.world.put(form.set_seats({filler.seat.id: "decided"}))
        output = {"command": incoming.event, "data": data, **filler.names()}
        if filler.seat is not None and filler.seat.user_id != filler.user_id:
            output["contributors"] = [filler.seat.user_id]
        return Done(incoming.event, output, data)

    def _on_time(self, visit: "Visit", form: FormRequest) -> Done | Stay:
        if self._patience.is_over(visit, form):
            return timed_out()
        reminded = self._patience.reminded(visit, form)
        round_now = self._patience.round(visit, form)
        messages = messages_to(
            visit, self.node.config, form, reminded, "reminded", round_of_reminders=round_now
        )
        return Stay(self._patience.next_time(visit, form), messages)


def _new_form(visit: "Visit", group: FoundGroup, schema: Mapping[str, Any]) -> FormRequest:
    """Return a form with a seat for each person who was found."""
    node = visit.node.node
    due = node.config.get("due")
    return FormRequest(
        id=visit.step_id,
        **common_fields(visit),
        label=node.label,
        schema=schema,
        answers=_answers_of(visit),
        declared=node.config.get("assignee", {}),
        skipped=group.skipped,
        due_at=visit.now + timedelta(seconds=due) if due else None,
        seats=_seats(visit, group),
    )


def _answers_of(visit: "Visit") -> tuple[str, ...]:
    """Return the events with which it can be sent: all but `timeout` and `error`."""
    return tuple(sorted(set(visit.node.answers) - {Outcome.TIMEOUT, Outcome.ERROR}))


def _starter_of(visit: "Visit") -> tuple[Person, ...]:
    """Return the person who started the workflow; none if the system did, which fills in nothing."""
    subject = visit.instance.subject_id
    return (Person(subject, STARTER),) if subject != "system" else ()


def _no_people_failure(name: str, group: FoundGroup) -> str:
    """Return the message of the incident when no person was found."""
    left_out = ", ".join(f"{skipped['user_id']} ({skipped['why']})" for skipped in group.skipped)
    return f"`{name}` finds no member to fill it in" + (f"; left out: {left_out}" if left_out else "")


def _seats(visit: "Visit", group: FoundGroup) -> tuple[Seat, ...]:
    return tuple(
        Seat(new_id(visit.now), person.user_id, group.name, position, person.via, "open", person.email)
        for position, person in enumerate(group.people, start=1)
    )
