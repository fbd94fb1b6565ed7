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


class ConfirmingShop:
    """What an order is confirmed by."""

    is_open = True

    def confirm(self, connection: Any, arguments: Any) -> dict[str, Any]:
        if not self.is_open:
            raise RuntimeError("the shop is closed")
        return {"ok": True}


shop = ConfirmingShop()
app = App([invoice_contract(), EXPENSE, SECRET])
app.operation("shop.confirm")(shop.confirm)


@app.task("report.build", attempts_max=1)
async def build_report(month: str) -> dict[str, Any]:
    return {"pages": len(month)}


@app.task("report.send", capability="reports:send")
async def send_report(month: str) -> None:
    pass
