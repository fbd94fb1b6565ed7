"""When enough have agreed, against every way in which it could go on: decided exactly when nothing can change it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import product
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from assent.engine.consent import tally
from assent.model.approval import Answer, ApprovalRequest, Decision, Group, Mode, Seat

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MODES: tuple[Mode, ...] = ("any", "all", "quorum", "percentage", "sequence")
ANSWERS: tuple[Answer, ...] = ("approved", "rejected", "abstained")
NAMES = ("a", "b", "c")

Formula = Callable[[Mapping[str, bool]], bool]


@st.composite
def groups(draw: st.DrawFn) -> tuple[Group, ...]:
    found = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        mode, size = draw(st.sampled_from(MODES)), draw(st.integers(1, 3))
        needed = {"any": 1, "all": size, "sequence": size}.get(mode) or draw(st.integers(1, size))
        # The stage carries the size here, and nothing else: tallying does not look at it.
        found.append(Group(name, mode, needed, stage=size))
    return tuple(found)


@st.composite
def formulas(draw: st.DrawFn, names: tuple[str, ...]) -> list[list[str]]:
    """Alternatives of groups: enough is any one of them, whole."""
    return draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=3), min_size=1, max_size=3))


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Group, ...], list[list[str]], list[tuple[int, Answer]]]:
    found = draw(groups())
    seats = sum(group.stage for group in found)
    order = draw(st.permutations(range(seats)))
    count = draw(st.integers(0, seats))
    answers = [(seat, draw(st.sampled_from(ANSWERS))) for seat in order[:count]]
    return found, draw(formulas(tuple(group.name for group in found))), answers


def request_with(found: tuple[Group, ...], answers: list[tuple[int, Answer]]) -> ApprovalRequest:
    owners = [group.name for group in found for _ in range(group.stage)]
    seats = [Seat(UUID(int=n), f"user-{n}", owner, n, "user") for n, owner in enumerate(owners)]
    request = ApprovalRequest(
        "acme", UUID(int=99), UUID(int=1), UUID(int=2), "ask", "ann", NOW, entity_version=1, groups=found
    ).put_seats(seats)
    for number, (seat, answer) in enumerate(answers):
        decision = Decision(UUID(int=100 + number), UUID(int=seat), f"user-{seat}", answer, NOW)
        request = request.decide(decision)
    return request


def agreed(group: Group, answers: list[Answer]) -> bool:
    """What a mode means, said once more and plainly."""
    if group.mode == "any":
        spoken = [answer for answer in answers if answer != "abstained"]
        return spoken[:1] == ["approved"]
    return answers.count("approved") >= group.needed


def satisfied(found: tuple[Group, ...], formula: list[list[str]], answers: list[tuple[int, Answer]]) -> bool:
    owners = [group.name for group in found for _ in range(group.stage)]
    holds = {g.name: agreed(g, [a for seat, a in answers if owners[seat] == g.name]) for g in found}
    return any(all(holds[name] for name in alternative) for alternative in formula)


@given(cases())
def test_it_is_decided_exactly_when_no_answer_can_change_it(
    case: tuple[tuple[Group, ...], list[list[str]], list[tuple[int, Answer]]],
) -> None:
    found, formula, answers = case
    request = request_with(found, answers)
    verdict = tally(request, lambda holds: any(all(holds[n] for n in names) for names in formula))
    if satisfied(found, formula, answers):
        assert verdict == "approved"
        return
    open_seats = [seat.position for seat in request.seats if seat.status == "open"]
    futures = product(ANSWERS, repeat=len(open_seats))
    can_be = any(satisfied(found, formula, [*answers, *zip(open_seats, f, strict=True)]) for f in futures)
    assert verdict == (None if can_be else "rejected")
