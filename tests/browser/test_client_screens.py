"""Screens of documents of clients and of forms: accessible, and nothing cut off, on every width, in both languages."""

from typing import Final

import pytest
from playwright.async_api import expect

from tests.browser.clients import PNG, Intake
from tests.browser.company import Company
from tests.browser.looks import LONG, LOOKS, Look, inspect
from tests.browser.seat import Desktop
from tests.browser.test_uploads import choose
from tests.world import ORG

pytestmark = pytest.mark.long

NARROW: Final = Look(
    "narrow-de", {"viewport": {"width": 320, "height": 640}, "locale": "de-DE", "is_mobile": True}
)


@pytest.mark.parametrize("look", [*LOOKS, NARROW], ids=lambda look: look.name)
async def test_the_upload_page_is_accessible_and_fits(
    desktop: Desktop, company: Company, intake: Intake, look: Look
) -> None:
    async with company.database.transaction(None) as connection:
        await connection.execute("UPDATE assent.orgs SET name = $1 WHERE org_id = $2", LONG, ORG)
    view = await intake.begin()
    await intake.hand_in(view.id, "passport", "proof_of_address")
    await intake.reject("passport", "UNREADABLE")
    desktop.expected = ("404",)
    touch = {"has_touch": look.options.get("is_mobile", False)}
    page = await (await desktop.context(**look.options, **touch)).new_page()
    await page.goto(await intake.link(view.id))
    await expect(page.get_by_role("heading", level=2)).to_have_count(1)
    await inspect(page, look, "upload")
    await choose(page, "Passport", PNG, "Urlaub am Meer mit der ganzen Familie im Sommer, Seite 1.png")
    await expect(page.locator(".chosen img")).to_be_visible()
    await inspect(page, look, "upload-chosen")
    await page.locator("button[data-tone=main]").click()
    await expect(page.locator(".notice[data-tone=good]")).to_be_visible()
    await inspect(page, look, "upload-complete")
    await page.goto("/uploads/none")
    await expect(page.get_by_role("alert")).to_be_visible()
    await inspect(page, look, "upload-no-link")
