"""A compliance team collects documents of clients, beside a client with a phone, on the real stack."""

import re
from uuid import uuid4

import pytest
from playwright.async_api import expect

from tests.browser.clients import PDF, ClientIntake
from tests.browser.company import Company
from tests.browser.seat import Desktop
from tests.browser.test_safety import HOSTILE
from tests.browser.test_uploads import choose, open_link
from tests.world import OTHER_ORG

pytestmark = pytest.mark.long


async def test_a_client_uploads_a_reviewer_rejects_the_client_uploads_again_and_the_workflow_goes_on(
    desktop: Desktop, intake: ClientIntake
) -> None:
    view = await intake.begin()
    phone = await open_link(desktop, await intake.link(view.id))
    for document in ("Passport", "Proof of address"):
        await choose(phone, document)
        await phone.get_by_role("button", name=f"Hand in {document}").tap()
    await expect(phone.get_by_role("heading", name="Everything has come")).to_be_visible()

    vera = await desktop.open("vera", "/clients")
    await vera.get_by_role("link", name=re.compile("^Review 2")).click()  # they come by themselves
    await vera.get_by_role("option", name="Passport client-17").click()
    await expect(vera.get_by_role("img", name="Passport, as it was handed in")).to_be_visible()
    await vera.keyboard.press("r")
    await expect(vera.get_by_role("button", name="What is wrong")).to_be_focused()
    await vera.keyboard.press("ArrowDown")
    await expect(vera.get_by_role("listbox", name="What is wrong")).to_be_visible()
    await vera.keyboard.type("UNREADABLE")
    await vera.keyboard.press("Enter")
    preview = vera.get_by_role("status").filter(has_text="The client reads")
    await expect(preview).to_contain_text("too blurry to read. Please upload a clear image")
    await vera.get_by_role("button", name="Reject and ask again").click()
    await expect(vera.get_by_role("status").get_by_text("Rejected: Passport")).to_be_visible()
    await expect(vera.get_by_role("heading", name="Proof of address")).to_be_visible()
    await vera.keyboard.press("a")
    await vera.keyboard.press("Enter")
    await expect(vera.get_by_role("heading", name="Nothing waits for a review")).to_be_visible()

    phone = await open_link(desktop, await intake.link(view.id))
    await expect(phone.get_by_text("too blurry to read")).to_be_visible()
    await choose(phone, "Passport", PDF, "clear.pdf")
    await phone.get_by_role("button", name="Hand in Passport").tap()
    await expect(phone.get_by_role("heading", name="Everything has come")).to_be_visible()
    await vera.get_by_role("option").filter(has_text="Version 2").click()  # it has come by itself
    await expect(vera.get_by_text("Earlier versions")).to_be_visible()
    await expect(vera.get_by_role("link", name="Download clear.pdf")).to_be_visible()
    await vera.get_by_label("Valid until (optional)").fill("2031-05-31")
    await vera.get_by_role("button", name="Verify").click()
    await expect(vera.get_by_role("status").get_by_text("Verified: Passport")).to_be_visible()
    await vera.get_by_role("link", name="Documents of clients").click()
    await expect(vera.get_by_text("2 of 2 in order")).to_be_visible()
    assert (await intake.status(view.id))[0] == "completed"


async def test_what_expired_is_asked_for_again_together_and_waived_with_a_reason(
    desktop: Desktop, company: Company, intake: ClientIntake
) -> None:
    requirements = intake.by("lead").requirements
    for doc_type in ("passport", "proof_of_address", "tax_form"):
        await requirements.create("client-9", doc_type)
    lead = await desktop.open("lead", "/clients?subject=client-9")
    await lead.get_by_role("button", name="Waive: Tax form of client-9").click()
    await expect(lead.get_by_role("button", name="Do without it")).to_be_disabled()
    await lead.get_by_label("Reason").fill("Known for years.")
    await lead.get_by_role("button", name="Do without it").click()
    await expect(lead.get_by_role("listitem").filter(has_text="Tax form")).to_contain_text("waived")
    await lead.get_by_role("button", name="Send all requests (2)").click()
    await lead.get_by_label("E-mail address (optional)").fill("cy@mail.example")
    await lead.get_by_role("dialog").get_by_role("button", name="Send all requests (2)").click()
    await expect(lead.get_by_text("A message goes to cy@mail.example.")).to_be_visible()
    await lead.get_by_role("button", name="Make a link").click()
    link = await lead.get_by_label("Link for the client").input_value()
    await lead.get_by_role("button", name="Close").click()
    await expect(lead.get_by_text("asked 1 of 3 times")).to_have_count(2)
    phone = await open_link(desktop, link)
    await expect(phone.get_by_role("heading", name="Acme Ltd asks you for 2 documents")).to_be_visible()
    assert await intake.statuses("client-9") == {
        "passport": "requested",
        "proof_of_address": "requested",
        "tax_form": "waived",
    }


async def test_texts_and_files_of_clients_run_nothing(desktop: Desktop, intake: ClientIntake) -> None:
    view = await intake.begin(HOSTILE)
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.broken=1'><script>window.broken=1</script></svg>"
    await intake.hand_in(view.id, "passport", "proof_of_address", content=svg, name=HOSTILE)
    await intake.reject("proof_of_address", "UNREADABLE", HOSTILE)
    vera = await desktop.open("vera", "/clients")
    await expect(vera.get_by_role("heading", name=HOSTILE)).to_be_visible()
    await vera.get_by_role("region", name=HOSTILE).get_by_role("link", name="Review").click()
    await expect(vera.get_by_text("Files of this type are not shown here.")).to_be_visible()
    async with vera.expect_download() as downloading:
        await vera.get_by_role("link", name=re.compile("^Download")).click()
    download = await downloading.value
    assert not re.search(r"\.(svg|html?|js)$", download.suggested_filename)
    assert await vera.evaluate("window.broken") is None
    assert await vera.locator("main img, main script, main iframe, main object").count() == 0


async def test_documents_of_another_org_are_not_found_and_those_without_the_right_see_no_board(
    desktop: Desktop, intake: ClientIntake
) -> None:
    view = await intake.begin()
    await intake.hand_in(view.id, "passport", "proof_of_address")
    (document,) = (await intake.by("vera").documents.list(document_type="passport")).items
    desktop.expected = ("404", "422", "403")
    page = await desktop.open("vera", "/clients", org=OTHER_ORG)
    await expect(page.get_by_role("heading", name="Nothing is required of a client")).to_be_visible()
    for path in (document.id, uuid4(), "no-id"):
        await page.goto(f"/clients/review/{path}")
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    fin = await desktop.open("fin", "/clients")
    await expect(fin.get_by_role("link", name="Clients")).to_have_count(0)
    await expect(fin.get_by_role("alert")).to_contain_text("Code POLICY_DENIED")
