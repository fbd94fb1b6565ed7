"""The application that the scenarios of this folder are about: the library's contracts, and what an ERP adds to them.

assent test tests/scenarios --app tests.scenarios.application:app
"""

from typing import Any

from assent.app import App
from assent.model.mutation import Entity
from tests.scenarios.templates import read

WITH_CONTRACTS = ("invoice_approval", "sales_order_fulfilment", "amendment_loop", "delivery_confirmation")
INVENTORY: dict[str, Any] = {
    "contract": "inventory",
    "version": 1,
    "workflow": "none",
    "fields": {
        "stock": {"type": "integer", "required": True},
        "reserved": {"type": "boolean"},
        "backordered": {"type": "boolean"},
    },
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}},
    "permissions": {"create": ["warehouse"], "reserve": ["sales"]},
}
ANOMALIES = {"f-odd": 2}
ROYALTY = 125_000

app = App([INVENTORY, *(read(name, "contract.yaml") for name in WITH_CONTRACTS)])


@app.action("invoice.post", payload={"posted_at": {"type": "datetime"}})
def post(invoice: Entity, payload: dict[str, Any]) -> dict[str, Any]:
    return dict(payload)


@app.action("inventory.reserve")
def reserve(inventory: Entity, payload: dict[str, Any]) -> dict[str, Any]:
    """Take one from the stock; without stock nothing is promised, below zero a backorder exists."""
    stock = inventory.data["stock"]
    if stock > 0:
        return {"stock": stock - 1, "reserved": True, "backordered": False}
    return {"reserved": False, "backordered": stock < 0}


@app.operation("royalties.generate_statement")
def generate_statement(connection: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    franchisee = arguments["franchisee"]
    if franchisee == "f-unknown":
        raise LookupError(f"there is no franchisee {franchisee}")
    url = f"https://royalties.example/{franchisee}.pdf"
    return {"url": url, "amount": ROYALTY, "anomalies": ANOMALIES.get(franchisee, 0)}
