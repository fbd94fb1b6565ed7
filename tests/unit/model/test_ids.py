"""Ids sort by time; keys are equal exactly when what they name is the same."""

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from uuid import RFC_4122, UUID

from assent.model.ids import IdSource, derived_id, effect_key, event_key, join_key, new_id, step_key

NOW = datetime(2026, 5, 4, 3, 2, 1, 500_000, tzinfo=UTC)
A, B = UUID(int=1), UUID(int=2)


def test_an_id_is_a_uuid_of_version_7_with_its_time() -> None:
    made = new_id(NOW)
    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 >= int(NOW.timestamp() * 1000)
    assert (made, hash(made), repr(made)) == (UUID(str(made)), hash(UUID(str(made))), repr(UUID(str(made))))


def test_ids_of_one_instant_are_distinct_and_in_order() -> None:
    source = IdSource()
    ids = [source.new(NOW) for _ in range(10_000)]
    assert all(earlier < later for earlier, later in pairwise(ids))


def test_a_clock_that_goes_back_does_not_break_the_order() -> None:
    source = IdSource()
    ids = [source.new(NOW + timedelta(seconds=offset)) for offset in (0, 1, -5, 0, 2)]
    assert ids == sorted(ids)


def test_a_later_time_gives_a_later_id_whatever_the_source() -> None:
    assert IdSource().new(NOW) < IdSource().new(NOW + timedelta(milliseconds=1))


def test_each_part_of_a_key_counts() -> None:
    keys = [
        step_key(A, "n", "t", 1),
        step_key(B, "n", "t", 1),
        step_key(A, "m", "t", 1),
        step_key(A, "n", "u", 1),
        step_key(A, "n", "t", 2),
        join_key(A, "n", 1, "0"),
        join_key(A, "n", 1, "1"),
        event_key(A, "on_create", {}, 1),
        event_key(A, "on_create", {"a": 1}, 1),
        event_key(A, "on_create", {}, 2),
        effect_key("a", "email", {}),
        effect_key("a", "sms", {}),
        effect_key("b", "sms", {}),
        effect_key("b", "sms", {"a": 1}),
    ]
    assert all(one != other for one, other in combinations(keys, 2))


def test_key_of_a_step_never_changes() -> None:
    """Receipts outlive releases: another key for the same step would let it be done again."""
    made = step_key(A, "sys:gate:approve", "0/3.1!2", 12)
    assert made == "0f8af4f75c9027b981d2f2531c39a37f720597eafd7ab1ec29181e5061aab6d8"


def test_parts_do_not_run_into_each_other() -> None:
    assert step_key(A, "ab", "c", 1) != step_key(A, "a", "bc", 1)
    assert step_key(A, "a", "1:b", 1) != step_key(A, "a1:", "b", 1)


def test_payloads_that_are_equal_as_json_have_one_key() -> None:
    assert event_key(A, "e", {"a": 1, "b": 2}, 1) == event_key(A, "e", {"b": 2, "a": 1.0}, 1)


def test_derived_id_is_a_uuid_of_its_parts_alone() -> None:
    found = derived_id("outside_request", "k")
    assert (found.version, found.variant) == (8, "specified in RFC 4122")
    assert found == derived_id("outside_request", "k")
    assert len({found, derived_id("outside_request", "l"), derived_id("other", "k")}) == 3
