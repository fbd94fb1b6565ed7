"""The application that the commands are run for: invoices, and a shop that can be closed."""

from typing import Any

from assent.app import App
from tests.authored import invoice_contract
from tests.world import EXPENSE, ORDER

SECRET: dict[str, Any] = {
    **ORDER,
    "contract": "secret",
    "permissions": {**ORDER["permissions"], "read": ["clerk"]},
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
