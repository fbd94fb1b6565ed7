"""Folding results into a request, with nothing running."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.model.outside_request import parse_bundle
from assent.requests.deliveries import Delivery, Folded, decided, fold
from tests.requests.bundles import item


def delivery(number: int, *items, **rest) -> Delivery:
    bundle, problems = parse_bundle({"key": f"k{number}", "items": list(items), **rest})
    assert bundle is not None, problems
    return Delivery(UUID(int=number), bundle)


@pytest.mark.parametrize(
    ("expected", "received", "failed", "said", "status"),
    [
        (1, 1, 0, "completed", "completed"),
        (2, 3, 0, "completed", "completed"),
        (2, 1, 0, "completed", "partial"),
        (2, 1, 1, "completed", "partial"),
        (2, 1, 9, "completed", "partial"),
        (2, 0, 1, "completed", "pending"),
        (2, 0, 2, "completed", "failed"),
        (2, 0, 0, "failed", "failed"),
        (2, 1, 0, "failed", "failed"),
        (2, 1, 0, "expired", "expired"),
        (2, 2, 0, "failed", "completed"),
    ],
)
def test_where_a_request_stands(expected, received, failed, said, status):
    assert decided(expected, received, failed, said) == status


def test_a_mixed_bundle_is_partial_and_counts_apart():
    found = fold(Folded(2), [delivery(1, item(1), item(2, status="failed", error="blurred"))], ())
    assert (found.status, found.received, found.failed, found.error) == ("partial", 1, 1, "blurred")


def test_cargo_that_is_known_or_comes_twice_counts_once():
    bundles = [delivery(1, item(1), item(1)), delivery(2, item(1), item(2)), delivery(3, item(3))]
    found = fold(Folded(5), bundles, {"external://vault/3"})
    assert (found.received, found.status) == (2, "partial")
    assert [new.item.cargo for new in found.items] == ["external://vault/1", "external://vault/2"]


def test_what_was_said_of_a_cargo_first_holds():
    found = fold(Folded(1), [delivery(1, item(1, status="failed")), delivery(2, item(1))], ())
    assert (found.status, found.received, found.late) == ("failed", 0, [UUID(int=2)])


def test_what_comes_after_the_end_is_late_and_counts_for_nothing():
    found = fold(Folded(1), [delivery(1, item(1)), delivery(2, item(2)), delivery(3, status="failed")], ())
    assert (found.status, found.received, found.late) == ("completed", 1, [UUID(int=2), UUID(int=3)])


ITEMS = st.builds(
    lambda cargo, status: {"status": status} | ({"cargo": f"external://v/{cargo}"} if cargo else {}),
    st.integers(0, 4),
    st.sampled_from(["failed", "expired"]),
) | st.builds(lambda cargo: {"cargo": f"external://v/{cargo}"}, st.integers(1, 4))


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.lists(ITEMS, min_size=1, max_size=4), st.sampled_from(["completed", "failed"]))),
    st.data(),
)
def test_one_batch_or_many_give_the_same(expected, bundles, data):
    """Where the worker cuts its batches changes nothing."""
    deliveries = [delivery(n, *items, status=status) for n, (items, status) in enumerate(bundles)]
    whole = fold(Folded(expected), deliveries, ())
    parted, known = Folded(expected), set()
    rest = deliveries
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        fold(parted, rest[:size], known)
        known = {new.item.cargo for new in parted.items if new.item.cargo}
        rest = rest[size:]
    assert parted == whole
    received = {new.item.cargo for new in whole.items if new.item.status == "completed"}
    assert (whole.received, len(whole.items)) == (len(received), whole.received + whole.failed)
    assert (whole.status == "completed") == (whole.received >= expected)
