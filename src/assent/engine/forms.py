"""Commands about a form other than its answer: claim, release, reassign, keep a draft."""

from typing import TYPE_CHECKING, cast

from assent.engine.inputs import ClaimForm, FormInput, ReassignForm, ReleaseForm, SaveDraft
from assent.engine.nodes.form import Form
from assent.engine.requests import hand_on, heir_of
from assent.engine.visit import Visit
from assent.model.form import FormDraft, FormRequest
from assent.model.ids import new_id
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.run import Run

REASSIGN_FORM = "forms:reassign"
"""The capability to reassign a form of another person, and to release another's claim."""


def open_form(run: "Run", command: FormInput) -> tuple[FormRequest, Visit] | Rejection:
    """Return a form that can still be filled in, with the visit that waits for it."""
    form = run.world.forms.get(command.step_id) if command.step_id else None
    token = next((t for t in run.instance.tokens.values() if form and t.step_id == form.id), None)
    if form is None or token is None:
        return Rejection("FORM_CLOSED", f"form {command.step_id} is not open any more", ("step_id",))
    return form, run.visit(token, command.actor)


def claim_form(run: "Run", command: ClaimForm) -> Rejection | None:
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    filler = _handler(visit).filler(visit, form)
    if isinstance(filler, Rejection):
        return filler
    run.world.put(form.claim(command.actor.id, run.world.now))
    return None


def release_form(run: "Run", command: ReleaseForm) -> Rejection | None:
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    if command.actor.can(REASSIGN_FORM) or form.claimed_by == command.actor.id:
        run.world.put(form.unclaim())
        return None
    if form.claimed_by is not None:
        message = f"{form.claimed_by} has claimed it; another's claim takes {REASSIGN_FORM}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    # There is no claim, so there is nothing to do; but the actor must be able to fill the form in.
    filler = _handler(visit).filler(visit, form)
    return filler if isinstance(filler, Rejection) else None


def save_draft(run: "Run", command: SaveDraft) -> Rejection | None:
    """Keep a draft as it is; its problems are recorded and refuse nothing."""
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    filler = _handler(visit).filler(visit, form)
    if isinstance(filler, Rejection):
        return filler
    problems = tuple(_handler(visit).problems(command.data))
    run.world.put(form.evolve(draft=FormDraft(command.data, command.actor.id, run.world.now, problems)))
    return None


def reassign_form(run: "Run", command: ReassignForm) -> Rejection | None:
    """Close the seat of one person and open one for another; both stay on record."""
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    if refused := _may_not_reassign(form, command):
        return refused
    seat = next(s for s in form.seats if s.user_id == command.from_user and s.status == "open")
    heir = heir_of(seat, command, new_id(run.world.now))
    form = hand_on(form, seat, heir)
    run.world.put(form)
    run.notify(visit.token, form, [heir])
    return None


def _may_not_reassign(form: FormRequest, command: ReassignForm) -> Rejection | None:
    if command.actor.id != command.from_user and not command.actor.can(REASSIGN_FORM):
        message = f"{command.actor.id} may give away what they were asked; another's takes {REASSIGN_FORM}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    asked = {seat.user_id for seat in form.seats if seat.status == "open"}
    if command.from_user not in asked:
        return Rejection("NOT_ASKED", f"{command.from_user} is not asked", ("from_user",))
    if command.to_user in asked:
        return Rejection("ALREADY_ASKED", f"{command.to_user} is asked already", ("to_user",))
    return None


def _handler(visit: Visit) -> Form:
    return cast(Form, visit.node.handler)
