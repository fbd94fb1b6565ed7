"""A client without an account hands documents in, on a phone, by the link that they were sent."""

import re
from datetime import timedelta
from typing import Any, Final

import pytest
from playwright.async_api import Page, Route, expect

from assent.store.clock import MovedClock
from tests.browser.clients import PDF, PNG, ClientIntake
from tests.browser.company import Company
from tests.browser.seat import PHONE, Desktop
from tests.browser.test_safety import HOSTILE
from tests.world import ORG

pytestmark = pytest.mark.long

ON_PHONE: Final[dict[str, Any]] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}


async def open_link(desktop: Desktop, link: str, **options: Any) -> Page:
    """Open a link on a phone that has never been here: no cookie, nothing kept."""
    context = await desktop.context(**{**ON_PHONE, **options})
    page = await context.new_page()
    await page.goto(link)
    return page


async def choose(page: Page, document: str, content: bytes = PNG, name: str = "scan.png") -> None:
    kind = "application/pdf" if name.endswith(".pdf") else "image/png"
    place = page.get_by_label(re.compile(f"^{document}: (Choose|Datei|Andere)"))
    await place.set_input_files({"name": name, "mimeType": kind, "buffer": content})


async def test_a_client_hands_in_what_is_asked_and_sees_what_is_missing(
    desktop: Desktop, intake: ClientIntake
) -> None:
    view = await intake.begin()
    page = await open_link(desktop, await intake.link(view.id))
    await expect(page.get_by_role("heading", name="Acme Ltd asks you for 2 documents")).to_be_visible()
    await choose(page, "Passport")
    await expect(page.get_by_role("img", name="What you have chosen")).to_be_visible()
    await page.get_by_role("button", name="Hand in Passport: scan.png").tap()
    await expect(page.get_by_role("status").filter(has_text="1 of 2")).to_contain_text(
        "Still missing: Proof of address"
    )
    await choose(page, "Proof of address", PDF, "bill.pdf")
    await page.get_by_role("button", name="Hand in Proof of address: bill.pdf").tap()
    await expect(page.get_by_role("heading", name="Everything has come")).to_be_focused()
    await expect(page.get_by_text("Handed in now")).to_have_count(2)
    # Nothing of a member's session, and nothing kept on a phone that others use too.
    assert await page.context.cookies() == []
    assert await page.evaluate("localStorage.length + sessionStorage.length") == 0


async def test_a_file_whose_connection_breaks_off_is_sent_again(
    desktop: Desktop, intake: ClientIntake
) -> None:
    view = await intake.begin()
    page = await open_link(desktop, await intake.link(view.id))
    desktop.expected = ("ERR_", "410")
    await choose(page, "Passport", PNG + bytes(200_000))
    await page.context.set_offline(True)
    await page.get_by_role("button", name="Hand in Passport").tap()
    await expect(page.get_by_text("The connection was lost.")).to_be_visible()
    await expect(page.get_by_text("scan.png")).to_be_visible()
    await page.context.set_offline(False)  # the page goes on by itself
    await expect(page.get_by_text("Handed in now")).to_have_count(1)
    # The receipt is lost, but the file has come: the same file again changes nothing.
    await choose(page, "Proof of address", PDF, "bill.pdf")

    async def lose_receipt(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.context.route("**/uploads/*/proof_of_address?*", lose_receipt, times=1)
    await page.get_by_role("button", name="Hand in Proof of address").tap()
    await expect(page.get_by_text("The connection was lost.")).to_be_visible()
    await page.get_by_role("button", name="Hand in Proof of address").tap()
    await expect(page.get_by_role("heading", name="Everything has come")).to_be_visible()
    async with intake.company.database.transaction(None) as connection:
        count = "SELECT count(*) FROM assent.document_versions WHERE org_id = 'acme'"
        assert await connection.fetchval(count) == 2


async def test_a_link_that_is_cut_off_expired_or_revoked_says_so(
    desktop: Desktop, company: Company, intake: ClientIntake
) -> None:
    view = await intake.begin()
    link, other = await intake.link(view.id, days=1), await intake.link(view.id)
    desktop.expected = ("404", "410")
    page = await open_link(desktop, link[:-5])
    await expect(page.get_by_role("heading", name="This link leads nowhere")).to_be_visible()
    await expect(page.get_by_text("Acme")).to_have_count(0)
    clock = company.database.clock
    company.database.clock = MovedClock(clock.now() + timedelta(days=1, seconds=1))
    page = await open_link(desktop, link, locale="de-DE")
    await expect(page.get_by_role("heading", name="Dieser Link ist abgelaufen")).to_be_visible()
    await expect(page.get_by_text("Code LINK_EXPIRED")).to_be_visible()
    company.database.clock = clock
    page = await open_link(desktop, other)
    await choose(page, "Passport")
    (request,) = {one.id for one in (await intake.by("lead").requests.list(instance_id=view.id)).items}
    await intake.by("lead").requests.revoke_upload_links(request)
    await page.get_by_role("button", name="Hand in Passport").tap()
    await expect(page.get_by_role("heading", name="This link was withdrawn")).to_be_visible()
    assert await intake.statuses() == {"passport": "requested", "proof_of_address": "requested"}


async def test_hostile_names_are_texts_and_nothing_else_is_loaded(
    desktop: Desktop, company: Company, intake: ClientIntake
) -> None:
    async with company.database.transaction(None) as connection:
        await connection.execute("UPDATE assent.orgs SET name = $1 WHERE org_id = $2", HOSTILE, ORG)
    view = await intake.begin(HOSTILE)
    link = await intake.link(view.id)
    context = await desktop.context(**ON_PHONE)
    page = await context.new_page()
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    await page.goto(link)
    await expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    await choose(
        page, "Passport", b"<svg onload='window.broken=1' xmlns='http://www.w3.org/2000/svg'/>", HOSTILE
    )
    await expect(page.get_by_text(HOSTILE, exact=True).last).to_be_visible()
    await page.get_by_role("button", name="Hand in Passport").tap()
    await expect(page.get_by_text("Handed in now")).to_be_visible()
    assert await page.evaluate("window.broken") is None
    assert await page.locator("main img, main script").count() == 0
    token = link.rpartition("/")[2]
    assert {url.startswith(company.address) or url.startswith("blob:") for url in seen} == {True}
    assert [url for url in seen if "/api/" in url] == []
    assert [url for url in seen if "/uploads/" in url and token not in url] == []
