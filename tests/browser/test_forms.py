"""People fill in forms in a browser: by type, with a draft that saves itself, and problems beside the fields."""

import asyncio
import re
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from playwright.async_api import expect

from assent.runtime import InstanceView
from tests.browser.company import Company
from tests.browser.seat import Desktop
from tests.browser.test_safety import HOSTILE
from tests.world import ORG, OTHER_ORG, publish_steps

pytestmark = pytest.mark.long

FIELDS: Final[dict[str, Any]] = {
    "name": {"type": "text", "required": True, "max": 80, "label": "Legal name"},
    "limit": {"type": "money", "min": 0, "currency": "currency", "label": "Credit limit"},
    "currency": {"type": "enum", "values": ["EUR", "JPY", "USD"], "required": True},
    "since": {"type": "date", "label": "Customer since"},
    "staff": {"type": "integer", "min": 1, "label": "Employees"},
    "share": {"type": "decimal", "label": "Share"},
    "call_at": {"type": "datetime", "label": "Call at"},
    "listed": {"type": "boolean", "label": "Listed company"},
    "notes": {"type": "text", "max": 2000, "label": "Notes"},
    "domains": {"type": "list", "of": {"type": "text", "max": 60}, "label": "Domains"},
}


async def ask(company: Company, start: str = "ann") -> tuple[InstanceView, UUID]:
    """Start a flow whose form the finance managers are asked to fill in; return its instance and step."""
    step = {
        "id": "details",
        "type": "form",
        "label": "Vendor details",
        "assignee": {"role": "finance_manager"},
    }
    ends = [{"id": "done", "type": "terminal"}, {"id": "refused", "type": "terminal"}]
    ways = [
        {"from": "details", "event": "submitted", "to": "done"},
        {"from": "details", "event": "declined", "to": "refused"},
    ]
    await publish_steps(
        company.database, "vendors.intake", [step | {"form": FIELDS, "due": "2d"}, *ends], ways
    )
    view = await company.runtime.org(ORG, company.actor(start)).instances.start("vendors.intake")
    (item,) = (await company.runtime.org(ORG, company.actor("fin")).approvals.inbox()).items
    return view, item.request_id


async def test_a_draft_survives_a_reload_and_what_is_wrong_is_said_beside_its_field(
    desktop: Desktop, company: Company
) -> None:
    view, step = await ask(company)
    desktop.expected = ("422",)
    page = await desktop.open("fin")
    await page.get_by_role("option").filter(has_text="form").click()
    assert page.url.endswith(f"/inbox/forms/{step}")
    await expect(page.get_by_role("heading", name="Vendor details")).to_be_visible()
    await page.get_by_label("Legal name").fill(HOSTILE[:70])
    await page.get_by_role("button", name="Currency").click()
    await page.get_by_role("option", name="EUR").click()
    await page.get_by_label("Credit limit").fill("19.99")
    await page.get_by_label("Employees").fill("0")
    await page.get_by_label("Customer since").fill("2026-02-28")
    await page.get_by_label("Call at").fill("2026-03-01T09:30")
    await page.get_by_text("Listed company").click()
    await page.get_by_role("button", name="Add").click()
    await page.get_by_role("group", name="Domains").get_by_role("textbox").fill("acme.example")
    # What the server says of the draft is beside the field that the reader has left.
    await expect(page.get_by_text("0 is below the minimum 1")).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="Draft saved")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Legal name")).to_have_value(HOSTILE[:70])
    await expect(page.get_by_label("Credit limit")).to_have_value("€19.99")
    await expect(page.get_by_label("Call at")).to_have_value("2026-03-01T09:30")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_text("One field is not right yet.")).to_be_visible()
    await expect(page.get_by_label("Employees")).to_be_focused()
    await page.get_by_label("Employees").fill("12")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    found = await company.runtime.org(ORG, company.actor("ann")).instances.get(view.id)
    sent = {
        name: found.context[name]
        for name in ("name", "limit", "currency", "since", "staff", "listed", "domains")
    }
    assert sent == {
        "name": HOSTILE[:70],
        "limit": 1999,
        "currency": "EUR",
        "since": "2026-02-28",
        "staff": 12,
        "listed": True,
        "domains": ["acme.example"],
    }
    assert await page.evaluate("window.broken") is None


async def test_what_was_typed_last_is_kept_where_the_reader_goes_on_at_once(
    desktop: Desktop, company: Company
) -> None:
    _, step = await ask(company)
    page = await desktop.open("fin", f"/inbox/forms/{step}")
    await page.get_by_label("Legal name").fill("Globex")
    async with page.expect_response(re.compile("/draft$")):
        await page.get_by_role("link", name="Assent").click()
    await page.goto(f"/inbox/forms/{step}")
    await expect(page.get_by_label("Legal name")).to_have_value("Globex")
    name = page.get_by_label("Legal name")
    await name.fill("Globex AG")
    await page.reload()
    # The draft is sent while the page is left, and may arrive after the next page was read.
    async with asyncio.timeout(10):
        while await name.input_value() != "Globex AG":
            await page.reload()


async def test_a_form_that_another_has_sent_or_claimed_says_so_at_once(
    desktop: Desktop, company: Company
) -> None:
    view, step = await ask(company)
    fin = await desktop.open("fin", f"/inbox/forms/{step}")
    fay = await desktop.open("fay", f"/inbox/forms/{step}")
    await fin.get_by_role("button", name="Claim").click()
    await fay.reload()
    await expect(fay.get_by_text("claimed by Finley Fischer").last).to_be_visible()
    await expect(fay.get_by_label("Legal name")).to_be_disabled()
    await fin.get_by_role("button", name="Release").click()
    await fay.reload()
    await expect(fay.get_by_label("Legal name")).to_be_enabled()
    await company.runtime.org(ORG, company.actor("fin")).instances.advance(
        view.id, "submitted", {"name": "Globex", "currency": "EUR"}
    )
    await expect(fay.get_by_role("alert")).to_contain_text("This changed while you were looking")
    await expect(fay.get_by_role("button", name="Submit")).to_have_count(0)


async def test_forms_of_another_org_are_not_found(desktop: Desktop, company: Company) -> None:
    _, step = await ask(company)
    desktop.expected = ("404", "422")
    page = await desktop.open("fin", org=OTHER_ORG)
    for path in (step, uuid4(), "no-id"):
        await page.goto(f"/inbox/forms/{path}")
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
