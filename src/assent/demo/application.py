"""The demo's application: supplier invoices and expense claims of the library, with what a company adds to them."""

from importlib.resources import files
from typing import Any, Final

from assent.app import App
from assent.compiler.source import Source, read_source
from assent.model.mutation import Entity

TEMPLATES: Final = ("invoice_approval", "expense_approval")


def sources() -> list[Source]:
    """The files of the templates, as their authors wrote them."""
    library = files("assent.templates")
    found = []
    for template in TEMPLATES:
        for file in ("contract.yaml", "patch.yaml", "flow.yaml"):
            place = library / template / file
            if place.is_file():
                found.append(read_source(place.read_bytes(), f"{template}/{file}"))
    return found


def _contracts() -> list[Any]:
    found: list[Any] = [source.data for source in sources()]
    return [data for data in found if "contract" in data]


app = App(_contracts())


@app.action("invoice.post", payload={"posted_at": {"type": "datetime", "required": True}})
def post(invoice: Entity, payload: Any) -> dict[str, Any]:
    """Into the ledger: here, a note of when."""
    return {"posted_at": payload["posted_at"]}


@app.operation("payroll.reimburse")
def reimburse(connection: Any, claim: dict[str, Any]) -> dict[str, Any]:
    """In the transaction of its step; a payroll of one's own would write a row here."""
    return {"payment_id": f"pay-{claim['employee']}-{claim['amount']}"}
