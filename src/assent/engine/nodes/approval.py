"""Asks people to approve this version: finds them, waits for enough of them, and takes what they decide.

The request is the authority and the step refers to it. The people are found once, when the token arrives; without any
the step fails, and is never passed.
"""

from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, cast

from assent.engine.consent import (
    Enough,
    SeatRules,
    all_of_them,
    can_be_filled,
    fillers,
    idle_seats,
    next_seats,
    not_open,
    seat_for,
    separate,
    sitting_in,
    tally,
)
from assent.engine.edges import guard_against
from assent.engine.inputs import Advance, Decide, Input, TimerDue
from assent.engine.nodes.asking import (
    ApproverGroups,
    Deadlines,
    FilledForm,
    messages_to,
    new_request,
    no_people_failure,
    without_originators,
)
from assent.engine.nodes.base import Done, Failure, FindPeople, Handler, Rest, Stay, timed_out
from assent.engine.programs import program
from assent.language import OPEN, Scope
from assent.model.actor import SYSTEM_ID
from assent.model.approval import ESCALATION, Answer, ApprovalRequest, Decision, FoundPeople, Seat
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.ids import new_id
from assent.model.mutation import Rejection
from assent.model.terms import DECISION_VARIABLES

if TYPE_CHECKING:
    from assent.engine.visit import Visit

ANSWERS: Final = ("approved", "rejected", "abstained")


class Approval(Handler):
    kind = NodeKind.APPROVAL

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        config = node.config
        escalation = [_escalation_group(config["escalate"])] if "escalate" in config else []
        self._amount = program(config.get("amount"), scope)
        self._tiers = [ApproverGroups([*tier["groups"], *escalation], scope) for tier in config["tiers"]]
        self._enough = [_enough(tier.get("enough")) for tier in config["tiers"]]
        self._own_answers = tuple(config.get("outcomes", ()))
        self._form = FilledForm(config.get("form", {}))
        self._patience = Deadlines(node)
        relaxed = config.get("separation", {})
        self._may_originate = relaxed.get("originator") == "allowed"
        self._may_repeat = relaxed.get("twice") == "allowed"

    def enter(self, visit: "Visit") -> FindPeople | Failure:
        tier = self._tier(visit)
        if tier is None:
            return Failure("AMOUNT_MISSING", f"the amount of `{self.node.name}` is no number")
        sitting = frozenset() if self._may_repeat else frozenset(sitting_in(visit.round))
        return FindPeople(self._tiers[tier].groups(visit), sitting=sitting)

    def answered(self, visit: "Visit", answer: FoundPeople | Rejection) -> Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        originators, tier = self._originators(visit, answer), self._tier(visit) or 0
        others = visit.round
        groups = without_originators(answer, originators, set() if self._may_repeat else fillers(others))
        request = new_request(visit, answer, groups, originators, tier, may_repeat=self._may_repeat)
        if not can_be_filled([request, *others]):
            return Failure("NO_APPROVERS", no_people_failure(self.node.name, groups, others))
        asked = [seat for seat in request.seats if seat.status == "open"]
        messages = messages_to(visit, self.node.config, request, asked)
        output: dict[str, Any] = {"request": str(request.id), "asked": [seat.user_id for seat in asked]}
        if expressions := self._explain(visit, tier):
            output["expressions"] = expressions
        return Rest(self._patience.next_time(visit, request), output=output, creates=(request, *messages))

    def resume(self, visit: "Visit", command: Input) -> Done | Stay | Rejection:
        request = _open_request(visit)
        if isinstance(request, Rejection):
            return request
        if isinstance(command, TimerDue):
            return self._on_time(visit, request)
        if isinstance(command, Advance):
            command = Decide(command.id, command.actor, request.id, command.event, data=command.data)
        if not isinstance(command, Decide):
            return super().resume(visit, command)  # type: ignore[return-value]
        return self._decide(visit, request, command)

    def _tier(self, visit: "Visit") -> int | None:
        if self._amount is None:
            return 0
        amount = _number(self._amount.value(visit.variables))
        if amount is None:
            return None
        limits = [tier.get("up_to") for tier in self.node.config["tiers"]]
        return next(i for i, limit in enumerate(limits) if limit is None or amount <= limit)

    def _explain(self, visit: "Visit", tier: int) -> dict[str, Any]:
        """Return why these people are asked, where expressions say so: by group, and the amount of the tier."""
        amount = {"amount": self._amount(visit.variables).to_json()} if self._amount is not None else {}
        return {**self._tiers[tier].explain(visit), **amount}

    def _originators(self, visit: "Visit", found: FoundPeople) -> frozenset[str]:
        """Return the people on whose behalf it began, was written, filled in or submitted; none of them approves."""
        if self._may_originate:
            return frozenset()
        people = {*visit.instance.originators.ids, visit.instance.subject_id}
        return (found.contributors | people) - {SYSTEM_ID}

    def _decide(self, visit: "Visit", request: ApprovalRequest, command: Decide) -> Done | Stay | Rejection:
        possible = (*ANSWERS, *self._own_answers)
        if command.answer not in possible:
            message = (
                f"`{command.answer}` is not an answer to `{self.node.name}`; possible: {', '.join(possible)}"
            )
            return Rejection("INVALID_TRANSITION", message, ("event",))
        seat = self._seat(visit, request, command)
        if isinstance(seat, Rejection):
            return seat
        if needed := self._needed_elsewhere(visit, request, seat, command):
            return needed
        data, problems = self._form.check(command.data)
        if problems:
            return Rejection.of(problems)
        decided = request.decide(_decision(visit, seat, command))
        visit.world.put(decided)
        if not request.may_repeat:
            for one in _without_seats(visit.round, {command.actor.id, seat.user_id}):
                visit.world.put(one)
        return self._after(visit, visit.world.requests[request.step_id], command, data)

    def _seat(self, visit: "Visit", request: ApprovalRequest, command: Decide) -> Seat | Rejection:
        if missing := [name for name in self.node.capabilities if not command.actor.can(name)]:
            return Rejection("POLICY_DENIED", f"`{self.node.name}` takes {', '.join(missing)}", ("actor",))
        if denied := guard_against(visit, command.answer):
            return denied
        seating = SeatRules.of(visit.world, visit.plan.workflow.key, request, visit.round)
        return seat_for(seating, command.actor.id, command.on_behalf_of, command.group)

    def _needed_elsewhere(
        self, visit: "Visit", request: ApprovalRequest, seat: Seat, command: Decide
    ) -> Rejection | None:
        """Refuse a decision of a person who is needed for another seat of the round, which the decision would close."""
        names = {command.actor.id, seat.user_id}
        others = [] if request.may_repeat else _seats_of(visit.round, names, but=seat)
        if not others:
            return None
        tried = request.decide(_decision(visit, seat, command))
        ends = command.answer in self._own_answers or tally(tried, self._enough[request.tier]) == "rejected"
        after = _without_seats([tried if one.id == request.id else one for one in visit.round], names)
        if ends or can_be_filled(after):
            return None
        stuck = next((r for r in after if not can_be_filled([r])), request)
        there = {s.id for s in stuck.seats}
        needed = min({s.user_id for s in others if s.id in there} or {s.user_id for s in others})
        return separate(
            f"{needed} is needed for another seat of `{stuck.node_name}`, which no other member could fill"
        )

    def _after(
        self, visit: "Visit", request: ApprovalRequest, command: Decide, data: dict[str, Any]
    ) -> Done | Stay:
        if command.answer in self._own_answers:
            return _done(visit, request.end("returned", visit.now, command.reason), command.answer, data)
        decided = tally(request, self._enough[request.tier])
        if decided is not None:
            reason = command.reason if decided == "rejected" else None
            return _done(visit, request.end(decided, visit.now, reason), decided, data)
        request = request.set_seats({seat.id: "closed" for seat in idle_seats(request)})
        turn = next_seats(request)
        request = request.set_seats({seat.id: "open" for seat in turn})
        visit.world.put(request)
        messages = messages_to(visit, self.node.config, request, turn)
        return Stay(self._patience.next_time(visit, request), messages)

    def _on_time(self, visit: "Visit", request: ApprovalRequest) -> Done | Stay:
        if self._patience.is_over(visit, request):
            return self._out_of_time(visit, request)
        reminded, escalated = (
            find(visit, request) for find in (self._patience.reminded, self._patience.escalated)
        )
        if escalated:
            # A claim does not bind the people of the escalation.
            request = request.set_seats({seat.id: "open" for seat in escalated}).unclaim()
            visit.world.put(request)
        messages = messages_to(visit, self.node.config, request, escalated, "escalated")
        round_now = self._patience.round(visit, request)
        messages += messages_to(
            visit, self.node.config, request, reminded, "reminded", round_of_reminders=round_now
        )
        return Stay(self._patience.next_time(visit, request), messages)

    def _out_of_time(self, visit: "Visit", request: ApprovalRequest) -> Done:
        default = self.node.config.get("default")
        if default is None:
            return timed_out()
        done = _done(visit, request.end(default, visit.now, "not answered in time"), default, {})
        return replace(done, output={**done.output, "timed_out": True, "default": default})


def _number(value: Any) -> Decimal | None:
    """Return an amount as a decimal; fields of decimals hold text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _enough(text: str | None) -> Enough:
    read = program(text, OPEN)
    return all_of_them if read is None else read.holds


def _escalation_group(escalate: Any) -> dict[str, Any]:
    return {"name": ESCALATION, "approvers": escalate["to"], "mode": "any"}


def _open_request(visit: "Visit") -> ApprovalRequest | Rejection:
    request = visit.world.requests.get(cast(Any, visit.token.step_id))
    if request is None:
        return not_open(None, None, None)
    is_open = request.status == "pending"
    return request if is_open else not_open(request.id, request.status, request.reason)


def _decision(visit: "Visit", seat: Seat, command: Decide) -> Decision:
    is_own = command.answer not in ANSWERS
    return Decision(
        new_id(visit.now),
        seat.id,
        command.actor.id,
        cast(Answer, "returned" if is_own else command.answer),
        visit.now,
        seat.user_id if seat.user_id != command.actor.id else None,
        command.reason,
        command.answer if is_own else None,
    )


def _seats_of(requests: list[ApprovalRequest], names: set[str], but: Seat) -> list[Seat]:
    seats = [seat for request in requests if request.status == "pending" for seat in request.seats]
    return [s for s in seats if s.user_id in names and s.status in ("open", "later") and s.id != but.id]


def _without_seats(requests: list[ApprovalRequest], names: set[str]) -> list[ApprovalRequest]:
    """Return requests without the open seats of people who have filled one, by themselves or through another."""
    return [request.close_seats(names) for request in requests]


def _done(visit: "Visit", request: ApprovalRequest, outcome: str, data: dict[str, Any]) -> Done:
    """End the step with its request. The gate of its slot consumes an approval; without a gate, the step does (D21)."""
    slot = visit.plan.workflow.slots.get(request.slot)
    if outcome == "approved" and (slot is None or not slot.ends_in_gate):
        request = request.evolve(applied_at=visit.now, applied_step_id=request.step_id)
    visit.world.put(request)
    output: dict[str, Any] = {"request": str(request.id), "decisions": _decisions_json(request)}
    if request.reason:
        output["reason"] = request.reason
    by = visit.by.id if visit.by else SYSTEM_ID
    sets = dict(data)
    if variable := DECISION_VARIABLES.get(outcome):
        sets[variable] = by
    if outcome == Outcome.REJECTED:
        sets["_rejection"] = {
            "reason": request.reason,
            "by": by,
            "step": visit.node.node.name,
        }
    return Done(outcome, output, sets)


def _decisions_json(request: ApprovalRequest) -> list[dict[str, Any]]:
    return [
        {
            "by": decision.approver_id,
            **({"for": decision.on_behalf_of} if decision.on_behalf_of else {}),
            "answer": decision.outcome or decision.answer,
            **({"reason": decision.reason} if decision.reason else {}),
        }
        for decision in request.decisions
    ]
