"""From the people who were found to a form: what is asked of them, with a seat for each."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from assent.model.approval import STARTER, FoundGroup, Person, Seat
from assent.model.form import FormRequest
from assent.model.graph import Outcome
from assent.model.ids import new_id

if TYPE_CHECKING:
    from assent.engine.visit import Visit


def new_form(visit: "Visit", group: FoundGroup, schema: Mapping[str, Any]) -> FormRequest:
    """What is asked now."""
    now, node = visit.now, visit.node.node
    due = node.config.get("due")
    form = FormRequest(
        org_id=visit.instance.org_id,
        id=visit.step_id,
        instance_id=visit.instance.id,
        node_id=node.id,
        node_name=node.name,
        requested_by=visit.token.authority.requester.id,
        created_at=now,
        label=node.label,
        partition_id=visit.instance.partition_id,
        schema=schema,
        answers=answers_of(visit),
        declared=node.config.get("assignee", {}),
        skipped=group.skipped,
        due_at=now + timedelta(seconds=due) if due else None,
        is_new=True,
    )
    _show_entity(visit, form)
    form.put_seats(_seats(visit, group))
    return form


def answers_of(visit: "Visit") -> tuple[str, ...]:
    """What it can be sent with; time running out and failing are nobody's answers."""
    return tuple(sorted(set(visit.node.answers) - {Outcome.TIMEOUT, Outcome.ERROR}))


def starter_of(visit: "Visit") -> tuple[Person, ...]:
    """The system starts workflows too, and fills in nothing."""
    subject = visit.instance.subject_id
    return (Person(subject, STARTER),) if subject != "system" else ()


def no_people_failure(name: str, group: FoundGroup) -> str:
    """Why there is nobody, for whoever reads the incident."""
    left_out = ", ".join(f"{skipped['user_id']} ({skipped['why']})" for skipped in group.skipped)
    return f"`{name}` finds nobody to fill it in" + (f"; left out: {left_out}" if left_out else "")


def _show_entity(visit: "Visit", form: FormRequest) -> None:
    """What the inbox shows of the entity as it is now."""
    entity = visit.world.entity
    if entity is None:
        return
    form.entity_type, form.entity_id, form.entity_version = entity.type, entity.id, entity.version
    shown: Mapping[str, str] = visit.node.node.config.get("inbox", {})
    form.title, form.figure = (entity.data.get(shown.get(key, "")) for key in ("title", "figure"))


def _seats(visit: "Visit", group: FoundGroup) -> list[Seat]:
    return [
        Seat(new_id(visit.now), person.user_id, group.name, position, person.via, "open", person.email)
        for position, person in enumerate(group.people, start=1)
    ]
