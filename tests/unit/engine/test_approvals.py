"""Approvals in the pure engine: who may answer, when enough have, and what time does."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from assent.engine.inputs import Claim, Decide, Reassign, Release, Skip, TimerDue
from assent.engine.run import Offered
from assent.model.actor import Actor
from assent.model.approval import Delegation
from assent.model.mutation import Rejection
from tests.unit.engine.approving import (
    BOSSES,
    ENDS,
    WAYS,
    asking,
    code,
    decide,
    end_of,
    play,
    request_at,
    request_of,
)
from tests.unit.engine.driving import NOW, EngineCase, flow


@pytest.mark.parametrize(
    ("node", "answers", "end"),
    [
        ({}, [("bob", "approved")], "yes"),
        ({}, [("bob", "rejected")], "no"),
        ({}, [("bob", "abstained"), ("cid", "approved")], "yes"),
        ({}, [("bob", "abstained"), ("cid", "abstained"), ("bea", "abstained")], "no"),
        ({"mode": "all"}, [("bob", "approved"), ("bea", "approved")], None),
        ({"mode": "all"}, [("bob", "approved"), ("bea", "approved"), ("cid", "approved")], "yes"),
        ({"mode": "all"}, [("bob", "approved"), ("bea", "abstained")], "no"),
        ({"mode": "quorum", "quorum": 2}, [("bob", "rejected"), ("bea", "approved")], None),
        (
            {"mode": "quorum", "quorum": 2},
            [("bob", "rejected"), ("bea", "approved"), ("cid", "approved")],
            "yes",
        ),
        ({"mode": "quorum", "quorum": 2}, [("bob", "rejected"), ("bea", "rejected")], "no"),
        ({"mode": "percentage", "quorum": 60}, [("bob", "approved")], None),
        ({"mode": "percentage", "quorum": 60}, [("bob", "approved"), ("bea", "approved")], "yes"),
        ({"mode": "sequence"}, [("bea", "approved"), ("bob", "approved"), ("cid", "approved")], "yes"),
        ({"mode": "sequence"}, [("bea", "approved"), ("bob", "rejected")], "no"),
    ],
)
def test_a_mode_says_how_many_must_agree(node: Any, answers: Any, end: str | None) -> None:
    assert play(asking(**node).start(), *answers) == end


GROUPS = {
    "groups": {
        "finance": {"approvers": {"role": "finance"}, "mode": "quorum", "quorum": 2},
        "legal": {"approvers": {"role": "legal"}},
        "cfo": {"approvers": {"role": "cfo"}},
    },
    "enough": "(finance && legal) || cfo",
}


@pytest.mark.parametrize(
    ("answers", "end"),
    [
        ([("cfo", "approved")], "yes"),
        ([("fin", "approved"), ("lea", "approved")], None),
        ([("fin", "approved"), ("lea", "approved"), ("fay", "approved")], "yes"),
        ([("lea", "rejected")], None),
        ([("lea", "rejected"), ("cfo", "rejected")], "no"),
        ([("lea", "rejected"), ("cfo", "approved")], "yes"),
        ([("cfo", "rejected"), ("fin", "rejected")], None),
        ([("cfo", "rejected"), ("fin", "rejected"), ("fay", "rejected")], "no"),
    ],
)
def test_groups_are_enough_as_their_expression_says(answers: Any, end: str | None) -> None:
    assert play(asking(**GROUPS).start(), *answers) == end


def test_a_group_that_has_spoken_is_not_asked_any_more() -> None:
    case = asking(**GROUPS).start()
    decide(case, "lea", "rejected")
    decide(case, "fin")
    decide(case, "fay")
    assert [s.user_id for s in request_of(case).seats if s.status == "open"] == ["cfo"]
    assert code(decide(case, "bea")) == "POLICY_DENIED"


def test_in_a_sequence_nobody_answers_before_their_turn() -> None:
    case = asking(mode="sequence").start()
    assert code(decide(case, "cid")) == "NOT_YET_ASKED"
    assert [s.user_id for s in request_of(case).seats if s.status == "open"] == ["bea"]
    decide(case, "bea")
    assert [s.user_id for s in request_of(case).seats if s.status == "open"] == ["bob"]


def test_in_a_sequence_the_next_is_asked_when_the_one_before_has_answered_and_no_other() -> None:
    groups = {
        "bosses": {"approvers": {"role": "boss"}, "mode": "sequence"},
        "legal": {"approvers": {"role": "legal"}},
    }
    case = asking(groups=groups).start()
    decide(case, "lea")
    assert [s.user_id for s in request_of(case).seats if s.status == "open"] == ["bea"]
    decide(case, "bea")
    assert [s.user_id for s in request_of(case).seats if s.status == "open"] == ["bob"]


def test_tiers_ask_by_the_amount() -> None:
    tiers = [{"up_to": 100, "assignee": {"role": "legal"}}, {"assignee": {"role": "cfo"}}]
    node = {"id": "ask", "type": "approval", "amount": "workflow.amount", "tiers": _as_approvers(tiers)}
    for amount, asked in ((100, "lea"), (101, "cfo"), ("100.00", "lea"), ("100.01", "cfo")):
        case = EngineCase(flow([node, *ENDS], WAYS))
        case.people = {"legal": ("lea",), "cfo": ("cfo",)}
        case.start(amount=amount)
        assert [seat.user_id for seat in request_of(case).seats] == [asked]


def _as_approvers(tiers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**{k: v for k, v in t.items() if k != "assignee"}, "approvers": t["assignee"]} for t in tiers]


@pytest.mark.parametrize("amount", ["many", None, True, "NaN"])
def test_an_amount_that_is_no_number_is_an_incident(amount: Any) -> None:
    tiers = [{"up_to": 100, "approvers": {"role": "legal"}}, {"approvers": {"role": "cfo"}}]
    case = EngineCase(
        flow([{"id": "ask", "type": "approval", "amount": "workflow.amount", "tiers": tiers}, *ENDS], WAYS)
    )
    case.start(amount=amount)
    assert case.instance.incident is not None
    assert case.instance.incident["code"] == "AMOUNT_MISSING"


@pytest.mark.parametrize("people", [(), ("ann",)])
def test_nobody_to_ask_is_an_incident_and_no_way_past(people: tuple[str, ...]) -> None:
    case = asking()
    case.people["boss"] = people
    case.start()
    assert (case.instance.status, case.requests) == ("paused", {})
    assert case.instance.incident is not None
    assert case.instance.incident["code"] == "NO_APPROVERS"


def test_a_group_that_nobody_is_in_may_be_dispensable() -> None:
    case = asking(**GROUPS)
    case.people["legal"] = ()
    case.start()
    assert play(case, ("cfo", "approved")) == "yes"


@pytest.mark.parametrize(
    ("people", "enough", "asks"),
    [
        ({"finance": ("bea", "fay"), "legal": ("bea",)}, "finance && legal", False),
        ({"finance": ("bea", "fay"), "legal": ("bea", "lea")}, "finance && legal", True),
        ({"finance": ("bea", "fay", "fin"), "legal": ("bea",)}, "finance && legal", True),
        ({"finance": ("bea", "fay"), "legal": ("bea",), "cfo": ("cfo",)}, "(finance && legal) || cfo", True),
        ({"finance": ("bea", "fay"), "legal": ("bea",), "cfo": ("bea",)}, "(finance && legal) || cfo", True),
    ],
)
def test_one_person_cannot_be_all_the_people_of_two_groups(people: Any, enough: str, asks: bool) -> None:
    """Two of finance are needed and one of legal: who sits in both can only fill one seat."""
    quorum = {"mode": "quorum", "quorum": 2}
    groups = {name: {"approvers": {"role": name}, **(quorum if name == "finance" else {})} for name in people}
    case = asking(groups=groups, enough=enough)
    case.people = people
    case.start()
    assert bool(case.requests) is asks
    if not asks:
        assert case.instance.incident is not None
        assert "not the same in several groups" in case.instance.incident["message"]


def test_too_few_for_a_quorum_are_nobody() -> None:
    case = asking(mode="quorum", quorum=4).start()
    assert case.instance.incident is not None
    assert case.instance.incident["code"] == "NO_APPROVERS"


def test_the_originator_is_not_asked() -> None:
    case = asking()
    case.people["boss"] = ("ann", "bea")
    case.start()
    assert [seat.user_id for seat in request_of(case).seats] == ["bea"]
    assert request_of(case).skipped == ({"user_id": "ann", "why": "originator"},)


def delegation(from_user: str, to_user: str, **scope: Any) -> dict[str, tuple[Delegation, ...]]:
    return {to_user: (Delegation(UUID(int=9), from_user, to_user, **scope),)}


def test_the_originator_does_not_approve_as_a_delegate() -> None:
    case = asking().start()
    case.delegations = delegation("bea", "ann")
    assert code(decide(case, "ann")) == "SEPARATION_OF_DUTIES"
    assert code(decide(case, "ann", on_behalf_of="bea")) == "SEPARATION_OF_DUTIES"


def test_a_step_that_takes_a_capability_is_decided_by_those_who_have_it() -> None:
    case = asking(capabilities=["orders:approve"]).start()
    refused = decide(case, "bea")
    assert isinstance(refused, Rejection)
    assert (refused.code, "orders:approve" in refused.message) == ("POLICY_DENIED", True)
    able = Actor("bea", capabilities=frozenset({"orders:*"}))
    assert case.give(Decide(case.id(), able, request_of(case).id)) == "accepted"


def test_nobody_approves_in_the_seat_of_an_originator() -> None:
    """No such seat is made; were it there, a stand-in could not fill it either."""
    case = asking().start()
    request = request_of(case)
    case.requests[request.id] = request.evolve(originators=frozenset({"ann", "bea"}))
    case.delegations = delegation("bea", "dan")
    assert code(decide(case, "dan", on_behalf_of="bea")) == "SEPARATION_OF_DUTIES"


def test_the_originator_does_not_get_a_seat_by_reassignment() -> None:
    case = asking().start()
    admin = Actor("eve", capabilities=frozenset({"*"}))
    given = Reassign(case.id(), admin, request_of(case).id, "bea", "ann")
    assert code(case.give(given)) == "SEPARATION_OF_DUTIES"


def test_an_admin_does_not_skip_an_approval_to_approved() -> None:
    case = asking().start()
    edges = {edge.label: edge.id for edge in case.plan.nodes["ask"].everything}
    admin = Actor("eve", capabilities=frozenset({"*"}))
    assert code(case.give(Skip(case.id(), admin, "ask", edges["approved"]))) == "APPROVAL_CANNOT_BE_SKIPPED"
    assert case.give(Skip(case.id(), admin, "ask", edges["rejected"])) == "accepted"
    assert (end_of(case), request_of(case).status) == ("no", "cancelled")


def test_an_admin_who_is_not_asked_does_not_decide() -> None:
    case = asking().start()
    assert code(
        case.give(Decide(case.id(), Actor("eve", capabilities=frozenset({"*"})), request_of(case).id))
    ) == ("POLICY_DENIED")


def test_contracts_may_let_the_originator_approve() -> None:
    case = asking(flow_keys={"separation": {"originator": "allowed"}})
    case.people["boss"] = ("ann",)
    assert play(case.start(), ("ann", "approved")) == "yes"


def test_nobody_answers_one_request_twice() -> None:
    case = asking(mode="all").start()
    decide(case, "bea")
    assert code(decide(case, "bea")) == "ALREADY_DECIDED"


def test_one_person_does_not_fill_two_seats_of_a_round() -> None:
    case = asking(mode="all").start()
    decide(case, "bea")
    case.delegations = delegation("bob", "bea")
    assert code(decide(case, "bea", on_behalf_of="bob")) == "ALREADY_DECIDED"
    case.delegations = delegation("bea", "dan")
    assert code(decide(case, "dan", on_behalf_of="bea")) == "SEPARATION_OF_DUTIES"


def parallel(**keys: Any) -> EngineCase:
    fork = [{"id": "fork", "type": "parallel_split"}, {"id": "join", "type": "parallel_join", "mode": "all"}]
    asks = [{"id": name, "type": "approval", "assignee": {"role": "boss"}} for name in ("one", "two")]
    ways = [{"from": "fork", "to": name} for name in ("one", "two")]
    ways += [{"from": name, "event": "approved", "to": "join"} for name in ("one", "two")]
    ways += [{"from": name, "event": "rejected", "to": "join"} for name in ("one", "two")]
    case = EngineCase(
        flow([fork[0], *asks, fork[1], ENDS[0]], [*ways, {"from": "join", "to": "yes"}], **keys)
    )
    case.people = {"boss": BOSSES}
    return case.start()


def test_one_person_does_not_fill_two_seats_on_two_branches() -> None:
    case = parallel()
    assert decide(case, "bea", request=request_at(case, "one")) == "accepted"
    assert code(decide(case, "bea", request=request_at(case, "two"))) == "SEPARATION_OF_DUTIES"
    case.delegations = delegation("bob", "bea")
    two = request_at(case, "two")
    assert code(decide(case, "bea", request=two, on_behalf_of="bob")) == "SEPARATION_OF_DUTIES"
    case.delegations = delegation("bea", "dan")
    assert code(decide(case, "dan", request=two, on_behalf_of="bea")) == "SEPARATION_OF_DUTIES"
    assert decide(case, "bob", request=two) == "accepted"


def test_contracts_may_let_one_person_fill_two_seats_of_a_request() -> None:
    case = asking(**GROUPS, flow_keys={"separation": {"twice": "allowed"}})
    case.people |= {"finance": ("bea", "fay"), "legal": ("bea",)}
    case.start()
    for group in ("finance", "legal"):
        assert decide(case, "bea", group=group) == "accepted"
    assert code(decide(case, "bea")) == "POLICY_DENIED"
    assert play(case, ("fay", "approved")) == "yes"


def test_contracts_may_let_one_person_fill_two_seats() -> None:
    case = parallel(separation={"twice": "allowed"})
    decide(case, "bea", request=request_at(case, "one"))
    assert decide(case, "bea", request=request_at(case, "two")) == "accepted"


def test_a_delegate_answers_with_both_names_in_the_record() -> None:
    case = asking().start()
    case.delegations = delegation("bea", "dan")
    decide(case, "dan", reason="she is away")
    (decision,) = request_of(case).decisions
    assert (decision.approver_id, decision.on_behalf_of, decision.reason) == ("dan", "bea", "she is away")


@pytest.mark.parametrize(
    ("scope", "accepted"),
    [
        ({"workflows": ("test.flow",)}, True),
        ({"workflows": ("other",)}, False),
        ({"entity_types": ("invoice",)}, False),
    ],
)
def test_a_delegation_is_good_for_its_scope_only(scope: Any, accepted: bool) -> None:
    case = asking().start()
    case.delegations = delegation("bea", "dan", **scope)
    assert (decide(case, "dan") == "accepted") is accepted


def test_a_stranger_is_told_who_is_asked() -> None:
    outcome = decide(asking().start(), "eve")
    assert isinstance(outcome, Rejection)
    assert "bea, bob, cid" in outcome.message


def test_a_guard_refuses_the_answer_and_nothing_is_stuck() -> None:
    steps = [{"id": "ask", "type": "approval", "assignee": {"role": "boss"}}, *ENDS]
    case = EngineCase(flow(steps, [{**WAYS[0], "guard": "orders:approve"}, WAYS[1]]))
    case.people = {"boss": BOSSES}
    case.start()
    assert code(decide(case, "bea")) == "POLICY_DENIED"
    assert case.instance.status == "running"
    able = Actor("bea", capabilities=frozenset({"orders:approve"}))
    assert case.give(Decide(case.id(), able, request_of(case).id)) == "accepted"


def test_a_claim_keeps_others_away_until_it_is_released() -> None:
    case = asking().start()
    request = request_of(case).id
    assert case.give(Claim(case.id(), Actor("bea"), request)) == "accepted"
    assert code(case.give(Claim(case.id(), Actor("bob"), request))) == "CLAIMED"
    assert code(decide(case, "bob")) == "CLAIMED"
    assert code(case.give(Release(case.id(), Actor("bob"), request))) == "POLICY_DENIED"
    assert case.give(Release(case.id(), Actor("bea"), request)) == "accepted"
    assert decide(case, "bob") == "accepted"


def test_what_several_must_answer_is_not_claimed() -> None:
    case = asking(mode="all").start()
    assert code(case.give(Claim(case.id(), Actor("bea"), request_of(case).id))) == "NOT_CLAIMABLE"


def test_an_escalation_takes_it_from_whoever_claimed_it() -> None:
    case = asking(escalate={"after": "48h", "to": {"role": "cfo"}}).start()
    assert case.give(Claim(case.id(), Actor("bea"), request_of(case).id)) == "accepted"
    ring(case, 48)
    assert decide(case, "cfo") == "accepted"
    assert end_of(case) == "yes"


def test_a_claim_goes_with_the_seat_that_is_given_away() -> None:
    case = asking().start()
    request = request_of(case)
    assert case.give(Claim(case.id(), Actor("bea"), request.id)) == "accepted"
    assert case.give(Reassign(case.id(), Actor("bea"), request.id, "bea", "dan")) == "accepted"
    assert request_of(case).claimed_by is None


def test_what_an_edit_made_void_is_neither_claimed_nor_given_away() -> None:
    """The token still rests there until the edit's event is handled."""
    case = asking().start()
    request = request_of(case)
    case.requests[request.id] = request.evolve(status="void")
    for given in (
        Claim(case.id(), Actor("bea"), request.id),
        Release(case.id(), Actor("bea"), request.id),
        Reassign(case.id(), Actor("bea"), request.id, "bea", "dan"),
    ):
        assert code(case.give(given)) == "APPROVAL_VOID"


def test_a_stranger_claims_nothing() -> None:
    case = asking().start()
    assert code(case.give(Claim(case.id(), Actor("eve"), request_of(case).id))) == "POLICY_DENIED"


def test_whoever_is_asked_may_give_their_seat_to_another() -> None:
    case = asking(mode="all").start()
    given = Reassign(case.id(), Actor("bea"), request_of(case).id, "bea", "dan", None, "on leave")
    assert case.give(given) == "accepted"
    assert code(decide(case, "bea")) == "POLICY_DENIED"
    assert play(case, ("dan", "approved"), ("bob", "approved"), ("cid", "approved")) == "yes"
    old, new = (next(s for s in request_of(case).seats if s.user_id == name) for name in ("bea", "dan"))
    assert (old.status, new.replaces, new.via) == ("closed", old.id, "reassigned:bea")
    assert "bea: on leave" in (new.note or "")


@pytest.mark.parametrize(
    ("actor", "to", "refused"),
    [("bob", "dan", "POLICY_DENIED"), ("bea", "bob", "ALREADY_ASKED"), ("eve", "dan", "POLICY_DENIED")],
)
def test_not_everybody_gives_seats_to_anybody(actor: str, to: str, refused: str) -> None:
    case = asking().start()
    assert code(case.give(Reassign(case.id(), Actor(actor), request_of(case).id, "bea", to))) == refused


def test_advance_with_an_outcome_is_decide_with_all_its_rules() -> None:
    case = asking().start()
    assert code(case.advance("approved")) == "SEPARATION_OF_DUTIES"
    assert code(case.advance("approved", Actor("eve"))) == "POLICY_DENIED"
    assert case.advance("rejected", Actor("bea")) == "accepted"
    assert request_of(case).status == "rejected"


def test_an_unknown_answer_is_refused() -> None:
    assert code(decide(asking().start(), "bea", "perhaps")) == "INVALID_TRANSITION"


def test_an_answer_of_the_nodes_own_ends_the_request_as_returned() -> None:
    more = [{"id": "more", "type": "terminal"}]
    ask = {"id": "ask", "type": "approval", "assignee": {"role": "boss"}, "outcomes": ["more_information"]}
    way = {"from": "ask", "event": "more_information", "to": "more"}
    case = EngineCase(flow([ask, *ENDS, *more], [*WAYS, way]))
    case.people = {"boss": BOSSES}
    case.start()
    decide(case, "bea", "more_information")
    assert (end_of(case), request_of(case).status) == ("more", "returned")
    assert request_of(case).decisions[0].outcome == "more_information"


def test_a_decided_request_is_closed() -> None:
    case = asking().start()
    decide(case, "bea")
    assert code(decide(case, "bob")) == "WORKFLOW_NOT_ACTIVE"


def test_what_an_approver_fills_in_is_checked_field_by_field() -> None:
    form = {"cost_center": {"type": "text", "required": True}, "limit": {"type": "integer", "min": 1}}
    case = asking(form=form).start()
    outcome = decide(case, "bea", data={"limit": 0})
    assert isinstance(outcome, Rejection)
    assert {problem.path for problem in outcome.problems} == {("data", "cost_center"), ("data", "limit")}
    assert not request_of(case).decisions
    assert decide(case, "bea", data={"cost_center": "R&D"}) == "accepted"
    assert case.instance.context["cost_center"] == "R&D"


def test_a_rejection_leaves_its_reason() -> None:
    case = asking().start()
    decide(case, "bea", "rejected", reason="too dear")
    assert case.instance.context["_rejection"] == {"reason": "too dear", "by": "bea", "step": "ask"}
    assert case.step_of("ask").output["reason"] == "too dear"


def ring(case: EngineCase, hours: float) -> Offered:
    """Let time pass, and the timer of the step come."""
    case.now += timedelta(hours=hours)
    step = case.step_of("ask")
    return case.give(TimerDue(case.id(), step_id=step.id))


def due(case: EngineCase) -> Any:
    step = case.step_of("ask")
    return case.times.get(step.id, step.resume_at)


TIMEOUT = {"from": "ask", "event": "timeout", "to": "late"}


def test_time_without_an_answer_leaves_by_the_timeout_edge() -> None:
    late = {"id": "late", "type": "terminal"}
    ask = {"id": "ask", "type": "approval", "assignee": {"role": "boss"}, "timeout": "24h"}
    case = EngineCase(flow([ask, *ENDS, late], [*WAYS, TIMEOUT]))
    case.people = {"boss": BOSSES}
    case.start()
    assert due(case) == NOW + timedelta(hours=24)
    assert ring(case, 24) == "accepted"
    assert (end_of(case), request_of(case).status) == ("late", "cancelled")


@pytest.mark.parametrize(("default", "end"), [("approved", "yes"), ("rejected", "no")])
def test_a_default_decides_when_nobody_did(default: str, end: str) -> None:
    case = asking(timeout="24h", default=default).start()
    ring(case, 24)
    assert (end_of(case), request_of(case).status, request_of(case).decisions) == (end, default, ())
    assert case.step_of("ask").output["default"] == default


def test_an_escalation_asks_others_too_and_one_of_them_decides_alone() -> None:
    case = asking(mode="all", notify="email", escalate={"after": "48h", "to": {"role": "cfo"}}).start()
    assert code(decide(case, "cfo")) == "NOT_YET_ASKED"
    assert due(case) == NOW + timedelta(hours=48)
    assert ring(case, 48) == "accepted"
    assert due(case) is None
    assert [effect.payload["occasion"] for effect in case.effects] == ["asked"] * 3 + ["escalated"]
    assert play(case, ("bea", "approved"), ("cfo", "approved")) == "yes"


def test_reminders_come_again_and_again_until_somebody_answers() -> None:
    case = asking(remind="24h", notify="email", timeout="72h", default="rejected").start()
    for hours in (24, 48):
        assert due(case) == NOW + timedelta(hours=hours)
        ring(case, 24)
    assert due(case) == NOW + timedelta(hours=72)
    told = [(e.payload["to"], e.payload["occasion"]) for e in case.effects if e.payload["user"] == "bea"]
    assert told == [
        ("bea@acme.example", "asked"),
        ("bea@acme.example", "reminded"),
        ("bea@acme.example", "reminded"),
    ]
    ring(case, 24)
    assert end_of(case) == "no"


def test_without_a_channel_only_reminders_and_escalations_are_sent_by_e_mail() -> None:
    case = asking(remind="24h", escalate={"after": "36h", "to": {"role": "cfo"}}).start()
    case.give(Reassign(case.id(), Actor("bea"), request_of(case).id, "bea", "dan"))
    assert case.effects == [], "only `notify` notifies people who are asked"
    ring(case, 24)
    ring(case, 12)
    found = [(e.type, e.payload["user"], e.payload["occasion"]) for e in case.effects]
    assert ("email", "dan", "reminded") in found
    assert ("email", "cfo", "escalated") in found
    assert {occasion for _, _, occasion in found} == {"reminded", "escalated"}


def test_only_those_who_are_asked_and_have_not_answered_are_reminded() -> None:
    case = asking(
        mode="all", remind="24h", notify="email", escalate={"after": "48h", "to": {"role": "cfo"}}
    ).start()
    decide(case, "bea")
    ring(case, 24)
    reminded = [e.payload["user"] for e in case.effects if e.payload["occasion"] == "reminded"]
    assert reminded == ["bob", "cid"]


def test_reminders_that_nobody_could_send_are_not_made_up_for() -> None:
    case = asking(remind="24h", notify="email").start()
    ring(case, 100)
    assert [e.payload["occasion"] for e in case.effects].count("reminded") == 3
    assert due(case) == NOW + timedelta(hours=120)


def test_reminders_are_effects_of_their_own() -> None:
    case = asking(remind="24h", notify="email").start()
    ring(case, 24)
    ring(case, 24)
    key = case.step_of("ask").key
    assert len({effect.key(key) for effect in case.effects}) == len(case.effects) == 9


def test_person_who_gets_a_seat_back_is_told_again() -> None:
    case = asking(notify="email").start()
    for actor, to in (("bea", "dan"), ("dan", "bea")):
        case.give(Reassign(case.id(), Actor(actor), request_of(case).id, actor, to))
    key, to_bea = case.step_of("ask").key, [e for e in case.effects if e.payload["user"] == "bea"]
    assert len({effect.key(key) for effect in to_bea}) == len(to_bea) == 2


def test_in_a_flow_the_approval_consumes_itself() -> None:
    case = asking().start()
    decide(case, "bea")
    assert request_of(case).applied_at == NOW


@pytest.mark.parametrize(
    ("answers", "variable", "person"),
    [
        ([("bob", "approved")], "approved_by", "bob"),
        ([("bob", "abstained"), ("cid", "approved")], "approved_by", "cid"),
        ([("bea", "rejected")], "rejected_by", "bea"),
    ],
)
def test_variables_name_the_person_whose_decision_ended_it(answers: Any, variable: str, person: str) -> None:
    case = asking().start()
    play(case, *answers)
    assert case.instance.context[variable] == person


def test_data_of_a_decision_cannot_name_another_approver() -> None:
    case = asking().start()
    decide(case, "bob", data={"approved_by": "cid"})
    assert case.instance.context["approved_by"] == "bob"


def test_default_is_approved_by_the_system() -> None:
    case = asking(timeout="1h", default="approved").start()
    case.wait(7200)
    case.give(TimerDue(case.id(), step_id=request_of(case).step_id))
    assert case.instance.context["approved_by"] == "system"


def test_approver_is_no_originator_of_the_next_approval() -> None:
    """What the engine notes about a decision is not the approver's own contribution."""
    case = asking().start()
    play(case, ("bob", "approved"))
    assert "bob" not in case.instance.originators.ids
