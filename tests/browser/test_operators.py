"""Operators in a browser: what stopped is found by its error, looked at on its diagram, and repaired."""

import re
from typing import Any
from uuid import UUID

import pytest
from playwright.async_api import Page, expect

from assent.compiler.source import read_sources
from assent.definitions.definition import Publication
from assent.templates import templates
from tests.authored import END, arrows
from tests.browser.company import Company
from tests.browser.seat import Desktop
from tests.rows import insert, insert_effect, update
from tests.world import ORG, OTHER_ORG, actor, publish, publish_steps

pytestmark = pytest.mark.long

OLGA = actor("olga", "workflows:*")

SIZED = [
    {"id": "ask", "type": "action"},
    {"id": "size", "type": "condition"},
    {"id": "check", "type": "form", "assignee": {"rule": "workflow.clerk"}},
    {"id": "pay", "type": "wait_event", "key": "payment:{workflow.order}"},
    END,
]
WAYS = [
    {"from": "ask", "event": "completed", "to": "size"},
    {"from": "size", "to": "check", "condition": "workflow.order <= 5", "priority": 1},
    {"from": "size", "to": "pay", "priority": 2},
    *arrows("check", "pay", "end"),
]
"""A small order is checked by a clerk; one whom the org does not have is an incident."""


async def order_of(company: Company, **data: Any) -> UUID:
    """Return an instance that waits, or that an error paused."""
    await publish_steps(company.database, "orders", SIZED, WAYS)
    ann = company.runtime.org(ORG, company.actor("ann"))
    view = await ann.instances.start("orders", data)
    await ann.instances.advance(view.id, "completed")
    return view.id


async def stopped_order(company: Company) -> UUID:
    return await order_of(company, order=3, clerk="ghost")


async def status_of(company: Company, instance_id: UUID) -> str:
    async with company.database.transaction(None) as connection:
        return await connection.fetchval(
            "SELECT status FROM assent.workflow_instances WHERE org_id = $1 AND id = $2", ORG, instance_id
        )


async def test_an_operator_repairs_an_instance_that_an_error_paused(
    desktop: Desktop, company: Company
) -> None:
    instance_id = await stopped_order(company)
    page = await desktop.open("olga", "/incidents")
    groups = page.get_by_role("listbox", name="Incidents by error")
    await groups.get_by_role("option").click()
    await page.get_by_role("grid").get_by_role("link").click()
    stopped = page.get_by_role("region", name="Incident", exact=True)
    await expect(stopped).to_contain_text("Stopped at Check")
    await expect(page.locator(".step-node[data-standing=failed]")).to_contain_text("Check")
    await stopped.get_by_role("button", name="Edit variables").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("approve nothing of this instance after that")
    await dialog.get_by_role("button", name=re.compile(" Variable$")).click()
    await page.get_by_role("option", name="Clerk").click()
    await dialog.get_by_label("Value, as JSON").fill("fin")
    await dialog.get_by_label("Reason").fill("The clerk mistyped it")
    await expect(dialog.get_by_role("button", name="Edit variables")).to_be_disabled()  # it is no JSON
    await dialog.get_by_label("Value, as JSON").fill("4711")
    desktop.expected = ("422",)
    await dialog.get_by_role("button", name="Edit variables").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Code WRONG_TYPE")
    await dialog.get_by_label("Value, as JSON").fill('"fin"')
    await dialog.get_by_role("button", name="Edit variables").click()
    await expect(page.get_by_role("status").get_by_text("Done: Edit variables")).to_be_visible()
    await stopped.get_by_role("button", name="Retry").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await expect(page.get_by_text("Waits for Finley Fischer to fill in “Check”")).to_be_visible()
    await expect(stopped).to_have_count(0)
    # What happens elsewhere appears by itself.
    await company.runtime.org(ORG, OLGA).instances.cancel(instance_id, "No more needed")
    await expect(page.locator(".head .status")).to_have_text("Cancelled")


async def test_a_step_is_found_by_keyboard_in_the_list_and_says_how_its_way_was_chosen(
    desktop: Desktop, company: Company
) -> None:
    instance_id = await order_of(company, order=9, clerk="fin")
    page = await desktop.open("olga", f"/instances/{instance_id}")
    await page.get_by_role("tab", name="Diagram").focus()
    await page.keyboard.press("ArrowRight")
    here = page.locator(".path-list [aria-current=step]")
    await expect(here).to_contain_text("Pay")
    size = page.locator(".path-list").get_by_role("button", name="Size")
    await size.focus()
    await page.keyboard.press("Enter")
    step = page.get_by_role("region", name="Step")
    await expect(step).to_contain_text("workflow.order <= 5")
    await expect(step).to_contain_text("Took the way to Pay")
    assert "step=" in page.url
    await page.reload()  # the address leads to the step
    await expect(step).to_contain_text("workflow.order <= 5")
    # Who started it sees the way, and not what operators see.
    other = await desktop.open("ann", page.url.removeprefix(company.address))
    await expect(other.get_by_role("region", name="Step")).to_contain_text("is shown to operators")
    await expect(other.get_by_role("region", name="Step")).not_to_contain_text("workflow.order")
    await expect(other.get_by_role("link", name="Incidents")).to_have_count(0)
    await expect(other.get_by_role("link", name="Health")).to_have_count(0)


async def dead_effects(company: Company, count: int) -> None:
    async with company.database.transaction(None) as connection:
        for _ in range(count):
            await insert_effect(connection, org_id=ORG, status="dead", lane="email", error="mailbox is full")


async def test_dead_letters_are_retried_and_discarded_with_a_result_for_each(
    desktop: Desktop, company: Company
) -> None:
    await dead_effects(company, 3)
    page = await desktop.open("olga", "/health")
    await page.get_by_role("row", name="Effects").get_by_role("link", name="3").click()
    grid = page.get_by_role("grid")
    await expect(grid.get_by_role("row")).to_have_count(4)
    await grid.get_by_role("row").nth(1).locator(".check").click()
    await page.get_by_role("button", name="Discard").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Discard 1 dead letter?")
    await expect(dialog.get_by_role("button", name="Discard")).to_be_disabled()  # without a reason
    await dialog.get_by_label("Reason").fill("Paid by hand")
    await dialog.get_by_role("button", name="Discard").click()
    results = page.get_by_role("region", name="Discard")
    await expect(results).to_contain_text("1 of 1 done")
    await results.get_by_role("button", name="Close").click()
    await expect(grid.get_by_role("row")).to_have_count(3)
    # One of them was discarded by a colleague meanwhile: it is refused, the other is done.
    async with company.database.transaction(None) as connection:
        left = await connection.fetchval(
            "SELECT id FROM assent.jobs WHERE org_id = $1 AND status = 'dead' ORDER BY id LIMIT 1", ORG
        )
    await grid.get_by_role("row").first.locator(".check").click()
    await expect(page.get_by_role("toolbar")).to_contain_text("2 selected")
    await company.runtime.org(ORG, OLGA).dead_letters.discard(left, "Not needed")
    desktop.expected = ("404",)
    await page.get_by_role("button", name="Retry").click()
    results = page.get_by_role("region", name="Retry")
    await expect(results).to_contain_text("1 of 2 done · 1 refused")
    await expect(results).to_contain_text("Code NOT_FOUND")


async def test_a_stuck_instance_is_failed_with_a_reason(desktop: Desktop, company: Company) -> None:
    view = await company.invoice("INV-1")
    async with company.database.transaction(None) as connection:
        (step,) = await connection.fetch(
            "SELECT org_id, id FROM assent.workflow_step_executions"
            " WHERE org_id = $1 AND instance_id = $2 AND status = 'pending'",
            ORG,
            view.id,
        )
        await update(connection, "workflow_step_executions", step, status="cancelled")
        await connection.execute(
            "UPDATE assent.workflow_instances SET updated_at = updated_at - interval '1 hour'"
            " WHERE org_id = $1 AND id = $2",
            ORG,
            view.id,
        )
    page = await desktop.open("olga", "/health")
    stuck = page.get_by_role("region", name="Stuck instances")
    await stuck.get_by_role("button", name="Fail").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("Its step is gone")
    await dialog.get_by_role("button", name="Fail").click()
    await expect(stuck).to_contain_text("Every running instance has something that will continue it.")
    assert await status_of(company, view.id) == "failed"


async def test_a_restarted_server_is_found_again_by_the_page_itself(
    desktop: Desktop, company: Company
) -> None:
    instance_id = await stopped_order(company)
    page = await desktop.open("olga", f"/instances/{instance_id}")
    await expect(page.get_by_role("region", name="Incident", exact=True)).to_be_visible()
    desktop.expected = ("Failed to load resource", "ERR_")
    await company.stop()
    await page.get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Retry").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("The server does not answer.")
    await dialog.get_by_role("button", name="Not now").click()
    company.start()
    await company.runtime.org(ORG, OLGA).instances.cancel(instance_id, "No more needed")
    await expect(page.locator(".head .status")).to_have_text("Cancelled", timeout=20_000)


async def test_the_instance_of_another_org_is_not_found(desktop: Desktop, company: Company) -> None:
    instance_id = await stopped_order(company)
    page = await desktop.open("olga", f"/instances/{instance_id}", org=OTHER_ORG)
    desktop.expected = ("404",)
    await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    await page.goto("/incidents")
    await expect(page.get_by_role("heading", name="Nothing has failed")).to_be_visible()


async def test_documents_and_instances_are_found_by_filters_in_the_address(
    desktop: Desktop, company: Company
) -> None:
    view = await company.invoice("INV-1")
    await company.draft("INV-2")
    page = await desktop.open("olga", "/documents/invoice")
    await expect(page.get_by_role("grid").get_by_role("row")).to_have_count(3)
    await page.get_by_role("button", name="State").click()
    await page.get_by_role("option", name="Draft").click()
    await expect(page.get_by_role("grid").get_by_role("link")).to_have_text("INV-2")
    assert page.url.endswith("/documents/invoice?state=draft")
    desktop.expected = ("422",)
    await page.goto("/documents/invoice?where=nonsense")
    await expect(page.get_by_role("alert")).to_contain_text("Code")
    await page.goto("/instances?status=running&workflow=invoice")
    await page.get_by_role("grid").locator(f"a[href$='{view.id}']").click()
    await expect(page.get_by_text("Finley Fischer")).to_be_visible()
    await page.get_by_role("link", name="Open the document").click()
    await page.get_by_role("link", name="See its workflow").click()
    await expect(page).to_have_url(f"{company.address}/instances/{view.id}")


async def instance_at_rest(company: Company, found: Publication) -> UUID:
    """Return an instance, without a token, of what was published."""
    version: Any = found.effective or found.source
    async with company.database.transaction(None) as connection:
        row = await insert(
            connection,
            "workflow_instances",
            org_id=ORG,
            definition_id=version.id,
            definition_version=version.version,
            definition_hash=version.compiled_hash,
            workflow_id=version.key,
        )
    return row["id"]


OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(".step-node, .way-label")].map((node) => {
    const {left, right, top, bottom} = node.getBoundingClientRect();
    return {name: node.textContent, left, right, top, bottom};
  });
  const found = [];
  boxes.forEach((a, place) => boxes.slice(place + 1).forEach((b) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 1) found.push(`${a.name} | ${b.name}`);
  }));
  return {found, steps: document.querySelectorAll(".step-node").length};
}"""


async def drawn(page: Page) -> Any:
    await expect(page.locator(".step-node").first).to_be_visible()
    return await page.evaluate(OVERLAPS)


def renewed(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a template with a version of its contract that the company has not published."""
    if "contract" in part:
        return part | {"version": 7}
    return part | {"base": part["base"] | {"envelope_version": 7}} if "patch" in part else part


async def test_the_diagram_of_each_template_has_no_overlap(desktop: Desktop, company: Company) -> None:
    page = await desktop.open("olga", "/instances")
    for name, template in templates().items():
        sources = [
            source
            for file, text in template.files.items()
            if file.endswith(".yaml")
            for source in read_sources(text, file)
        ]
        parts = sorted((renewed(source.data) for source in sources), key=lambda part: "contract" not in part)
        published = [
            await publish(company.database, part, ORG)
            for part in parts
            if part.keys() & {"contract", "patch", "flow"}
        ]
        await page.goto(f"/instances/{await instance_at_rest(company, published[-1])}?view=diagram")
        found = await drawn(page)
        assert found["found"] == [], name
        assert found["steps"] > 3, name
