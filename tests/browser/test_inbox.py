"""People approve in a browser: a real Chromium, server, worker and database."""

import re
from uuid import uuid4

import pytest
from playwright.async_api import Page, expect

from tests.browser.company import Company
from tests.browser.seat import Desktop
from tests.world import ORG, OTHER_ORG, edit_invoice, request_id

pytestmark = pytest.mark.long


async def open_request(desktop: Desktop, user: str, request: object, **options: object) -> Page:
    return await desktop.open(user, f"/inbox/{request}", **options)


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


async def test_the_link_of_a_mail_leads_to_the_request(desktop: Desktop, company: Company) -> None:
    view = await company.invoice("INV-1")
    page = await desktop.open("fin", f"/app/{ORG}/approvals/{request_id(view, 'one')}")
    await expect(page.get_by_role("heading", name="INV-1")).to_be_visible()


async def test_a_rejection_needs_a_reason_which_its_author_reads(desktop: Desktop, company: Company) -> None:
    view = await company.invoice("INV-1")
    page = await open_request(desktop, "fin", request_id(view, "one"))
    await expect(page.get_by_role("heading", name="INV-1")).to_be_visible()
    await page.keyboard.press("r")
    await expect(page.get_by_role("button", name="Reject with this reason")).to_be_disabled()
    await page.keyboard.type("The order says 18 chairs, not 81.")
    await page.get_by_role("button", name="Reject with this reason").click()
    await expect(page.get_by_role("status").get_by_text("Rejected: INV-1")).to_be_visible()
    assert await company.state_of(view.entity_id) == "draft"
    ann = await desktop.open("ann", f"/documents/invoice/{view.entity_id}")
    await ann.get_by_role("tab", name="Approvals").click()
    entry = ann.get_by_role("listitem").filter(has_text="Finley Fischer")
    await expect(entry).to_contain_text("rejected")
    await expect(entry).to_contain_text("about version 2")
    await expect(entry).to_contain_text("18 chairs, not 81")
    await expect(entry).to_contain_text("The content is the one that was approved")
    await expect(ann.get_by_role("button", name="Submit")).to_be_visible()


async def test_ones_own_document_cannot_be_approved_and_the_page_says_why_before_the_click(
    desktop: Desktop, company: Company
) -> None:
    view = await company.invoice("INV-1")
    page = await open_request(desktop, "ann", request_id(view, "one"))
    await expect(page.get_by_text("You cannot decide this")).to_be_visible()
    await expect(page.get_by_text("You had a part in this document")).to_be_visible()
    await expect(page.get_by_text("Code SEPARATION_OF_DUTIES")).to_be_visible()
    for name in ("Approve", "Reject"):
        await expect(page.get_by_role("button", name=name, exact=True)).to_be_disabled()


async def test_the_seat_of_others_is_shown_with_the_reason(desktop: Desktop, company: Company) -> None:
    view = await company.large_invoice("INV-1")
    page = await open_request(desktop, "fin", request_id(view, "budget"))
    await expect(page.get_by_text("You are not among those who are asked.")).to_be_visible()
    await expect(page.get_by_text("Code POLICY_DENIED")).to_be_visible()
    await expect(page.get_by_text("Bea Brandt")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_be_disabled()


async def test_another_orgs_ids_and_ids_that_are_none_are_not_found(
    desktop: Desktop, company: Company
) -> None:
    view = await company.invoice("INV-1")
    desktop.expected = ("404", "422")
    page = await desktop.open("fin", f"/inbox/{request_id(view, 'one')}", org=OTHER_ORG)
    for path in (
        f"/inbox/{request_id(view, 'one')}",
        f"/documents/invoice/{view.entity_id}",
        f"/inbox/{uuid4()}",
        "/inbox/no-id",
        "/no/such/page",
    ):
        await page.goto(path)
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        await expect(page.get_by_text("INV-1")).to_have_count(0)


async def test_an_edit_while_the_page_is_open_kills_its_buttons(desktop: Desktop, company: Company) -> None:
    view = await company.invoice("INV-1")
    page = await open_request(desktop, "fin", request_id(view, "one"))
    approve = page.get_by_role("button", name="Approve")
    await expect(approve).to_be_enabled()
    await edit_invoice(company.runtime, view.entity_id, grand_total=71_000)
    await expect(page.get_by_text("This changed while you were looking")).to_be_visible()
    await expect(approve).to_be_disabled()
    await page.get_by_role("link", name="See the present version").click()
    await expect(page.get_by_text("€710.00").first).to_be_visible()


async def test_a_decision_of_a_colleague_arrives_by_itself(desktop: Desktop, company: Company) -> None:
    view = await company.invoice("INV-1")
    fay = await open_request(desktop, "fay", request_id(view, "one"))
    await expect(fay.get_by_role("button", name="Approve")).to_be_enabled()
    fin = await open_request(desktop, "fin", request_id(view, "one"))
    await fin.get_by_role("button", name="Approve").click()
    await expect(fay.get_by_text("This changed while you were looking")).to_be_visible()
    await expect(fay.get_by_role("button", name="Approve")).to_be_disabled()
    await expect(fay.get_by_role("option")).to_have_count(0)
    await expect(fay.get_by_role("listitem").filter(has_text="Finley Fischer")).to_contain_text("approved")


async def test_a_delegate_decides_on_behalf_of_another(desktop: Desktop, company: Company) -> None:
    view = await company.large_invoice("INV-1")
    async with company.database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.approval_delegations (org_id, id, from_user, to_user, starts_at, created_by) "
            "VALUES ('acme', $1, 'bea', 'max', now() - interval '1 hour', 'bea')",
            uuid4(),
        )
    page = await desktop.open("max")
    await page.get_by_role("option").filter(has_text="for Bea Brandt").click()
    await expect(page.get_by_text("You decide for Bea Brandt.")).to_be_visible()
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("status").get_by_text("Approved: INV-1")).to_be_visible()
    await page.goto(f"/documents/invoice/{view.entity_id}")
    await page.get_by_role("tab", name="Approvals").click()
    await expect(page.get_by_text("max for Bea Brandt")).to_be_visible()


async def test_a_question_reaches_the_author_without_rejecting(desktop: Desktop, company: Company) -> None:
    view = await company.invoice("INV-1")
    page = await open_request(desktop, "fin", request_id(view, "one"))
    await page.get_by_label("Write a comment or a question").fill("Which project is this for?")
    await page.get_by_role("button", name="Ask Ann Archer").click()
    await expect(page.get_by_text("Question to Ann Archer")).to_be_visible()
    (asked,) = (await company.runtime.org("acme", company.actor("ann")).approvals.inbox()).items
    await company.runtime.org("acme", company.actor("ann")).questions.answer(
        asked.request_id, "The new office."
    )
    await expect(page.get_by_text("The new office.")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_be_enabled()


async def test_a_document_is_submitted_from_its_page_and_shows_what_it_waits_for(
    desktop: Desktop, company: Company
) -> None:
    entity = await company.draft("INV-1")
    page = await desktop.open("ann", f"/documents/invoice/{entity.id}")
    await expect(page.get_by_text("It can be edited.")).to_be_visible()
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_text("Move it from Draft to Submitted?")).to_be_visible()
    await page.get_by_role("button", name="Submit").click()
    waits = page.get_by_role("complementary")
    await expect(waits).to_contain_text("Finley Fischer")
    await expect(page.get_by_text("An edit voids the approvals so far and asks again.")).to_be_visible()
    await page.get_by_role("tab", name="Audit").click()
    await expect(page.get_by_role("cell", name="invoice.create")).to_be_visible()
    await page.get_by_role("tab", name="Versions").click()
    await expect(page.get_by_text("Version 2")).to_be_visible()


async def test_filters_are_in_the_address_and_say_when_nothing_fits(
    desktop: Desktop, company: Company
) -> None:
    await company.invoice("INV-1")
    page = await desktop.open("fin")
    # What Chromium says on a machine whose locale is C.
    await page.add_init_script("Object.defineProperty(navigator, 'languages', {get: () => ['en-US@posix']})")
    await page.get_by_role("radio", name=re.compile("Mine")).click()
    await expect(page.get_by_role("heading", name="Nothing fits these filters")).to_be_visible()
    assert page.url.endswith("/inbox?bucket=mine")
    await page.reload()
    await expect(page.get_by_role("heading", name="Nothing fits these filters")).to_be_visible()
    await page.get_by_role("button", name="Show everything").click()
    await expect(page.get_by_role("option")).to_contain_text("due in 23 hours")


async def test_a_server_that_is_away_is_said_and_comes_back_by_itself(
    desktop: Desktop, company: Company
) -> None:
    await company.invoice("INV-1")
    page = await desktop.open("fin")
    desktop.expected = ("Failed to load resource", "ERR_")
    await page.context.set_offline(True)
    await page.get_by_role("option").click()
    await expect(page.get_by_text("That did not work")).to_be_visible(timeout=20_000)
    await expect(page.get_by_text("The server does not answer").first).to_be_visible()
    await page.context.set_offline(False)
    await expect(page.get_by_role("button", name="Approve")).to_be_enabled(timeout=20_000)
