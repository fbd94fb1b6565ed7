"""The application that the scenarios of this folder are about: what an ERP adds to the library's templates.

assent test tests/scenarios --app tests.scenarios.application:app
"""

from typing import Any

from assent.app import App
from assent.model.mutation import Entity, Refused, Rejection
from tests.scenarios.templates import read

WITH_ACTIONS = ("invoice_approval", "return_credit_note")
"""Whose contracts must be known here, for the actions; scenarios bring the others with them."""
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
ACCOUNTS = {"acc-open": True, "acc-closed": False}
BLOCKED = "@blocked.example"

app = App([INVENTORY, *(read(name, "contract.yaml") for name in WITH_ACTIONS)])


@app.action("invoice.post", payload={"posted_at": {"type": "datetime"}})
def post(invoice: Entity, payload: dict[str, Any]) -> dict[str, Any]:
    return dict(payload)


@app.action("credit_note.credit", payload={"credited_at": {"type": "datetime"}})
def credit(credit_note: Entity, payload: dict[str, Any]) -> dict[str, Any]:
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


@app.operation("settlements.validate")
def validate(connection: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    account = arguments["account"]
    if account not in ACCOUNTS:
        raise Refused(Rejection("UNKNOWN_ACCOUNT", f"the ledger has no account {account}"))
    return {"valid": ACCOUNTS[account]}


@app.operation("users.activate")
def activate(connection: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    email = arguments["email"]
    if email.endswith(BLOCKED):
        raise Refused(Rejection("BLOCKED", f"{email} is on the list of blocked addresses"))
    return {"user_id": f"u-{email}"}


# Calls of other companies' systems, which the effects worker makes; scenarios speak for those with `reply`.
@app.operation("payments.refund", outside=True)
def refund(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    return {"refund_id": f"r-{key}"}


@app.operation("orders.process", outside=True)
def process(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    return {"confirmation": f"c-{key}"}


@app.operation("payroll.reimburse", outside=True)
def reimburse(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    return {"payment_id": f"p-{key}"}


@app.operation("settlements.execute", outside=True)
def execute(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    return {"transfer_id": f"t-{key}"}


@app.operation("settlements.reverse", outside=True)
def reverse(arguments: dict[str, Any], key: str) -> None:
    """Nothing is known of a reversal but that it was done."""
