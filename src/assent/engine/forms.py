"""What is done about a form besides answering it: claim, release, reassign, keep a draft."""

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
"""The capability to have somebody else fill in what another was asked, and to release another's claim."""


def open_form(run: "Run", given: FormInput) -> tuple[FormRequest, Visit] | Rejection:
    """A form that can still be filled in, with the visit that waits for it."""
    form = run.world.forms.get(given.step_id) if given.step_id else None
    token = next((t for t in run.instance.tokens.values() if form and t.step_id == form.id), None)
    if form is None or token is None:
        return Rejection("FORM_CLOSED", f"form {given.step_id} is not open any more", ("step_id",))
    return form, run.visit(token, given.actor)


def claim_form(run: "Run", given: ClaimForm) -> Rejection | None:
    found = open_form(run, given)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    filler = _handler(visit).filler(visit, form)
    if isinstance(filler, Rejection):
        return filler
    run.world.put(form.claim(given.actor.id, run.world.now))
    return None


def release_form(run: "Run", given: ReleaseForm) -> Rejection | None:
    found = open_form(run, given)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    if given.actor.can(REASSIGN_FORM) or form.claimed_by == given.actor.id:
        run.world.put(form.unclaim())
        return None
    if form.claimed_by is not None:
        message = f"{form.claimed_by} has claimed it; another's claim takes {REASSIGN_FORM}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    # Nobody has it, so there is nothing to do; but who asks must be one who could have it.
    filler = _handler(visit).filler(visit, form)
    return filler if isinstance(filler, Rejection) else None


def save_draft(run: "Run", given: SaveDraft) -> Rejection | None:
    """Keep what somebody has written as it is; what is wrong with it is noted and refuses nothing."""
    found = open_form(run, given)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    filler = _handler(visit).filler(visit, form)
    if isinstance(filler, Rejection):
        return filler
    problems = tuple(_handler(visit).problems(given.data))
    run.world.put(form.evolve(draft=FormDraft(given.data, given.actor.id, run.world.now, problems)))
    return None


def reassign_form(run: "Run", given: ReassignForm) -> Rejection | None:
    """Close somebody's seat and open one for another; the record keeps both."""
    found = open_form(run, given)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    if refused := _may_not_reassign(form, given):
        return refused
    seat = next(s for s in form.seats if s.user_id == given.from_user and s.status == "open")
    heir = heir_of(seat, given, new_id(run.world.now))
    form = hand_on(form, seat, heir)
    run.world.put(form)
    run.notify(visit.token, form, [heir])
    return None


def _may_not_reassign(form: FormRequest, given: ReassignForm) -> Rejection | None:
    if given.actor.id != given.from_user and not given.actor.can(REASSIGN_FORM):
        message = f"{given.actor.id} may give away what they were asked; another's takes {REASSIGN_FORM}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    asked = {seat.user_id for seat in form.seats if seat.status == "open"}
    if given.from_user not in asked:
        return Rejection("NOT_ASKED", f"{given.from_user} is not asked", ("from_user",))
    if given.to_user in asked:
        return Rejection("ALREADY_ASKED", f"{given.to_user} is asked already", ("to_user",))
    return None


def _handler(visit: Visit) -> Form:
    return cast(Form, visit.node.handler)
