"""A nightly job that waits for the file of the day, is retried, and ends as a dead letter if it cannot be done.

TILL_FOLDER=tills python examples/nightly_report.py                               # the API and a worker
assent members add ann --org acme --role manager
assent instances start reports.nightly --app nightly_report:app --org acme --as ann --key nightly
"""

import csv
import os
from pathlib import Path

import assent

NIGHTLY = {
    "flow": "reports.nightly",
    "version": 1,
    "start": "night",
    "steps": [
        # The event `reports:stop` ends the flow; without it the next night begins after a day.
        {"id": "night", "type": "wait", "key": "reports:stop", "timeout": "24h", "on_timeout": "report"},
        # The flow does not wait for the task: a night that fails does not delay the next one.
        {"id": "report", "type": "task", "task": "reports.sales", "await": False},
        {"id": "stopped", "type": "terminal"},
    ],
    "transitions": [
        {"from": "report", "to": "night"},
        {"from": "night", "to": "stopped"},
    ],
}

app = assent.App().add(NIGHTLY)


@app.task("reports.sales", attempts_max=4, timeout="5m")
def sales(task: assent.TaskContext) -> dict[str, int | str]:
    """Return the sum of the day's sales in cents; a plain function runs in a thread of its own.

    The day is that of the submission, so that it is the same at every attempt.
    """
    day = task.submitted_at.date()
    path = Path(os.environ["TILL_FOLDER"]) / f"{day}.csv"
    if not path.exists():
        raise assent.Retry(f"{path.name} is not there yet", after="30m")  # dead after the fourth attempt
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        return {"day": str(day), "cents": sum(int(row["cents"]) for row in rows)}
    except (KeyError, ValueError) as error:
        # Dead at once. An operator repairs the file, then POST /api/tasks/{id}/retry.
        raise assent.GiveUp(f"{path.name} is unreadable: {error!r}") from error


if __name__ == "__main__":
    app.run(org="acme")
