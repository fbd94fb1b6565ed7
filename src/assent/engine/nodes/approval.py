"""Asks people to approve this version: finds them, waits for enough of them, and takes what they decide.

The request is the authority and the step refers to it. Who is asked is settled once, when the token arrives; nobody
to ask is a failure of the step, never a way past it.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final, cast

from assent.engine.choose import guard_against
from assent.engine.consent import Answerer, Enough, all_of_them, next_seats, seat_for, tally
from assent.engine.inputs import Advance, Decide, Input, TimerDue
from assent.engine.instance import root_id
from assent.engine.nodes.asking import Asking, messages_to
from assent.engine.nodes.base import Ask, Done, Failure, Handler, Rest, Stay
from assent.engine.nodes.filling import FilledForm
from assent.engine.nodes.waiting import deadline, timed_out
from assent.engine.programs import program
from assent.language import OPEN, Scope
from assent.model.approval import ESCALATION, Answer, Decision, Found, FoundGroup, Group, Request, Seat
from assent.model.graph import Node, Outcome
from assent.model.ids import new_id
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit

ANSWERS: Final = frozenset({"approved", "rejected", "abstained"})


class Approval(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        config = node.config
        self._amount = program(config.get("amount"), scope)
        self._tiers = [Asking(tier["groups"], scope) for tier in config["tiers"]]
        self._enough = [_enough(tier.get("enough")) for tier in config["tiers"]]
        escalate = config.get("escalate")
        self._escalation = Asking([_escalation_group(escalate)], scope) if escalate else None
        self._form = FilledForm(config.get("form", {}))
        relaxed = config.get("separation", {})
        self._may_originate = relaxed.get("originator") == "allowed"
        self._may_repeat = relaxed.get("twice") == "allowed"

    def enter(self, visit: "Visit") -> Ask | Failure:
        tier = self._tier(visit)
        if tier is None:
            return Failure("AMOUNT_MISSING", f"the amount of `{self.node.name}` is no number")
        groups = self._tiers[tier].groups(visit)
        if self._escalation is not None:
            groups = (*groups, *self._escalation.groups(visit))
        return Ask(groups)

    def answered(self, visit: "Visit", answer: Found | Rejection) -> Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        originators = self._originators(visit, answer)
        groups = [_without(group, originators) for group in answer.groups]
        needed = tuple(_group(group) for group in groups)
        empty = [g.name for g, found in zip(needed, groups, strict=True) if len(found.people) < g.needed]
        tier = self._tier(visit) or 0
        if not self._enough[tier]({g.name: g.name not in empty for g in needed if g.name != ESCALATION}):
            return Failure("NO_APPROVERS", _nobody(self.node.name, groups, empty))
        request = self._request(visit, answer, groups, needed, originators)
        request.tier = tier
        told = messages_to(visit, self._config, request, [s for s in request.seats if s.status == "open"])
        output = {"request": str(request.id), "asked": [seat.user_id for seat in request.seats]}
        return Rest(self._next_time(visit, request), output=output, effects=told, request=request)

    def resume(self, visit: "Visit", given: Input) -> Done | Stay | Rejection:
        request = self._open_request(visit)
        if isinstance(request, Rejection):
            return request
        if isinstance(given, TimerDue):
            return self._on_time(visit, request)
        if isinstance(given, Advance):
            given = Decide(given.id, given.actor, answer=given.event, data=given.data)
        if not isinstance(given, Decide):
            return super().resume(visit, given)  # type: ignore[return-value]
        return self._decide(visit, request, given)

    @property
    def _config(self) -> Any:
        return self.node.config

    def _tier(self, visit: "Visit") -> int | None:
        if self._amount is None:
            return 0
        amount = self._amount.value(visit.variables)
        if not isinstance(amount, int | float):
            return None
        limits = [tier.get("up_to") for tier in self._config["tiers"]]
        return next(i for i, limit in enumerate(limits) if limit is None or amount <= limit)

    def _originators(self, visit: "Visit", found: Found) -> frozenset[str]:
        """Whoever asked, began it, or wrote any of it; the system is nobody."""
        if self._may_originate:
            return frozenset()
        return (found.contributors | {visit.actor.id, visit.instance.subject_id}) - {"system"}

    def _request(
        self,
        visit: "Visit",
        found: Found,
        groups: list[FoundGroup],
        needed: tuple[Group, ...],
        originators: frozenset[str],
    ) -> Request:
        entity, now = visit.world.entity, visit.now
        due = self._config.get("due") or next((g.due_seconds for g in groups if g.due_seconds), None)
        request = Request(
            org_id=visit.instance.org_id,
            id=new_id(now),
            instance_id=visit.instance.id,
            step_id=visit.step_id,
            node_id=self.node.id,
            token_id=visit.step_token_id,
            generation=int(root_id(visit.token.id)),
            slot=visit.plan.workflow.slot_map.get(self.node.id, ""),
            entity_version=entity.version if entity else 0,
            groups=needed,
            requested_by=visit.actor.id,
            originators=originators,
            created_at=now,
            partition_id=visit.instance.partition_id,
            chain_id=found.chain_id,
            mode=needed[0].mode if len(needed) == 1 else "groups",
            due_at=now + timedelta(seconds=due) if due else None,
            skipped=tuple(skipped for group in groups for skipped in group.skipped),
            is_new=True,
        )
        if entity is not None:
            inbox = self._config.get("inbox", {})
            request.entity_type, request.entity_id = entity.type, entity.id
            request.snapshot_version_id, request.content_hash = entity.version_id, entity.content_hash
            request.title, request.figure = (
                entity.data.get(inbox.get(key, "")) for key in ("title", "figure")
            )
        request.put_seats(_seats(groups, now))
        request.set_seats({seat.id: "open" for seat in next_seats(request)})
        return request

    def _open_request(self, visit: "Visit") -> Request | Rejection:
        request = visit.world.requests.get(cast(Any, visit.token.step_id))
        if request is None or request.status == "cancelled":
            return Rejection("APPROVAL_VOID", "the request is not open any more", ("request_id",))
        if request.status == "void":
            message = f"the request is void: {request.reason}"
            return Rejection(
                "APPROVAL_VOID", message, ("request_id",), hint="a new one asks about what it is now"
            )
        return request

    def _decide(self, visit: "Visit", request: Request, given: Decide) -> Done | Stay | Rejection:
        own = self._config.get("outcomes", ())
        if given.answer not in ANSWERS and given.answer not in own:
            known = ", ".join((*sorted(ANSWERS), *own))
            message = f"`{given.answer}` is not an answer to `{self.node.name}`; possible: {known}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        seat = self._seat(visit, request, given)
        if isinstance(seat, Rejection):
            return seat
        data, problems = self._form.check(given.data)
        if problems:
            return Rejection.of(problems)
        _record(visit, request, seat, given, given.answer in own)
        return self._after(visit, request, given, data)

    def _seat(self, visit: "Visit", request: Request, given: Decide) -> Seat | Rejection:
        if missing := [name for name in self.node.capabilities if not given.actor.can(name)]:
            message = f"`{self.node.name}` takes {', '.join(missing)}"
            return Rejection("POLICY_DENIED", message, ("actor",))
        if denied := guard_against(visit, given.answer):
            return denied
        delegations = visit.world.delegations.get(given.actor.id, ())
        workflow = visit.plan.workflow.key
        usable = [d for d in delegations if not d.workflows or workflow in d.workflows]
        who = Answerer(given.actor, usable, given.on_behalf_of, given.group)
        return seat_for(request, who, _siblings(visit, request), may_repeat=self._may_repeat)

    def _after(self, visit: "Visit", request: Request, given: Decide, data: dict[str, Any]) -> Done | Stay:
        if given.answer in self._config.get("outcomes", ()):
            request.end("returned", visit.now, given.reason)
            return self._done(visit, request, given.answer, data)
        decided = tally(request, self._enough[request.tier])
        if decided is not None:
            request.end(decided, visit.now, given.reason if decided == "rejected" else None)
            return self._done(visit, request, decided, data)
        turn = next_seats(request)
        request.set_seats({seat.id: "open" for seat in turn})
        told = messages_to(visit, self._config, request, turn)
        return Stay(self._next_time(visit, request), told)

    def _done(self, visit: "Visit", request: Request, outcome: str, data: dict[str, Any]) -> Done:
        """The gate of its slot consumes an approval; where there is none, the step itself does (D21)."""
        slot = visit.plan.workflow.slots.get(request.slot)
        if outcome == "approved" and (slot is None or not slot.ends_in_gate):
            request.applied_at = visit.now
        output: dict[str, Any] = {"request": str(request.id), "decisions": _told(request)}
        if request.reason:
            output["reason"] = request.reason
        sets = dict(data)
        if outcome == Outcome.REJECTED:
            sets["_rejection"] = {"reason": request.reason, "by": visit.actor.id, "step": self.node.name}
        return Done(outcome, output, sets)

    def _on_time(self, visit: "Visit", request: Request) -> Done | Stay:
        end = self._end(visit, request)
        if end is not None and visit.now >= end:
            return self._out_of_time(visit, request)
        told: tuple[Any, ...] = ()
        later = [seat for seat in request.seats_of(ESCALATION) if seat.status == "later"]
        if later and visit.now >= self._escalates_at(request):
            request.set_seats({seat.id: "open" for seat in later})
            told += messages_to(visit, self._config, request, later, "escalated")
        remind = self._config.get("remind")
        if remind and visit.now >= request.created_at + timedelta(seconds=remind):
            asked = [seat for seat in request.seats if seat.status == "open" and seat not in later]
            told += messages_to(visit, self._config, request, asked, "reminded")
        return Stay(self._next_time(visit, request), told)

    def _out_of_time(self, visit: "Visit", request: Request) -> Done:
        default = self._config.get("default")
        if default is None:
            return timed_out()
        request.end(default, visit.now, "nobody answered in time")
        done = self._done(visit, request, default, {})
        return replace(done, output={**done.output, "timed_out": True, "default": default})

    def _next_time(self, visit: "Visit", request: Request) -> datetime | None:
        """The next moment at which something is due here: the end, an escalation, a reminder."""
        times = [self._end(visit, request)]
        if any(seat.status == "later" for seat in request.seats_of(ESCALATION)):
            times.append(self._escalates_at(request))
        if remind := self._config.get("remind"):
            rounds = (visit.now - request.created_at) // timedelta(seconds=remind) + 1
            times.append(request.created_at + rounds * timedelta(seconds=remind))
        return min((time for time in times if time is not None), default=None)

    def _end(self, visit: "Visit", request: Request) -> datetime | None:
        return deadline(visit, request.created_at)

    def _escalates_at(self, request: Request) -> datetime:
        return request.created_at + timedelta(seconds=self._config["escalate"]["after"])


def _enough(text: str | None) -> Enough:
    read = program(text, OPEN)
    return all_of_them if read is None else read.holds


def _escalation_group(escalate: Any) -> dict[str, Any]:
    return {"name": ESCALATION, "approvers": escalate["to"], "mode": "any"}


def _without(group: FoundGroup, originators: frozenset[str]) -> FoundGroup:
    people = tuple(person for person in group.people if person.user_id not in originators)
    left_out = ({"user_id": p.user_id, "why": "originator"} for p in group.people if p.user_id in originators)
    return replace(group, people=people, skipped=(*group.skipped, *left_out))


def _group(found: FoundGroup) -> Group:
    count = len(found.people)
    needed = {
        "any": 1,
        "all": max(count, 1),
        "sequence": max(count, 1),
        "quorum": found.quorum or 1,
        "percentage": max(ceil(count * (found.quorum or 100) / 100), 1),
    }
    return Group(found.name, found.mode, needed[found.mode], found.stage)


def _nobody(name: str, groups: list[FoundGroup], empty: list[str]) -> str:
    skipped = [f"{s['user_id']} ({s['why']})" for group in groups for s in group.skipped]
    left_out = f"; left out: {', '.join(skipped)}" if skipped else ""
    return f"`{name}` finds not enough people to ask in {', '.join(empty)}{left_out}"


def _seats(groups: list[FoundGroup], now: datetime) -> list[Seat]:
    return [
        Seat(new_id(now), person.user_id, group.name, position, person.via, "later", person.email)
        for group in groups
        for position, person in enumerate(group.people, start=1)
    ]


def _siblings(visit: "Visit", request: Request) -> list[Request]:
    """The other requests of the same round: one slot, one generation."""
    found = visit.world.requests.values()
    return [
        r for r in found if r is not request and (r.slot, r.generation) == (request.slot, request.generation)
    ]


def _record(visit: "Visit", request: Request, seat: Seat, given: Decide, is_own: bool) -> None:
    behalf = seat.user_id if seat.user_id != given.actor.id else None
    answer = cast(Answer, "returned" if is_own else given.answer)
    request.add_decision(
        Decision(
            new_id(visit.now),
            seat.id,
            given.actor.id,
            answer,
            visit.now,
            behalf,
            given.reason,
            given.answer if is_own else None,
        )
    )
    names = {given.actor.id, seat.user_id}
    others = [s for s in request.seats if s.user_id in names and s.status in ("open", "later")]
    request.set_seats({other.id: "closed" for other in others})


def _told(request: Request) -> list[dict[str, Any]]:
    return [
        {
            "by": decision.approver_id,
            **({"for": decision.on_behalf_of} if decision.on_behalf_of else {}),
            "answer": decision.outcome or decision.answer,
            **({"reason": decision.reason} if decision.reason else {}),
        }
        for decision in request.decisions
    ]
