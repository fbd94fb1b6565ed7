"""The database counts agreement as the engine does: over every course of answers to a request of three groups."""

from itertools import count, permutations, product
from typing import Any
from uuid import uuid4

from assent.approvals.requests import write_requests
from assent.engine.consent import tally
from assent.model.approval import ApprovalRequest, Decision, Group, RequestChanges, Seat
from assent.model.ids import new_id
from tests.postgres import START
from tests.rows import insert_instance

GROUPS = (Group("a", "any", 1), Group("b", "all", 2), Group("escalation", "any", 1))
SEATS = (("ann", "a"), ("abe", "a"), ("bea", "b"), ("bob", "b"), ("eve", "escalation"))
ENOUGH = ({"all": ["a", "b"]}, {"any": ["a", "b"]}, "b")
ORDERS = tuple(permutations(range(3), 3))
_ROUNDS = count()
COUNT = """
SELECT id, 'escalation' = ANY (agreed) OR assent.is_enough(approvers -> 'enough', agreed) AS is_approved
  FROM assent.approval_requests r, assent.agreed_groups(r) agreed
"""


def _asked(instance_id: Any, enough: Any, answers: dict[int, str]) -> ApprovalRequest:
    """A request in a round of its own whose seats have answered in this order; it stays open, whatever they said."""
    request = ApprovalRequest(
        org_id="acme",
        id=uuid4(),
        instance_id=instance_id,
        step_id=uuid4(),
        node_id="ask",
        requested_by="zoe",
        created_at=START,
        token_id="0",
        generation=next(_ROUNDS),
        groups=GROUPS,
        enough=enough,
        seats=tuple(
            Seat(new_id(START), user, group, number, "user") for number, (user, group) in enumerate(SEATS)
        ),
    )
    for number, answer in answers.items():
        seat = request.seats[number]
        request = request.decide(Decision(new_id(START), seat.id, seat.user_id, answer, START))  # type: ignore[arg-type]
    return request


def _courses() -> list[dict[int, str]]:
    """Three of the seats answer, in every order and with every answer; and the first of them alone."""
    said = ("approved", "rejected", "abstained")
    trios = [(0, 1, 2), (0, 2, 3), (1, 3, 4)]
    whole = [
        dict(zip([trio[place] for place in order], answers, strict=True))
        for trio in trios
        for order in ORDERS
        for answers in product(said, repeat=3)
    ]
    return [*whole, *({seat: answer} for seat in range(5) for answer in said)]


def _holds(enough: Any, agreed: Any) -> bool:
    if isinstance(enough, str):
        return bool(agreed[enough])
    ((how, parts),) = enough.items()
    return (all if how == "all" else any)(_holds(part, agreed) for part in parts)


def _verdict(request: ApprovalRequest) -> str | None:
    return tally(request, lambda agreed: _holds(request.enough, agreed))


def _was_open(instance_id: Any, enough: Any, answers: dict[int, str]) -> bool:
    """Whether the last answer came in time: before it, nothing was decided."""
    before = dict(list(answers.items())[:-1])
    return _verdict(_asked(instance_id, enough, before)) is None


async def test_database_and_engine_count_the_same(acme):
    instance_id = (await insert_instance(acme))["id"]
    asked = [
        _asked(instance_id, enough, given)
        for enough, given in product(ENOUGH, _courses())
        if _was_open(instance_id, enough, given)
    ]
    expected = {request.id: _verdict(request) == "approved" for request in asked}
    await write_requests(acme, [RequestChanges.between(None, request) for request in asked], START)
    found = await acme.fetch(COUNT)
    assert {row["id"]: row["is_approved"] for row in found} == expected
    assert set(expected.values()) == {True, False}
