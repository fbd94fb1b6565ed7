"""What ran at the same time with each resource, from the history of attempts."""

from collections.abc import Sequence
from datetime import datetime

from assent.store.database import Database
from tests.world import fetch

HISTORY = """
SELECT a.started_at, a.ended_at, t.resources, t.rate_key FROM assent.job_attempts a
  JOIN assent.jobs j ON j.org_id = a.org_id AND j.id = a.job_id
  JOIN assent.task_throttles t ON t.org_id = j.org_id AND t.id = j.throttle
 WHERE a.org_id <> 'aatwin' ORDER BY a.started_at
"""


def most_at_once(spans: Sequence[tuple[datetime, datetime]]) -> int:
    """Return how many of these spans of time were open at one instant at most; one that ends makes room at once."""
    changes = sorted([(at, 1) for at, _ in spans] + [(at, -1) for _, at in spans])
    open_now, most = 0, 0
    for _, change in changes:
        open_now += change
        most = max(most, open_now)
    return most


async def spans_by_resource(database: Database) -> dict[str, list[tuple[datetime, datetime]]]:
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    for row in await fetch(database, HISTORY):
        for name in row["resources"]:
            spans.setdefault(name, []).append((row["started_at"], row["ended_at"]))
    return spans
