"""People approve in a browser: a real Chromium, server, worker and database."""

import re
from uuid import uuid4

import pytest
from playwright.async_api import expect

from tests.browser.company import Company
from tests.browser.seat import Desktop
from tests.world import OTHER_ORG, actor, edit_invoice, request_id

pytestmark = pytest.mark.long


async def test_an_approval_makes_the_document_active_and_the_next_item_comes(
    desktop: Desktop, company: Company
) -> None:
    first = await company.invoice("INV-1")
    await company.invoice("INV-2")
    page = await desktop.open("fin")
    await expect(page.get_by_role("option")).to_have_count(2)
    await page.keyboard.press("j")
    await expect(page.get_by_role("heading", name="INV-1")).to_be_visible()
    await expect(page.get_by_text("€700.00").first).to_be_visible()
    await expect(page.get_by_text("recorded for version 2 and cannot be taken back")).to_be_visible()
    await page.keyboard.press("a")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").get_by_text("Approved: INV-1")).to_be_visible()
    assert await company.state_of(first.entity_id) == "active"
    await expect(page.get_by_role("heading", name="INV-2")).to_be_visible()
    await expect(page.get_by_role("option")).to_have_count(1)
    await page.keyboard.press("a")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
