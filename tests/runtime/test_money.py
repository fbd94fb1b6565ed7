"""Money with a currency is shown as money where people see a figure: in inboxes, requests, forms and schemas."""

from decimal import Decimal
from typing import Any

import pytest

from assent.app import App
from assent.bodies.instances import InboxItemBody
from assent.model.money import money_text
from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows
from tests.world import (
    ANN,
    MAX,
    ORDER,
    ORG,
    create,
    found_acme,
    patch_of,
    publish_orders,
    publish_steps,
    submit,
)

FIELDS = ORDER["fields"]


async def asked_figure(database: Database, declared: Any, data: Any) -> InboxItemBody:
    """Submit an order over 2060000 with these declarations of its currency; return what the approver sees."""
    total, code = declared
    fields = {**FIELDS, "total": {"type": "money", "required": True, **total}}
    fields |= {"code": code, "currency": {"type": "enum", "values": ["EUR", "JPY"]}} if code else {}
    await found_acme(database)
    review = {"id": "review", "type": "approval", "approvers": {"role": "manager"}}
    await publish_orders(database, patch_of(review, entity_type="order"), fields=fields)
    runtime = App([{**ORDER, "fields": fields}]).runtime(database)
    order = await create(runtime.core.kernel, "order", {"number": "1", "total": 2060000, **data})
    await submit(runtime, order)
    approver = runtime.org(ORG, MAX)
    (item,) = (await approver.approvals.inbox()).items
    details = await approver.approvals.get(item.request_id)
    assert (details.request.figure, details.request.currency) == (item.figure, item.currency)
    assert details.request.figure_text == item.figure_text
    return InboxItemBody.of(item)


TEXT = {"type": "text"}


@pytest.mark.parametrize(
    ("declared", "data", "shown"),
    [
        (({}, TEXT), {"currency": "EUR"}, "20,600.00 EUR"),
        (({}, TEXT), {"currency": "JPY"}, "2,060,000 JPY"),
        (({"currency": "code"}, TEXT), {"currency": "EUR", "code": "USD"}, "20,600.00 USD"),
        (({"currency": "CHF"}, TEXT), {"currency": "EUR"}, "20,600.00 CHF"),
        (({"currency": "code"}, TEXT), {"currency": "EUR"}, "2060000"),
        (({}, None), {}, "2060000"),
    ],
)
async def test_figure_has_the_currency_that_the_contract_names(
    database: Database, declared: Any, data: Any, shown: str
) -> None:
    body = await asked_figure(database, declared, data)
    assert (body.figure, body.figure_text) == (Decimal(2060000), shown)
    assert body.currency == (shown.split()[1] if " " in shown else None)


async def test_schema_of_a_form_says_where_the_currency_of_money_is(
    database: Database, runtime: Runtime
) -> None:
    await found_acme(database)
    fields = {
        "amount": {"type": "money"},
        "currency": {"type": "enum", "values": ["EUR", "USD"]},
        "fee": {"type": "money", "currency": "CHF"},
        "count": {"type": "integer"},
    }
    step = {"id": "ask", "type": "action", "assignee": {"user": "ann"}, "form": fields}
    await publish_steps(database, "asking", [step, END], arrows("ask", "end", event="sent"))
    await runtime.org(ORG, ANN).instances.start("asking", {})
    (item,) = (await runtime.org(ORG, ANN).approvals.inbox()).items
    properties = (await runtime.org(ORG, ANN).forms.get(item.request_id)).schema["properties"]
    assert properties["amount"]["x-currency-field"] == "currency"
    assert properties["fee"]["x-currency"] == "CHF"
    assert not {"x-currency", "x-currency-field"} & properties["count"].keys()


@pytest.mark.parametrize(
    ("units", "currency", "language", "text"),
    [
        (2060000, "EUR", "en", "20,600.00 EUR"),
        (2060000, "EUR", "de", "20.600,00 EUR"),
        (-5, "EUR", "de", "-0,05 EUR"),
        (1500, "KWD", "en", "1.500 KWD"),
        (1234567, "JPY", "de", "1.234.567 JPY"),
        (5, None, "en", "0.05"),
    ],
)
def test_money_reads_as_in_the_language(units: int, currency: str | None, language: str, text: str) -> None:
    assert money_text(units, currency, language) == text
