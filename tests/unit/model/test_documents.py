"""Requirements, as values: what satisfies a condition, what stands in the way, and every order of moves."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.model.document import (
    DocumentGroup,
    DocumentRequirement,
    IllegalMove,
    RejectionCode,
    WantedDocument,
    is_hopeless,
    is_met,
    satisfies,
    unmet,
)
from assent.model.moves import REQUIREMENT_MOVES

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
BLURRED = RejectionCode("UNREADABLE", "quality", "It is blurred.", "OCR failed.", "Send a clear image.")
FORGED = RejectionCode(
    "FORGED", "authenticity", "It needs a look.", "Forged.", "We call you.", retryable=False
)
ORDER = ("missing", "requested", "received", "in_qa", "verified")
PASSPORT = WantedDocument("passport", "c-1", "verified")


def requirement(**columns) -> DocumentRequirement:
    return DocumentRequirement(
        "acme", UUID(int=1), "c-1", columns.pop("doc_type", "passport"), NOW, **columns
    )


@pytest.mark.parametrize("min_state", ORDER[1:])
def test_failed_states_never_satisfy_and_final_ones_always_do(min_state):
    assert not satisfies("rejected", min_state)
    assert not satisfies("expired", min_state)
    assert satisfies("waived", min_state)
    assert satisfies("verified", min_state)


def test_each_state_satisfies_itself_and_those_before_it():
    found = {(one, other): satisfies(one, other) for one in ORDER for other in ORDER}
    assert found == {(one, other): ORDER.index(one) >= ORDER.index(other) for one in ORDER for other in ORDER}


def test_no_requirement_is_not_enough():
    assert not PASSPORT.is_met_by(None, NOW)


@pytest.mark.parametrize(
    ("days_ago", "status", "met"), [(89, "verified", True), (91, "verified", False), (91, "waived", True)]
)
def test_a_document_that_is_too_old_does_not_do_and_a_waiver_has_no_age(days_ago, status, met):
    row = requirement(status=status, satisfied_at=NOW - timedelta(days=days_ago))
    assert WantedDocument("passport", "c-1", "verified", 90).is_met_by(row, NOW) is met


@pytest.mark.parametrize(("valid_to", "met"), [(NOW.date(), True), (NOW.date() - timedelta(days=1), False)])
def test_a_document_is_valid_on_its_last_day(valid_to, met):
    row = requirement(status="verified", satisfied_at=NOW, valid_to=valid_to)
    assert PASSPORT.is_met_by(row, NOW) is met


def test_any_of_a_group_will_do_and_all_of_it_stands_in_the_way():
    licence = WantedDocument("licence", "c-1", "received")
    group = DocumentGroup(True, (PASSPORT, licence))
    rows = {("c-1", "passport"): requirement(status="in_qa")}
    assert list(unmet(group, rows, NOW)) == [PASSPORT, licence]
    rows["c-1", "licence"] = requirement(doc_type="licence", status="received")
    assert is_met(group, rows, NOW)
    assert not is_met(DocumentGroup(False, group.parts), rows, NOW)


def test_a_group_is_hopeless_when_no_part_of_it_can_come():
    licence = WantedDocument("licence", "c-1", "received")
    one, both = frozenset({PASSPORT.place}), frozenset({PASSPORT.place, licence.place})
    for is_any, lost, hopeless in ((True, one, False), (True, both, True), (False, one, True)):
        assert is_hopeless(DocumentGroup(is_any, (PASSPORT, licence)), {}, NOW, lost) is hopeless


def test_what_the_client_reads_says_what_was_wrong_and_what_to_do():
    assert BLURRED.message() == "It is blurred. Send a clear image."
    german = RejectionCode(
        "UNREADABLE",
        "quality",
        "Blurred.",
        "OCR.",
        "Again.",
        translations={"de": {"client_message": "Unscharf."}},
    )
    assert german.message("de") == "Unscharf. Again."
    assert german.message("fr") == "Blurred. Again."


MOVES = {
    "ask": lambda row: [row.ask(uuid4(), uuid4(), NOW)],
    "arrive": lambda row: row.arrive(uuid4(), uuid4(), NOW) or [row.receive(uuid4(), uuid4(), NOW)],
    "require": lambda row: [row.requiring("verified")],
    "begin_review": lambda row: [row.begin_review()],
    "verify": lambda row: [row.verify(NOW, date(2030, 1, 1))],
    "reject": lambda row: [row.reject(BLURRED, "blurred")],
    "reject_for_good": lambda row: [row.reject(FORGED, None)],
    "expire": lambda row: [row.expire()],
    "waive": lambda row: [row.waive("olga", NOW)],
    "reset": lambda row: [row.reset()],
}


@given(
    moves=st.lists(st.sampled_from(sorted(MOVES)), max_size=40),
    required_state=st.sampled_from(["received", "verified"]),
)
def test_any_order_of_moves_keeps_to_the_table_and_says_what_its_status_means(moves, required_state):
    values = [requirement(required_state=required_state)]
    for name in moves:
        try:
            values += MOVES[name](values[-1])
        except IllegalMove:
            continue
    for before, after in pairwise(values):
        assert after is before or after.revision == before.revision + 1
        assert after.status == before.status or after.status in REQUIREMENT_MOVES[before.status]
        begins_again = after.status in ("missing", "expired") and after.status != before.status
        assert begins_again or after.attempt_count >= before.attempt_count
    for row in values:
        is_there = row.required_state == "received" and row.status in ("received", "in_qa")
        assert (row.satisfied_at is not None) == (is_there or row.status in ("verified", "waived"))
        assert (row.waived_by is not None) == (row.status == "waived")
        assert row.status != "requested" or row.request_id is not None
        assert row.status != "rejected" or row.rejection_code is not None
        assert row.status not in ("received", "in_qa", "verified") or row.version_id is not None
        assert row.can_be_asked_again == (
            row.has_attempts and (row.rejection is None or row.rejection.retryable)
        )
