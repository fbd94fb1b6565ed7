"""Keeping count: tallies for people, the journal for logs, options from the environment."""

import logging

import pytest

from assent.cli.output import console
from assent.cli.worker_table import WorkerTable
from assent.model.problems import Invalid
from assent.worker.duty import DutyRun, RunResult
from assent.worker.journal import Journal, Tallies
from assent.worker.options import Options
from tests.settings import read_from


class Stopwatch:
    """A clock in seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def run(count: int = 1, error: Exception | None = None, **parts: int) -> DutyRun:
    return DutyRun("prune", 0.5, RunResult(count, parts=parts), error)


def test_tally_sums_runs_of_all_lanes():
    tallies = Tallies(["prune", "timers"])
    for each in (run(2, events=2), run(0), run(5, events=1, effects=4), run(0, RuntimeError("away"))):
        tallies(each)
    tally = tallies.by_duty["prune"]
    assert tally.to_json() == {
        "count": 7,
        "runs": 4,
        "errors": 1,
        "parts": {"events": 3, "effects": 4},
        "error": "away",
    }
    assert tally.busy_s == 2.0
    assert tallies.by_duty["timers"].runs == 0


def test_rate_is_that_of_the_last_seconds():
    clock = Stopwatch()
    tallies = Tallies(["prune"], clock)
    tallies(run(100))
    clock.now_s = 5
    tallies(run(50))
    assert tallies.rates() == {"prune": 15.0}
    clock.now_s = 12
    assert tallies.rates() == {"prune": 5.0}
    clock.now_s = 60
    assert tallies.rates() == {"prune": 0.0}


def test_tally_that_nobody_looks_at_does_not_grow():
    clock = Stopwatch()
    tallies = Tallies(["prune"], clock)
    for second in range(1_000):
        clock.now_s = second
        tallies(run())
    assert len(tallies.by_duty["prune"]._recent) < 20


def test_journal_sums_up_instead_of_writing_every_batch(caplog: pytest.LogCaptureFixture):
    clock = Stopwatch()
    journal = Journal(60, clock)
    with caplog.at_level(logging.INFO, "assent.worker"):
        for second in range(0, 121, 10):
            clock.now_s = second
            journal(run(3, events=3))
        journal.close()
    told = [(record.duty, record.runs, record.count, record.parts) for record in caplog.records]  # type: ignore[attr-defined]
    assert told == [("prune", 7, 21, {"events": 21}), ("prune", 6, 18, {"events": 18})]


def test_journal_does_not_speak_of_duties_that_did_nothing(caplog: pytest.LogCaptureFixture):
    clock = Stopwatch()
    journal = Journal(1, clock)
    with caplog.at_level(logging.INFO, "assent.worker"):
        for second in range(10):
            clock.now_s = second
            journal(run(0))
        journal.close()
    assert caplog.records == []


def test_errors_are_worth_a_line_also_where_nothing_was_done(caplog: pytest.LogCaptureFixture):
    journal = Journal(60, Stopwatch())
    with caplog.at_level(logging.INFO, "assent.worker"):
        journal(run(0, RuntimeError("away")))
        journal.close()
    assert [(record.count, record.errors) for record in caplog.records] == [(0, 1)]  # type: ignore[attr-defined]


def test_every_option_is_a_variable_and_every_bad_one_is_told_at_once():
    given = {"ASSENT_WORKER_PRUNE_AFTER_DAYS": "30", "ASSENT_WORKER_STUCK_REPAIR": "force_fail"}
    options = read_from(Options, given)
    assert (options.prune_after_days, options.stuck_repair) == (30, "force_fail")
    with pytest.raises(Invalid) as caught:
        read_from(Options, {"ASSENT_WORKER_PRUNE_AFTER_DAYS": "0", "ASSENT_WORKER_EVENTS_LANES": "x"})
    assert [problem.where for problem in caught.value.problems] == [
        "ASSENT_WORKER_EVENTS_LANES",
        "ASSENT_WORKER_PRUNE_AFTER_DAYS",
    ]


def test_defaults_are_those_that_the_design_asks_for():
    options = Options()
    assert (options.prune_after_days, options.compact_after_months) == (90, 12)
    assert options.stuck_repair == "none"


def test_errors_of_a_duty_are_a_number_in_red_and_no_markup():
    tallies = Tallies(["prune"], Stopwatch())
    tallies(run(error=ValueError("no")))
    screen = console()
    with screen.capture() as shown:
        screen.print(WorkerTable(tallies))
    assert shown.get().split()[-5:] == ["prune", "1", "0.1", "1", "1"]
