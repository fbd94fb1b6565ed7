"""The library's templates, made ready to run: forms stand in for approvals and scripts for messages.

The engine does not run approvals and effects yet; everything else of a template is as it is shipped.
"""

from pathlib import Path
from typing import Any

from assent import templates
from assent.compiler.source import read_source
from assent.model.actor import SYSTEM
from assent.runtime import Runtime
from assent.runtime.definitions import publish_contract, publish_flow, publish_patch
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import Workplace
from assent.worker.timeouts import Timeouts
from assent.worker.timers import Timers
from tests.runtime.flows import ORG, drain

LIBRARY = Path(templates.__file__).parent


def read(name: str, file: str) -> Any:
    return read_source((LIBRARY / name / file).read_bytes(), file).value(())


def stand_in(node: dict[str, Any], *, waives: bool = False) -> dict[str, Any]:
    times = () if "default" in node else ("timeout", "on_timeout")  # only approvals decide by themselves
    kept = {key: node[key] for key in ("id", *times) if key in node}
    if node["type"] == "approval":
        return {**kept, "type": "form", "waives_approval": waives}
    if node["type"] == "notification":
        return {"id": node["id"], "type": "script", "set": {f"told_{node['id']}": "true"}}
    return node


async def publish_entity(database: Database, name: str) -> None:
    """A template's contract and its patch."""
    patch = read(name, "patch.yaml")
    for name_of_slot, slot in patch["slots"].items():
        needed = name_of_slot == "slot:submitted_to_approved"
        slot["nodes"] = [stand_in(node, waives=needed) for node in slot["nodes"]]
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await publish_contract(connection, read(name, "contract.yaml"), SYSTEM, now)
        await publish_patch(connection, ORG, patch, SYSTEM, now)


async def publish_template_flow(database: Database, name: str) -> None:
    flow = read(name, "flow.yaml")
    # In a flow `action` is the form.
    flow["steps"] = [
        {**step, "type": "action"} if step["type"] == "form" else step
        for step in map(stand_in, flow["steps"])
    ]
    async with database.transaction(None) as connection:
        await publish_flow(connection, ORG, flow, SYSTEM, database.clock.now())


async def pass_time(runtime: Runtime, clock: MovedClock, duration: str) -> None:
    """Let time pass, and the worker's duties find out."""
    clock.advance(duration)
    place = Workplace(runtime.database)
    for duty in (Timers(place), Timeouts(place)):
        await duty.run_once()
    await drain(runtime)


def waiting(view: Any) -> list[str]:
    return sorted(waiting.name for waiting in view.waiting)
