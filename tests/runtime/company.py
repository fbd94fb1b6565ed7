"""What the tests of definitions publish: the design's contract, patch and flow, and variations of them."""

from typing import Any

from assent.model.actor import Actor
from assent.model.contract import Contract
from tests.authored import invoice_contract

ANN = Actor("ann", roles=frozenset({"clerk"}))

SLOT = "slot:submitted_to_approved"


def contract(version: int = 1, **changes: Any) -> Contract:
    """The design's invoice under another version."""
    return invoice_contract().model_copy(update={"version": version, **changes})


def patch(name: str = "invoice", envelope_version: int = 1, **approval: Any) -> dict[str, Any]:
    """A patch that asks one person before the gate."""
    ask = {"id": "ask", "type": "approval", "approvers": {"role": "finance_manager"}, **approval}
    edges = [{"from": "in", "to": "ask"}, {"from": "ask", "to": "out", "on": "approved"}]
    base = {"entity_type": "invoice", "envelope_version": envelope_version}
    return {"patch": name, "base": base, "slots": {SLOT: {"nodes": [ask], "edges": edges}}}


def flow(version: int = 1, key: str = "hello", **changes: Any) -> dict[str, Any]:
    """A flow of one step, which somebody fills in."""
    steps = [{"id": "ask", "type": "action"}, {"id": "done", "type": "terminal"}]
    arrows = [{"from": "ask", "to": "done"}]
    return {"flow": key, "version": version, "start": "ask", "steps": steps, "transitions": arrows, **changes}
