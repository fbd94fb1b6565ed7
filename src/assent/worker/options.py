"""How the worker works: limits and intervals, each with its unit in its name, all by environment variable."""

from collections.abc import Collection
from typing import Final, Literal

from pydantic_settings import SettingsConfigDict

from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number

SWEEPS: Final = ("stuck", "partitions", "prune", "indexes", "compact", "retention")
"""Duties that go through large tables."""

StuckRepair = Literal["none", "rebuild", "reenqueue", "force_fail"]

MACHINE: Final = "auto"

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


def _interval(default_ms: int) -> int:
    return number(default_ms, 10, _DAY_MS)  # type: ignore[no-any-return]


def _batch(default: int) -> int:
    return number(default, 1, 100_000)  # type: ignore[no-any-return]


class Options(EnvironmentSettings):
    """Options of the worker; the field `grace_period_ms` is the variable `ASSENT_WORKER_GRACE_PERIOD_MS`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_WORKER_")

    grace_period_ms: int = number(25_000, 0, _HOUR_MS)
    """How long running work may go on after a signal to stop; orchestrators kill after 30 s."""
    jitter_percent: int = number(20, 0, 100)
    """By how much an interval varies, so that workers that were started together do not stay together."""
    backoff_min_ms: int = number(500, 1, _HOUR_MS)
    backoff_max_ms: int = number(60_000, 1, _HOUR_MS)
    """How long a duty waits after an error: doubling from the one to the other."""
    run_timeout_ms: int = number(300_000, 1, _DAY_MS)
    """How long one run of a duty may take before it is cut off; what it has not committed is rolled back."""
    sweep_timeout_ms: int = number(1_800_000, 1, _DAY_MS)
    """The same for a run of `stuck`, `partitions`, `prune`, `indexes`, `compact` and `retention`."""
    sweep_pause_ms: int = number(50, 0, 60_000)
    """Between two batches of a sweep that has more to do."""
    report_interval_ms: int = _interval(60_000)
    """How often the log says what a duty did."""

    names_interval_ms: int = _interval(60_000)
    """How often a worker says what its application declares."""
    newer_code_wait_ms: int = number(900_000, 1_000, _DAY_MS)
    """How long older workers leave what they do not know to newer code, after that was seen for the last time."""

    host_name: str = MACHINE
    """What the process calls its host; `auto` for the name of the machine."""
    nodes_interval_ms: int = _interval(15_000)
    """How often a process says that it runs; after three times as long without a word it is taken for lost."""
    nodes_lost_kept_ms: int = number(_DAY_MS, 1_000, 30 * _DAY_MS)
    """How long a process that was lost is listed."""

    events_interval_ms: int = _interval(1_000)
    events_batch_max: int = _batch(200)
    events_lanes: int = number(2, 1, 64)
    """Batches at a time: while one waits for the database, another decides."""

    timers_interval_ms: int = _interval(1_000)
    timers_batch_max: int = _batch(500)

    timeouts_interval_ms: int = _interval(5_000)
    timeouts_batch_max: int = _batch(500)

    schedules_interval_ms: int = _interval(5_000)
    schedules_batch_max: int = _batch(100)
    """Schedules whose tasks are submitted in one transaction."""
    schedules_on_time_ms: int = number(60_000, 1_000, _DAY_MS)
    """A time of a schedule that no worker has seen for so long was missed; `missed: skip` starts no task for it."""

    validity_interval_ms: int = _interval(60_000)
    validity_batch_max: int = _batch(200)
    """Documents that lapse in one transaction."""

    blobs_interval_ms: int = _interval(15_000)
    blobs_batch_max: int = _batch(100)
    """Files that are deleted in one run."""

    recovered_interval_ms: int = _interval(15_000)
    recovered_batches_max: int = _batch(100)

    lease_ms: int = number(60_000, 1_000, _DAY_MS)
    """A worker that says nothing for so long is taken for gone; its tasks, effects and results are given to others."""
    rescue_interval_ms: int = _interval(15_000)
    rescue_batch_max: int = _batch(500)

    unblock_interval_ms: int = _interval(5_000)
    unblock_batch_max: int = _batch(500)
    """Tasks that are resumed in one transaction."""

    effects_interval_ms: int = _interval(1_000)
    effects_under_way_max: int = number(100, 1, 10_000)
    """Attempts at a time in one process."""
    effects_per_destination_max: int = number(8, 1, 10_000)
    """Attempts at a time to one destination, of all processes together."""

    results_interval_ms: int = _interval(1_000)
    results_batch_max: int = _batch(200)
    """Bundles that are folded in one transaction, and requests that are ended in one."""

    tasks_interval_ms: int = _interval(1_000)
    tasks_under_way_max: int = number(200, 1, 10_000)
    """Attempts at a time in one process; each that is a plain function has a thread."""
    tasks_lanes: int = number(2, 1, 64)
    """Batches at a time: while one waits for the database, another runs."""
    resources: str = "*"
    """The resources that it can reach, separated by commas; tasks that use others are left to other workers."""
    tasks_backoff_min_ms: int = number(1_000, 1, _HOUR_MS)
    tasks_backoff_max_ms: int = number(_HOUR_MS, 1, _DAY_MS)
    """How long a task waits after an attempt that failed: doubling from the one to the other."""

    alerts_interval_ms: int = _interval(15_000)
    alerts_batch_max: int = _batch(50)
    """Orgs whose alerts are made in one transaction."""

    digests_interval_ms: int = _interval(60_000)
    digests_batch_max: int = _batch(200)
    """Members whose daily mail is made in one transaction."""

    stuck_interval_ms: int = _interval(300_000)
    stuck_after_ms: int = number(900_000, 1_000, 30 * _DAY_MS)
    stuck_findings_max: int = _batch(100)
    stuck_repair: StuckRepair = "none"
    """What is done about a finding: `none` (a person decides), or one of the three repairs by its name."""

    partitions_interval_ms: int = _interval(_HOUR_MS)
    partitions_months_ahead: int = number(3, 1, 60)

    prune_interval_ms: int = _interval(_HOUR_MS)
    prune_after_days: int = number(90, 1, 36_500)
    prune_instances_max: int = _batch(200)
    """Ended instances whose receipts are deleted in one batch."""
    prune_rows_max: int = _batch(5_000)
    """Completed rows of an outbox that are deleted in one batch."""
    prune_kept_events_after_days: int = number(90, 1, 36_500)
    """How long an event that no instance waits for is kept for the first that will."""
    prune_kept_events_per_key_max: int = number(1_000, 1, 1_000_000)
    """How many of them under one key; the oldest stay, for they are found first."""

    indexes_interval_ms: int = _interval(5_000)
    indexes_entities_max: int = _batch(1_000)
    """Entities that are looked at in one batch, of every type; those of the type that is indexed are locked for it."""

    compact_interval_ms: int = _interval(6 * _HOUR_MS)
    compact_after_months: int = number(12, 1, 1_200)
    compact_steps_max: int = _batch(2_000)
    """Steps that are looked at in one batch."""

    retention_interval_ms: int = _interval(_HOUR_MS)
    retention_instances_max: int = _batch(100)

    def reachable(self, declared: Collection[str]) -> frozenset[str]:
        """Return those of the application's resources that this worker can reach."""
        if self.resources.strip() == "*":
            return frozenset(declared)
        named = {name.strip() for name in self.resources.split(",") if name.strip()}
        if unknown := sorted(named - set(declared)):
            raise Invalid([self.bad("resources", f"the application declares no resource `{unknown[0]}`")])
        return frozenset(named)

    def run_limit_s(self, duty: str) -> float:
        """Return how long one run of this duty may take."""
        return (self.sweep_timeout_ms if duty in SWEEPS else self.run_timeout_ms) / 1000
