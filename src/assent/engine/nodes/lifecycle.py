"""Kinds of node that a contract generates: states, where the token of an entity rests, and the gates between them."""

from typing import TYPE_CHECKING

from assent.engine.edges import choose, guard_against
from assent.engine.inputs import Advance, Input
from assent.engine.instance import root_id
from assent.engine.nodes.base import Done, Failure, Handler, Mutate, Rest
from assent.model.approval import ApprovalRequest
from assent.model.graph import NodeKind, Outcome
from assent.model.mutation import Mutation, Rejection
from assent.model.policy import check_policy

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class StateNode(Handler):
    """Goes on by itself where the graph says so, else rests."""

    kind = NodeKind.STATE

    def enter(self, visit: "Visit") -> Done | Rest:
        return Done() if "completed" in visit.node.answers else Rest()

    def resume(self, visit: "Visit", incoming: Input) -> Done | Rejection:
        if not isinstance(incoming, Advance) or incoming.event not in visit.node.answers:
            known = ", ".join(sorted(visit.node.answers)) or "nothing"
            event = getattr(incoming, "event", type(incoming).__name__)
            message = f"`{event}` is not possible in state {self.node.name}; possible: {known}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        contract = visit.plan.contract
        if contract is not None and (denied := check_policy(contract, incoming.event, visit.actor)):
            return denied
        if denied := guard_against(visit, incoming.event):
            return denied
        return Done(incoming.event, {"command": incoming.event}, dict(incoming.data))


class LifecycleGateNode(Handler):
    """Makes its transition; a token that comes with a rejection leads back to where the contract says.

    It consumes the approvals of its slot and generation, all of them or none (D21, WF-03). One that an edit has made
    void since counts as a rejection: this content was not approved.
    """

    kind = NodeKind.LIFECYCLE_GATE

    def enter(self, visit: "Visit") -> Done | Mutate | Failure:
        entity = visit.world.entity
        if entity is None:
            return Failure("ENTITY_MISSING", f"gate `{self.node.name}` needs an entity")
        outcome = self._outcome(visit)
        passes = outcome == Outcome.COMPLETED
        approvals = _approvals(visit) if passes else ()
        if passes and self.node.config.get("approval") and not approvals and not _is_waived(visit):
            return Failure("APPROVAL_MISSING", f"`{self.node.name}` needs an approval, and there is none")
        if passes and (denied := _requester_denied(visit, str(self.node.config["transition"]))):
            return Failure.refused(denied)
        target, why = self._target(visit, outcome), _why(visit, outcome)
        if target is None or (target == entity.state and not approvals):
            return Done(outcome, why)
        transition = {"transition": str(self.node.config["transition"])}
        return Mutate(
            f"{entity.type}.transition",
            transition,
            grant=True,
            to_state=target,
            consumes=approvals,
            reason=why.get("reason"),
        )

    def answered(self, visit: "Visit", answer: Mutation | Rejection) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure.refused(answer)
        entity = answer.entity
        output = {"mutation": answer.to_output(), "entity_version": entity.version, "state": entity.state}
        consumed = [str(request.id) for request in _round(visit) if request.applied_at == visit.now]
        if consumed:
            output["consumed"] = consumed
        outcome = self._outcome(visit)
        return Done(outcome, {**output, **_why(visit, outcome)})

    def _outcome(self, visit: "Visit") -> str:
        if Outcome.REJECTED not in visit.node.answers:
            return Outcome.COMPLETED
        rejected = visit.token.carry == Outcome.REJECTED or _is_void(visit)
        return Outcome.REJECTED if rejected else Outcome.COMPLETED

    def _target(self, visit: "Visit", outcome: str) -> str | None:
        """Return the next state; None if a rejection leaves the entity where it is."""
        if outcome == Outcome.COMPLETED:
            return str(self.node.config["to"])
        edge, _ = choose(visit, Outcome.REJECTED, visit.variables)
        node = visit.plan.nodes[edge.target].node if edge else None
        return node.config.get("state") if node else None


def _requester_denied(visit: "Visit", transition: str) -> Rejection | None:
    """Ask the right to this transition again of the person who asked for it: there may have been a wait since."""
    authority, contract = visit.token.authority, visit.plan.contract
    if contract is None or authority.command != transition:
        return None
    return check_policy(contract, transition, visit.world.actor_of(authority.requester))


def _why(visit: "Visit", outcome: str) -> dict[str, str]:
    """Return the reason of a rejection, for the step and the audit log."""
    if outcome == Outcome.COMPLETED:
        return {}
    if visit.token.carry != Outcome.REJECTED:
        return {"reason": "it was edited after it was approved"}
    reason = (visit.instance.context.get("_rejection") or {}).get("reason")
    return {"reason": str(reason)} if reason else {}


def _round(visit: "Visit") -> list[ApprovalRequest]:
    """Return the newest request of each node in the slots that lead here, in the generation of the token."""
    slots = {slot.id for slot in visit.plan.workflow.slots.values() if slot.exit == visit.node.id}
    generation = int(root_id(visit.token.id))
    asked = [r for r in visit.world.requests.values() if r.slot in slots and r.generation == generation]
    return list({request.node_id: request for request in sorted(asked, key=lambda r: r.id)}.values())


def _approvals(visit: "Visit") -> tuple[ApprovalRequest, ...]:
    return tuple(r for r in _round(visit) if r.status == "approved" and r.applied_at is None)


def _is_void(visit: "Visit") -> bool:
    entity = visit.world.entity
    asked = [r for r in _round(visit) if r.status in ("approved", "void") and r.applied_at is None]
    return any(r.status == "void" or (entity and r.content_hash != entity.content_hash) for r in asked)


def _is_waived(visit: "Visit") -> bool:
    return bool(visit.instance.context.get("_waived") == int(root_id(visit.token.id)))
