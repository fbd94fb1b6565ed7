"""A form that somebody fills in; its fields become variables of the workflow.

Who is asked is settled when the token arrives, as for approvals. Whoever has the role is as good as asked: somebody may
get it later. What is answered is what is sent; a draft is only kept for whoever writes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from assent.engine.choose import guard_against
from assent.engine.consent import Answerer, open_seat
from assent.engine.inputs import Advance, Input, TimerDue
from assent.engine.nodes.asking import People, messages_to
from assent.engine.nodes.base import Ask, Done, Failure, Handler, Rest, Stay
from assent.engine.nodes.filling import FilledForm
from assent.engine.nodes.patience import Patience
from assent.engine.nodes.waiting import timed_out
from assent.language import Scope
from assent.model.actor import Actor
from assent.model.approval import Found, FoundGroup, Person, Seat, Seek, WantedGroup
from assent.model.form import ASSIGNEES, AskedForm
from assent.model.form_schema import form_schema
from assent.model.graph import Node, Outcome
from assent.model.ids import new_id
from assent.model.mutation import Rejection
from assent.model.problems import Problem

if TYPE_CHECKING:
    from assent.engine.visit import Visit

STARTER: Final = "starter"
"""How whoever started the workflow came to be asked."""


@dataclass(frozen=True, slots=True)
class Filler:
    """Somebody who may fill a form in: in a seat, their own or another's, or by the role that they have."""

    user_id: str
    seat: Seat | None = None

    def names(self) -> dict[str, str]:
        behalf = self.seat.user_id if self.seat is not None else self.user_id
        return {"by": self.user_id} | ({"for": behalf} if behalf != self.user_id else {})


class Form(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        assignee = node.config.get("assignee")
        self._assignee = People(assignee, scope) if assignee else None
        self._form = FilledForm(node.config.get("form", {}))
        self._schema = form_schema(self._form.fields, node.label or node.name)
        self._patience = Patience(node)

    def enter(self, visit: "Visit") -> Ask | Rest | Failure:
        if self._assignee is None and "notify" not in self.node.config:
            return self._asked(visit, FoundGroup(ASSIGNEES, _starter(visit)))
        return Ask((WantedGroup(ASSIGNEES, self._seek(visit)),), separates=False)

    def answered(self, visit: "Visit", answer: Found | Rejection) -> Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        (group,) = answer.groups
        if self._assignee is None and not group.people:
            group = FoundGroup(
                ASSIGNEES, _starter(visit)
            )  # whoever starts a workflow need not be in a directory
        return self._asked(visit, group)

    def resume(self, visit: "Visit", given: Input) -> Done | Stay | Rejection:
        form = self._form_at(visit)
        if isinstance(given, TimerDue):
            return self._on_time(visit, form)
        known = _answers(visit)
        if not isinstance(given, Advance) or given.event not in known:
            event = getattr(given, "event", type(given).__name__)
            message = f"`{event}` is not an answer to `{self.node.name}`; possible: {', '.join(known)}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        return self._answer(visit, form, given)

    def filler(self, visit: "Visit", form: AskedForm) -> Filler | Rejection:
        """Whether it is the actor's to fill in, and in whose place."""
        actor, workflow = visit.actor, visit.plan.workflow.key
        if missing := [name for name in self.node.capabilities if not actor.can(name)]:
            return Rejection("POLICY_DENIED", f"`{self.node.name}` takes {', '.join(missing)}", ("actor",))
        if form.claimed_by not in (None, actor.id):
            hint = "it must be released first"
            return Rejection("CLAIMED", f"{form.claimed_by} has claimed it", ("step",), hint=hint)
        delegations = visit.world.delegations.get(actor.id, ())
        usable = [d for d in delegations if not d.workflows or workflow in d.workflows]
        seat = open_seat(form, Answerer(actor, usable))
        if isinstance(seat, Rejection):
            return Filler(actor.id) if self._is_open_to(visit, form, actor) else seat
        return Filler(actor.id, seat)

    def problems(self, data: Mapping[str, Any]) -> Sequence[Problem]:
        """What would be wrong with it if it were sent."""
        return self._form.check(data)[1]

    def _seek(self, visit: "Visit") -> Seek:
        if self._assignee is None:
            return Seek("users", (visit.instance.subject_id,))
        return self._assignee.seek(visit)

    def _is_of_a_role(self, visit: "Visit") -> bool:
        return self._assignee is not None and self._seek(visit).strategy in ("roles", "permission")

    def _is_open_to(self, visit: "Visit", form: AskedForm, actor: Actor) -> bool:
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

    def _form_at(self, visit: "Visit") -> AskedForm:
        """The form that is asked here. A step from before forms had rows has none, and is answered all the same."""
        assert visit.token.step_id is not None
        found = visit.world.forms.get(visit.token.step_id)
        if found is not None:
            return found
        since = visit.token.step_at or visit.now
        return replace(self._new_form(visit, FoundGroup(ASSIGNEES, ())), is_new=False, created_at=since)

    def _asked(self, visit: "Visit", group: FoundGroup) -> Rest | Failure:
        if not group.people and not self._is_of_a_role(visit):
            return Failure("NO_ASSIGNEE", _nobody(self.node.name, group))
        form = self._new_form(visit, group)
        told = messages_to(visit, self.node.config, form, form.seats)
        output = {"asked": [seat.user_id for seat in form.seats]}
        return Rest(self._patience.next_time(visit, form), output=output, effects=told, form=form)

    def _new_form(self, visit: "Visit", group: FoundGroup) -> AskedForm:
        now, due = visit.now, self.node.config.get("due")
        form = AskedForm(
            org_id=visit.instance.org_id,
            id=visit.step_id,
            instance_id=visit.instance.id,
            node_id=self.node.id,
            node_name=self.node.name,
            requested_by=visit.actor.id,
            created_at=now,
            label=self.node.label,
            partition_id=visit.instance.partition_id,
            schema=self._schema,
            answers=_answers(visit),
            declared=self.node.config.get("assignee", {}),
            skipped=group.skipped,
            due_at=now + timedelta(seconds=due) if due else None,
            is_new=True,
        )
        _show_entity(visit, form)
        form.put_seats(_seats(visit, group))
        return form

    def _answer(self, visit: "Visit", form: AskedForm, given: Advance) -> Done | Rejection:
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
        return Done(given.event, {"command": given.event, "data": data, **filler.names()}, data)

    def _on_time(self, visit: "Visit", form: AskedForm) -> Done | Stay:
        if self._patience.is_over(visit, form):
            return timed_out()
        reminded = self._patience.reminded(visit, form)
        told = messages_to(visit, self.node.config, form, reminded, "reminded")
        return Stay(self._patience.next_time(visit, form), told)


def _answers(visit: "Visit") -> tuple[str, ...]:
    """What it can be sent with; time running out and failing are nobody's answers."""
    return tuple(sorted(set(visit.node.answers) - {Outcome.TIMEOUT, Outcome.ERROR}))


def _starter(visit: "Visit") -> tuple[Person, ...]:
    """The system starts workflows too, and fills in nothing."""
    subject = visit.instance.subject_id
    return (Person(subject, STARTER),) if subject != "system" else ()


def _seats(visit: "Visit", group: FoundGroup) -> list[Seat]:
    return [
        Seat(new_id(visit.now), person.user_id, group.name, position, person.via, "open", person.email)
        for position, person in enumerate(group.people, start=1)
    ]


def _show_entity(visit: "Visit", form: AskedForm) -> None:
    """What the inbox shows of the entity as it is now."""
    entity = visit.world.entity
    if entity is None:
        return
    form.entity_type, form.entity_id, form.entity_version = entity.type, entity.id, entity.version
    shown: Mapping[str, str] = visit.node.node.config.get("inbox", {})
    form.title, form.figure = (entity.data.get(shown.get(key, "")) for key in ("title", "figure"))


def _nobody(name: str, group: FoundGroup) -> str:
    left_out = ", ".join(f"{skipped['user_id']} ({skipped['why']})" for skipped in group.skipped)
    return f"`{name}` finds nobody to fill it in" + (f"; left out: {left_out}" if left_out else "")
