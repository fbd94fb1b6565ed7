"""What no scenario may leave behind, however it went: a position that its steps do not tell, a question to nobody."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assent.testing import Sandbox
from tests.world import rows

ENDED = ("completed", "failed", "cancelled")
ASKING = ("pending", "partial", "open", "later")

Row = Mapping[str, Any]


async def what_remains(sandbox: Sandbox) -> list[str]:
    """Everything that is wrong with what a scenario left behind."""
    instances = await rows(sandbox.database, "workflow_instances")
    steps = {row["id"]: row for row in await rows(sandbox.database, "workflow_step_executions")}
    requests = {row["id"]: row for row in await rows(sandbox.database, "approval_requests")}
    forms = {row["id"]: row for row in await rows(sandbox.database, "workflow_forms")}
    seats = await rows(sandbox.database, "workflow_seats")
    ended = {row["id"] for row in instances if row["status"] in ENDED}
    found = [told for row in instances if (told := await _misplaced(sandbox, row))]
    found += _unsettled("step", steps.values(), lambda step: step["instance_id"] not in ended)
    found += _unsettled("request", requests.values(), lambda row: _rests(steps[row["step_id"]]))
    found += _unsettled("form", forms.values(), lambda row: _rests(steps[row["id"]]))
    outside = await rows(sandbox.database, "outside_requests")
    found += _unsettled("request", outside, lambda row: _rests(steps[row["step_id"]]))
    jobs = [row for row in await rows(sandbox.database, "jobs") if row["kind"] == "result"]
    found += [f"a result is left {row['status']}: {row}" for row in jobs if row["status"] != "done"]
    asked = requests | forms
    found += _unsettled("seat", seats, lambda seat: asked[seat["request_id"]]["status"] in ASKING)
    unused = [row for row in requests.values() if row["status"] == "approved" and row["applied_at"] is None]
    return [*found, *(f"an approval is left over: {row}" for row in unused if row["instance_id"] in ended)]


async def _misplaced(sandbox: Sandbox, instance: Row) -> str | None:
    """The projection is what the steps make (WF-15), and whoever has ended is nowhere."""
    kept, folded = await sandbox.runtime.org(sandbox.org_id).operations.fold(instance["id"])
    if kept != folded:
        return f"{instance['workflow_id']} is kept as {kept}, and its steps make {folded}"
    return (
        f"{instance['workflow_id']} has ended, with {kept.tokens}" if kept.has_ended and kept.tokens else None
    )


def _rests(step: Row) -> bool:
    return bool(step["status"] == "pending")


def _unsettled(what: str, found: Iterable[Row], may_ask: Any) -> Iterator[str]:
    """Whatever asks somebody is settled with whatever it belongs to."""
    for row in found:
        if row["status"] in ASKING and not may_ask(row):
            yield f"a {what} is left {row['status']}: {dict(row)}"
