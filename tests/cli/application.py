"""The application that the commands are run for: invoices, and a shop that can be closed."""

from typing import Any

from assent.app import App
from tests.authored import invoice_contract
from tests.kernel.company import EXPENSE, INVOICE

SECRET: dict[str, Any] = {
    **INVOICE,
    "contract": "secret",
    "permissions": {**INVOICE["permissions"], "read": ["clerk"]},
}
"""What only clerks may see."""


class Shop:
    """What an order is confirmed by."""

    is_open = True

    def confirm(self, connection: Any, arguments: Any) -> dict[str, Any]:
        if not self.is_open:
            raise RuntimeError("the shop is closed")
        return {"ok": True}


shop = Shop()
app = App([invoice_contract(), EXPENSE, SECRET])
app.operation("shop.confirm")(shop.confirm)
