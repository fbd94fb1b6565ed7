"""How many of our files a person's command passes through over HTTP: a reader opens them all.

Counted by tracing the second command of its kind. What everything shares, `model/` and `telemetry/`, is left out.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.http.application import INVOICE_DATA
from tests.http.callers import People

SOURCE = Path(__file__).parents[2] / "src" / "assent"
SHARED = ("model/", "telemetry/")
SUBMIT_FILES_MAX = 89
DECIDE_FILES_MAX = 83


@contextmanager
def traced() -> Iterator[set[str]]:
    """Inside, note the files whose functions are called, and the `.sql` files whose statements are sent."""
    paths: set[str] = set()
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            paths.add(frame.f_code.co_filename)
            if frame.f_code.co_name == "__getattr__" and "_source" in dir(frame.f_locals.get("self")):
                package, _, name = frame.f_locals["self"]._source.rpartition("/")
                paths.add(str(SOURCE.parent / package.replace(".", "/") / name))

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        ours = (path.removeprefix(f"{SOURCE}/") for path in paths if path.startswith(str(SOURCE)))
        found |= {path for path in ours if not path.startswith(SHARED)}


async def files_of_an_invoice(people: People) -> dict[str, set[str]]:
    async with people("alice") as client:
        created = await client.post("/api/entities/invoice", json={"data": INVOICE_DATA})
        with traced() as submit:
            moved = await client.post(f"{created.headers['location']}/transitions/submit")
    request_id = moved.json()["instance"]["steps"][0]["request_id"]
    async with people("fin") as client:
        with traced() as decide:
            decided = await client.post(f"/api/approvals/{request_id}/decide", json={"answer": "approved"})
    assert decided.json()["request"]["status"] == "approved"
    return {"submit": submit, "decide": decide}


async def test_way_of_a_command_does_not_grow(people: People) -> None:
    await files_of_an_invoice(people)  # from now on definitions and contracts are known
    found = await files_of_an_invoice(people)
    assert "engine/nodes/approval.py" in found["decide"]
    assert "approvals/approvals.sql" in found["decide"]
    assert len(found["submit"]) <= SUBMIT_FILES_MAX, sorted(found["submit"])
    assert len(found["decide"]) <= DECIDE_FILES_MAX, sorted(found["decide"])
