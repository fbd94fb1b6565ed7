"""What a step asks of an outside party, and what it makes of the results that have decided it."""

from typing import TYPE_CHECKING, Any, Final

from assent.engine.inputs import Input, RequestDecided
from assent.engine.nodes.awaiting import done_with
from assent.engine.nodes.base import Done, Failure
from assent.engine.nodes.waiting import deadline, timed_out
from assent.engine.programs import Values
from assent.model.graph import Outcome
from assent.model.ids import derived_id
from assent.model.outside_request import OutsideRequest

if TYPE_CHECKING:
    from assent.engine.visit import Visit

REQUEST_FAILED: Final = "REQUEST_FAILED"
REQUEST_EXPIRED: Final = "REQUEST_EXPIRED"


def new_request(visit: "Visit", arguments: dict[str, Any]) -> OutsideRequest:
    """What is asked now; the node's time is the request's. Headers may hold secrets, and are no arguments."""
    instance, node = visit.instance, visit.node.node
    return OutsideRequest(
        org_id=instance.org_id,
        id=derived_id("outside_request", visit.key),
        instance_id=instance.id,
        step_id=visit.step_id,
        node_id=node.id,
        token_id=visit.token.id,
        name=f"{visit.plan.workflow.key}.{node.name}",
        created_at=visit.now,
        arguments=arguments,
        expected=node.config.get("expects", 1),
        expires_at=deadline(visit),
        partition_id=instance.partition_id,
        entity_type=instance.entity_type,
        entity_id=instance.entity_id,
    )


def read_results(visit: "Visit", given: Input, output: Values) -> Done | Failure | None:
    """What the request's end makes of the step; none where something else came."""
    if not isinstance(given, RequestDecided):
        return None
    if given.status == "completed":
        return done_with(visit, given.result, output)
    if given.status == "expired":
        return _expired(visit, given)
    return Failure(REQUEST_FAILED, given.error or f"`{visit.node.node.name}` was told that it failed")


def _expired(visit: "Visit", given: RequestDecided) -> Done | Failure:
    if Outcome.TIMEOUT in visit.node.answers:
        return timed_out()
    return Failure(REQUEST_EXPIRED, given.error or f"`{visit.node.node.name}` had no results in its time")
