"""Screens of documents of clients and of forms: accessible, and nothing cut off, on every width, in both languages."""

from datetime import timedelta
from typing import Final

import pytest
from playwright.async_api import expect

from tests.browser.clients import PNG, ClientIntake
from tests.browser.company import Company
from tests.browser.looks import LONG, LOOKS, Look, inspect
from tests.browser.seat import Desktop
from tests.browser.test_forms import ask
from tests.browser.test_uploads import choose
from tests.world import ORG

pytestmark = pytest.mark.long

NARROW: Final = Look(
    "narrow-de", {"viewport": {"width": 320, "height": 640}, "locale": "de-DE", "is_mobile": True}
)


@pytest.mark.parametrize("look", [*LOOKS, NARROW], ids=lambda look: look.name)
async def test_the_upload_page_is_accessible_and_fits(
    desktop: Desktop, company: Company, intake: ClientIntake, look: Look
) -> None:
    async with company.database.transaction(None) as connection:
        await connection.execute("UPDATE assent.orgs SET name = $1 WHERE org_id = $2", LONG, ORG)
    view = await intake.begin()
    await intake.hand_in(view.id, "passport", "proof_of_address")
    await intake.reject("passport", "UNREADABLE")
    desktop.expected = ("404", "410")
    touch = {"has_touch": look.options.get("is_mobile", False)}
    page = await (await desktop.context(**look.options, **touch)).new_page()
    await page.goto(await intake.link(view.id))
    await expect(page.get_by_role("heading", level=2)).to_have_count(1)
    await inspect(page, look, "upload")
    await choose(page, "Passport", PNG, "Urlaub am Meer mit der ganzen Familie im Sommer, Seite 1.png")
    await expect(page.locator(".chosen img")).to_be_visible()
    await inspect(page, look, "upload-chosen")
    await page.locator("button[data-tone=main]").click()
    # The link ends with its request: the page learns it by its own reading, or by the reply to the last file.
    thanks = page.locator(".notice[data-tone=good]").or_(page.get_by_role("alert"))
    await expect(thanks.first).to_be_visible()
    await inspect(page, look, "upload-complete")
    await page.goto("/uploads/none")
    await expect(page.get_by_role("alert")).to_be_visible()
    await inspect(page, look, "upload-no-link")


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
async def test_the_board_the_review_and_a_form_are_accessible_and_fit(
    desktop: Desktop, company: Company, intake: ClientIntake, look: Look
) -> None:
    view = await intake.begin()
    await intake.hand_in(view.id, "passport", "proof_of_address", name=f"{LONG}.png")
    await intake.reject("proof_of_address", "UNREADABLE")
    requirements = intake.by("lead").requirements
    yesterday = company.database.clock.now().date() - timedelta(days=1)
    for doc_type in ("passport", "shareholder_register_of_the_parent_company", "tax_form"):
        await requirements.create(LONG, doc_type, due_date=yesterday if doc_type == "tax_form" else None)
    _, step = await ask(company)
    desktop.expected = ("404", "422")
    lead = await desktop.open("lead", "/clients", **look.options)
    await expect(lead.locator(".need")).to_have_count(5)
    await inspect(lead, look, "clients")
    await lead.locator(".case-head .button").click()
    await expect(lead.get_by_role("dialog")).to_be_visible()
    await inspect(lead, look, "clients-send")
    await lead.keyboard.press("Escape")
    await lead.locator(".need-actions .button").first.click()
    await expect(lead.get_by_role("dialog")).to_be_visible()
    await inspect(lead, look, "clients-waive")
    await lead.goto("/clients?subject=none")
    await expect(lead.locator(".state h2")).to_be_visible()
    await inspect(lead, look, "clients-none")
    vera = await desktop.open("vera", "/clients/review", **look.options)
    await vera.get_by_role("option").click()
    await expect(vera.get_by_role("img")).to_be_visible()
    await inspect(vera, look, "review")
    await vera.keyboard.press("r")
    await expect(vera.locator(".codes .button")).to_be_focused()
    await vera.keyboard.press("ArrowDown")
    await expect(vera.locator(".code-item").first).to_be_visible()
    await inspect(vera, look, "review-codes")
    await vera.locator(".code-item").first.click()
    await expect(vera.locator("blockquote")).to_be_visible()
    await inspect(vera, look, "review-reject")
    fin = await desktop.open("fin", f"/inbox/forms/{step}", **look.options)
    await fin.locator("#root_staff").fill("0")
    await fin.locator("#root_name").fill(LONG * 2)
    await fin.locator("#root_notes").focus()
    await expect(fin.locator(".react-aria-FieldError")).to_have_count(2)
    await inspect(fin, look, "form")
    await fin.locator(".button[data-tone=main]").click()
    await expect(fin.get_by_role("alert")).to_be_visible()
    await inspect(fin, look, "form-refused")
