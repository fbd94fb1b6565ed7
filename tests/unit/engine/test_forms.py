"""Forms in the pure engine: who is asked, who may fill it in, claims, drafts, reminders, problems by field."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from assent.engine.inputs import (
    Advance,
    Cancel,
    ClaimForm,
    Input,
    ReassignForm,
    ReleaseForm,
    SaveDraft,
    TimerDue,
)
from assent.engine.run import Offered
from assent.model.actor import SYSTEM, Actor
from assent.model.approval import Delegation
from assent.model.form import FormRequest
from assent.model.mutation import Rejection
from tests.authored import END
from tests.unit.engine.driving import ANN, NOW, EngineCase, flow

LATE = {"id": "late", "type": "terminal"}
SENT = {"from": "ask", "event": "sent", "to": "end"}
FIELDS = {"name": {"type": "text", "required": True}, "limit": {"type": "integer", "min": 1}}
ADMIN = Actor("eve", capabilities=frozenset({"*"}))
CLERKS = ("bea", "bob")


def asking(*more: dict[str, Any], ways: tuple[dict[str, Any], ...] = (), **keys: Any) -> EngineCase:
    """A flow of one form."""
    case = EngineCase(flow([{"id": "ask", "type": "action", **keys}, END, *more], [SENT, *ways]))
    case.people = {"clerks": CLERKS, "nobody": ()}
    return case


def of_clerks(**keys: Any) -> EngineCase:
    return asking(assignee={"role": "clerks"}, **keys).start()


def form_of(case: EngineCase) -> FormRequest:
    return next(iter(case.forms.values()))


def seats(case: EngineCase) -> dict[str, str]:
    return {seat.user_id: seat.status for seat in form_of(case).seats}


def code(outcome: Offered) -> str:
    assert isinstance(outcome, Rejection), outcome
    return outcome.code


def send(case: EngineCase, who: str | Actor, **data: Any) -> Offered:
    return case.give(Advance(case.id(), _actor(who), "sent", data))


def _actor(who: str | Actor) -> Actor:
    return Actor(who) if isinstance(who, str) else who


def do(case: EngineCase, kind: type[Input], who: str | Actor, **rest: Any) -> Offered:
    return case.give(kind(case.id(), _actor(who), step_id=form_of(case).id, **rest))  # type: ignore[call-arg]


def stand_in(case: EngineCase, from_user: str, to_user: str, **scope: Any) -> None:
    case.delegations = {to_user: (Delegation(UUID(int=9), from_user, to_user, **scope),)}


def test_without_an_assignee_whoever_started_is_asked_and_nobody_else_answers() -> None:
    case = asking().start()
    assert seats(case) == {"ann": "open"}
    assert code(send(case, "bea")) == "POLICY_DENIED"
    assert code(send(case, ADMIN)) == "POLICY_DENIED"
    assert send(case, ANN) == "accepted"


def test_the_application_itself_answers_for_whoever_started() -> None:
    assert send(asking().start(), SYSTEM) == "accepted"
    assert code(send(of_clerks(), SYSTEM)) == "POLICY_DENIED"


@pytest.mark.parametrize("assignee", [{"role": "clerks"}, {"rule": "workflow.who"}, {"permission": "clerks"}])
def test_those_who_are_found_are_asked(assignee: dict[str, str]) -> None:
    case = asking(assignee=assignee)
    case.people["None:clerks"] = CLERKS  # the capability of a flow's permission
    case.start(who=list(CLERKS))
    assert seats(case) == {"bea": "open", "bob": "open"}
    assert send(case, "bob") == "accepted"
    assert seats(case) == {"bea": "open", "bob": "decided"}  # the row's seats are closed with the step


def test_nobody_with_the_role_is_no_incident_because_somebody_may_get_it() -> None:
    case = asking(assignee={"role": "nobody"}).start()
    assert (case.resting, seats(case)) == (["ask"], {})
    assert code(send(case, "bea")) == "POLICY_DENIED"
    assert send(case, Actor("new", roles=frozenset({"nobody"}))) == "accepted"


@pytest.mark.parametrize(
    "assignee", [{"rule": "workflow.who"}, {"user": "nobody"}, {"manager": "workflow.who"}]
)
def test_nobody_at_all_is_an_incident(assignee: dict[str, str]) -> None:
    case = asking(assignee=assignee)
    case.start(who=[])
    assert case.instance.incident is not None
    assert (case.instance.status, case.instance.incident["code"]) == ("paused", "NO_ASSIGNEE")


def test_whoever_has_the_role_now_answers_though_nobody_knew_them_then() -> None:
    case = of_clerks()
    assert send(case, Actor("new", roles=frozenset({"clerks"}))) == "accepted"
    assert case.step_of("ask").output["by"] == "new"


def test_where_one_of_the_role_is_picked_it_is_theirs_alone() -> None:
    case = asking(assignee={"role": "clerks", "pick": "round_robin"})
    case.people["clerks"] = ("bea",)
    case.start()
    assert code(send(case, Actor("bob", roles=frozenset({"clerks"})))) == "POLICY_DENIED"
    assert send(case, "bea") == "accepted"


def test_capabilities_of_the_node_are_asked_for_first() -> None:
    case = of_clerks(capabilities=["forms:send"])
    assert code(send(case, "bea")) == "POLICY_DENIED"
    assert send(case, Actor("bea", capabilities=frozenset({"forms:send"}))) == "accepted"


def test_time_and_failure_are_nobodys_answers() -> None:
    case = asking(LATE, ways=({"from": "ask", "event": "timeout", "to": "late"},), timeout="1d").start()
    assert code(case.advance("timeout")) == "INVALID_TRANSITION"
    assert form_of(case).answers == ("sent",)


def test_the_originator_may_fill_in_and_one_person_may_fill_in_twice() -> None:
    case = asking(assignee={"user": "ann"}).start()
    assert send(case, ANN) == "accepted"


def test_a_delegate_answers_with_both_names_in_the_step() -> None:
    case = of_clerks()
    stand_in(case, "bea", "dan")
    assert send(case, "dan", name="x") == "accepted"
    output = case.step_of("ask").output
    assert (output["by"], output["for"]) == ("dan", "bea")
    assert seats(case)["bea"] == "decided"


@pytest.mark.parametrize(
    ("scope", "accepted"),
    [
        ({}, True),
        ({"workflows": ("test.flow",)}, True),
        ({"workflows": ("other",)}, False),
        ({"entity_types": ("invoice",)}, False),
    ],
)
def test_a_delegation_is_good_for_its_scope_only(scope: dict[str, Any], accepted: bool) -> None:
    for kind in (ClaimForm, SaveDraft):
        case = of_clerks()
        stand_in(case, "bea", "dan", **scope)
        assert (do(case, kind, "dan") == "accepted") is accepted
        assert (send(case, "dan") == "accepted") is accepted


def test_every_problem_is_told_at_its_field_and_nothing_is_written() -> None:
    case = of_clerks(form=FIELDS)
    outcome = send(case, "bea", limit=0, colour="red")
    assert isinstance(outcome, Rejection)
    assert {problem.path for problem in outcome.problems} == {
        ("data", "name"),
        ("data", "limit"),
        ("data", "colour"),
    }
    assert (case.resting, seats(case)["bea"]) == (["ask"], "open")
    assert send(case, "bea", name="x") == "accepted"
    assert case.instance.context["name"] == "x"


def test_a_claim_keeps_others_away_until_it_is_released() -> None:
    case = of_clerks()
    assert do(case, ClaimForm, "bea") == "accepted"
    assert code(do(case, ClaimForm, "bob")) == "CLAIMED"
    assert code(send(case, "bob")) == "CLAIMED"
    assert code(do(case, SaveDraft, "bob")) == "CLAIMED"
    assert code(send(case, Actor("new", roles=frozenset({"clerks"})))) == "CLAIMED"
    assert code(do(case, ReleaseForm, "bob")) == "POLICY_DENIED"
    assert do(case, ReleaseForm, "bea") == "accepted"
    assert send(case, "bob") == "accepted"


def test_whoever_claims_may_claim_again_and_answer() -> None:
    case = of_clerks()
    do(case, ClaimForm, "bea")
    assert do(case, ClaimForm, "bea") == "accepted"
    assert send(case, "bea") == "accepted"


def test_an_admin_releases_what_somebody_sits_on() -> None:
    case = of_clerks()
    do(case, ClaimForm, "bea")
    assert do(case, ReleaseForm, Actor("eve", capabilities=frozenset({"forms:reassign"}))) == "accepted"
    assert form_of(case).claimed_by is None


@pytest.mark.parametrize("kind", [ClaimForm, SaveDraft])
def test_a_stranger_neither_claims_nor_writes(kind: type[Input]) -> None:
    case = of_clerks()
    assert code(do(case, kind, "eve")) == "POLICY_DENIED"
    assert code(do(case, kind, ADMIN)) == "POLICY_DENIED"


def test_what_is_sent_and_wrong_is_not_missing_as_well() -> None:
    case = asking(form=FIELDS).start()
    outcome = send(case, ANN, name=7, limit=1)
    assert isinstance(outcome, Rejection)
    assert [(problem.code, problem.path) for problem in outcome.problems] == [
        ("WRONG_TYPE", ("data", "name"))
    ]


def test_a_draft_is_kept_as_it_is_with_its_problems() -> None:
    case = of_clerks(form=FIELDS)
    assert do(case, SaveDraft, "bea", data={"limit": 0, "note": "later"}) == "accepted"
    draft = form_of(case).draft
    assert draft is not None
    assert (draft.data, draft.by, draft.at) == ({"limit": 0, "note": "later"}, "bea", NOW)
    assert {problem.path for problem in draft.problems} == {
        ("data", "limit"),
        ("data", "note"),
        ("data", "name"),
    }
    assert case.instance.context == {}


def test_what_is_answered_is_what_is_sent_and_no_draft() -> None:
    case = of_clerks(form=FIELDS)
    do(case, SaveDraft, "bea", data={"name": "draft", "limit": 5})
    assert send(case, "bea", name="sent") == "accepted"
    assert case.instance.context == {"name": "sent"}


def test_nothing_is_done_about_a_form_that_is_closed() -> None:
    case = of_clerks()
    given = {"step_id": form_of(case).id}
    send(case, "bea")
    for kind in (ClaimForm, ReleaseForm, SaveDraft):
        assert code(case.give(kind(case.id(), Actor("bea"), **given))) == "WORKFLOW_NOT_ACTIVE"


def test_a_form_of_another_step_is_closed() -> None:
    case = of_clerks()
    assert code(case.give(ClaimForm(case.id(), Actor("bea"), UUID(int=7)))) == "FORM_CLOSED"


def reassign(case: EngineCase, who: str | Actor, from_user: str, to_user: str) -> Offered:
    return do(
        case, ReassignForm, who, from_user=from_user, to_user=to_user, to_email=f"{to_user}@acme.example"
    )


def test_whoever_is_asked_may_hand_it_on_and_is_not_asked_any_more() -> None:
    case = of_clerks(notify="email")
    do(case, ClaimForm, "bea")
    assert reassign(case, "bea", "bea", "dan") == "accepted"
    assert (form_of(case).claimed_by, seats(case)) == (None, {"bea": "closed", "bob": "open", "dan": "open"})
    assert code(send(case, Actor("bea", roles=frozenset({"clerks"})))) == "POLICY_DENIED"
    assert case.effects[-1].payload["to"] == "dan@acme.example"
    assert send(case, "dan") == "accepted"


@pytest.mark.parametrize(
    ("who", "from_user", "to_user", "refused"),
    [
        ("bob", "bea", "dan", "POLICY_DENIED"),
        ("eve", "bea", "dan", "POLICY_DENIED"),
        ("bea", "bea", "bob", "ALREADY_ASKED"),
        ("dan", "dan", "eve", "NOT_ASKED"),
    ],
)
def test_not_everybody_hands_it_on_to_anybody(who: str, from_user: str, to_user: str, refused: str) -> None:
    assert code(reassign(of_clerks(), who, from_user, to_user)) == refused


def ring(case: EngineCase, hours: float) -> Offered:
    case.now += timedelta(hours=hours)
    return case.give(TimerDue(case.id(), step_id=case.step_of("ask").id))


def due(case: EngineCase) -> Any:
    step = case.step_of("ask")
    return case.times.get(step.id, step.resume_at)


def test_people_are_told_what_they_are_asked_and_by_when() -> None:
    case = of_clerks(notify="email", due="24h", label="Intake")
    told = [(effect.payload["to"], effect.payload["text"]) for effect in case.effects]
    asked = "You are asked to fill in Intake: test.flow. It was requested by ann."
    text = f"{asked} It is due 2026-03-03 09:00 UTC."
    assert told == [("bea@acme.example", text), ("bob@acme.example", text)]
    subject = "Intake: test.flow (requested by ann, due 2026-03-03 09:00 UTC)"
    assert {effect.payload["subject"] for effect in case.effects} == {subject}


def test_whoever_started_is_told_too() -> None:
    case = asking(notify="email").start()
    assert [effect.payload["to"] for effect in case.effects] == ["ann@acme.example"]
    assert case.effects[0].payload["text"] == "You are asked to fill in ask: test.flow.", (
        "ann knows who asked"
    )


def test_whoever_started_is_reminded_at_their_address() -> None:
    case = asking(remind="24h").start()
    assert case.effects == []
    ring(case, 24)
    assert [effect.payload["to"] for effect in case.effects] == ["ann@acme.example"]


def test_reminders_come_again_and_again_until_the_time_is_over() -> None:
    case = asking(
        LATE,
        ways=({"from": "ask", "event": "timeout", "to": "late"},),
        assignee={"role": "clerks"},
        remind="24h",
        timeout="72h",
    ).start()
    for hours in (24, 48):
        assert due(case) == NOW + timedelta(hours=hours)
        assert ring(case, 24) == "accepted"
    assert due(case) == NOW + timedelta(hours=72)
    assert [e.payload["occasion"] for e in case.effects] == ["reminded"] * 4, (
        "`remind` alone sends nothing at once"
    )
    assert {e.type for e in case.effects} == {"email"}
    assert len({effect.key("step") for effect in case.effects}) == 4
    ring(case, 24)
    assert case.trace() == ["start", "ask", "late"]


def test_a_timer_that_comes_early_ends_nothing() -> None:
    case = asking(LATE, ways=({"from": "ask", "event": "timeout", "to": "late"},), timeout="72h").start()
    assert ring(case, 71) == "accepted"
    assert (case.resting, due(case)) == (["ask"], NOW + timedelta(hours=72))


def test_due_ends_nothing() -> None:
    case = of_clerks(due="1h")
    assert (form_of(case).due_at, case.step_of("ask").resume_at) == (NOW + timedelta(hours=1), None)


def test_a_form_without_its_row_is_not_answered() -> None:
    case = asking().start()
    case.forms = {}
    assert code(send(case, ANN)) == "INVALID_TRANSITION"
    assert case.resting == ["ask"]


def test_a_second_round_is_another_form() -> None:
    again = {"from": "ask", "event": "again", "to": "ask"}
    case = asking(ways=(again,)).start()
    assert case.advance("again") == "accepted"
    assert len(case.forms) == 2
    case.give(Cancel(case.id(), ANN))
    assert case.instance.status == "cancelled"
