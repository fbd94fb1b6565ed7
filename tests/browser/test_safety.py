"""What other pages, other people and hostile texts try on the pages: cookies, forms, frames, scripts, addresses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from tests.authored import END, arrows
from tests.browser.company import Company, serving_company
from tests.browser.seat import Desktop
from tests.rows import insert_effect
from tests.world import publish_steps, request_id

pytestmark = pytest.mark.long

HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'


async def test_sign_in_with_a_key_leads_to_where_the_reader_wanted_and_sign_out_ends_it(
    desktop: Desktop, company: Company
) -> None:
    view = await company.invoice("INV-1")
    context = await desktop.context()
    page = await context.new_page()
    await page.goto(f"/inbox/{request_id(view, 'one')}")
    desktop.expected = ("401",)
    await page.get_by_label("API key").fill("ak_not-a-key")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("Code API_KEY_REFUSED")).to_be_visible()
    await page.get_by_label("API key").fill(await company.key_of("fin"))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="INV-1")).to_be_visible()
    (cookie,) = await context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert await page.evaluate("document.cookie") == ""
    await page.get_by_role("button", name="Finley Fischer").click()
    await page.get_by_role("menuitem", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await context.cookies() == []
    # Who has kept the token has nothing of it.
    await context.add_cookies([cookie])
    assert (await context.request.get("/api/session")).status == 401


async def test_a_member_who_is_deactivated_is_signed_out_where_they_are(
    desktop: Desktop, company: Company
) -> None:
    page = await desktop.open("fin")
    desktop.expected = ("403", "401")
    async with company.database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.sessions SET revoked_at = now() WHERE org_id = 'acme' AND user_id = 'fin'"
        )
    await page.reload()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:window.broken=1", "/inbox"],
)
async def test_the_sign_in_leads_to_no_other_server(desktop: Desktop, company: Company, to: str) -> None:
    context = await desktop.context()
    page = await context.new_page()
    await page.goto("/sign-in")
    await page.goto(f"/sign-in?to={to}")
    await page.get_by_label("API key").fill(await company.key_of("fin"))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    assert page.url == f"{company.address}/inbox"
    assert await page.evaluate("window.broken") is None


async def test_texts_of_others_are_texts(desktop: Desktop, company: Company) -> None:
    view = await company.invoice(HOSTILE[:40], vendor_id=HOSTILE, cost_center="javascript:window.broken=1")
    async with company.database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET name = $1 WHERE org_id = 'acme' AND user_id = 'ann'", HOSTILE
        )
    ann = company.runtime.org("acme", company.actor("ann"))
    assert view.entity_id is not None
    await ann.comments.add(view.entity_id, HOSTILE)
    page = await desktop.open("fin", f"/inbox/{request_id(view, 'one')}")
    await expect(page.get_by_role("definition").get_by_text(HOSTILE)).to_be_visible()
    said = page.get_by_role("listitem").get_by_role("paragraph").get_by_text(HOSTILE)
    await expect(said.first).to_be_visible()
    before = await said.count()
    await page.get_by_label("Write a comment or a question").fill(HOSTILE)
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(said).to_have_count(before + 1)
    await page.get_by_label("Reason (optional)").fill(HOSTILE)
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    await page.goto(f"/documents/invoice/{view.entity_id}")
    for tab in ("Approvals", "Audit", "Versions", "Content"):
        await page.get_by_role("tab", name=tab).click()
        await expect(page.get_by_role("tabpanel")).to_be_visible()
    assert await page.evaluate("window.broken") is None
    assert await page.locator("main img, main script").count() == 0


async def test_texts_of_authors_and_errors_are_texts_on_the_screens_of_operators(
    desktop: Desktop, company: Company
) -> None:
    steps = [
        {"id": "ask", "type": "action", "label": HOSTILE},
        {"id": "size", "type": "condition", "label": HOSTILE},
        {"id": "check", "type": "form", "label": HOSTILE, "assignee": {"rule": "workflow.clerk"}},
        END,
    ]
    ways = [
        {"from": "ask", "event": "completed", "to": "size"},
        {"from": "size", "to": "end", "condition": "workflow.name == '<script>'", "priority": 1},
        {"from": "size", "to": "check", "priority": 2},
        *arrows("check", "end"),
    ]
    await publish_steps(company.database, "hostile", steps, ways)
    ann = company.runtime.org("acme", company.actor("ann"))
    view = await ann.instances.start("hostile", {"name": HOSTILE, "clerk": HOSTILE})
    await ann.instances.advance(view.id, "completed")
    async with company.database.transaction(None) as connection:
        await insert_effect(connection, org_id="acme", status="dead", lane="email", error=HOSTILE)
        await connection.execute(
            "UPDATE assent.workflow_instances SET incident = incident || jsonb_build_object('message', $2::text)"
            " WHERE org_id = 'acme' AND id = $1",
            view.id,
            HOSTILE,
        )
    page = await desktop.open("olga", f"/instances/{view.id}?view=diagram")
    await expect(page.locator(".step-node").filter(has_text=HOSTILE)).to_have_count(3)
    await expect(page.get_by_role("region", name="Incident", exact=True)).to_contain_text(HOSTILE)
    await page.get_by_role("tab", name="List").click()
    await expect(page.get_by_role("tabpanel")).to_contain_text(HOSTILE)
    await page.get_by_role("tab", name="Variables").click()
    await expect(page.get_by_role("tabpanel")).to_contain_text("<script>window.broken=1</script>")
    await page.locator(".timeline").get_by_role("button").filter(has_text=HOSTILE).first.click()
    await expect(page.get_by_role("region", name="Step")).to_contain_text(HOSTILE)
    for path in ("/incidents?kind=instance", "/incidents?kind=effect"):
        await page.goto(path)
        await expect(page.get_by_role("grid")).to_contain_text(HOSTILE)
    await page.goto(f"/instances?workflow={HOSTILE}&subject={HOSTILE}")
    await expect(page.get_by_role("heading", name="Nothing fits these filters")).to_be_visible()
    assert await page.evaluate("window.broken") is None
    assert await page.locator("main img, main script").count() == 0


@asynccontextmanager
async def another_origin() -> AsyncIterator[str]:
    """Serve a page on another port of this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\nconnection: close\r\n\r\nEvil"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_a_page_of_another_origin_neither_decides_nor_frames(
    desktop: Desktop, company: Company
) -> None:
    """The other page is of the same site, so the browser sends the cookie with its requests."""
    view = await company.invoice("INV-1")
    page = await desktop.open("fin")
    desktop.expected = ("CORS", "ERR_", "frame", "403", "Failed to load resource")
    decide = f"{company.address}/api/approvals/{request_id(view, 'one')}/decide"
    async with another_origin() as evil:
        replies: list[tuple[str, int]] = []
        attacker: Page = await page.context.new_page()
        attacker.on("response", lambda reply: replies.append((reply.url, reply.status)))
        await attacker.goto(evil)
        results = await attacker.evaluate(
            """async (decide) => {
                const body = JSON.stringify({answer: "approved"});
                const attempts = [
                    {method: "POST", body, mode: "no-cors", headers: {"Content-Type": "text/plain"}},
                    {method: "POST", body, headers: {"Content-Type": "application/json"}},
                    {method: "POST", body, headers: {"Content-Type": "text/plain", "Assent-Client": "web"}},
                ];
                const results = [];
                for (const attempt of attempts) {
                    try {
                        results.push((await fetch(decide, {...attempt, credentials: "include"})).type);
                    } catch (error) { results.push("refused"); }
                }
                return results;
            }""",
            decide,
        )
        assert results == ["opaque", "refused", "refused"]
        assert (decide, 403) in replies  # the first had the cookie, and was refused for where it came from
        async with attacker.expect_navigation():
            await attacker.set_content(
                f"<form action='{decide}' method='post' enctype='text/plain'>"
                """<input name='{"answer":"approved","reason":"' value='"}'></form>"""
                "<script>document.forms[0].submit()</script>"
            )
        await expect(attacker.get_by_text("ORIGIN_REFUSED")).to_be_visible()
        await attacker.goto(evil)
        await attacker.set_content(f"<iframe src='{company.address}/inbox'></iframe>")
        await expect(attacker.frame_locator("iframe").get_by_role("option")).to_have_count(0)
        frames = [frame for frame in attacker.frames if frame.url.startswith(company.address)]
        assert frames == []
        assert await company.state_of(view.entity_id) == "submitted"
        await page.get_by_role("option").click()
        await page.get_by_role("button", name="Approve").click()  # our own page can
        await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        assert await company.state_of(view.entity_id) == "active"


async def test_only_the_demo_offers_its_people(browser: Browser, database_url: str) -> None:
    async with (
        serving_company(database_url, demo=("fin",)) as company,
        Desktop.at(browser, company) as desktop,
    ):
        page = await (await desktop.context()).new_page()
        await page.goto("/")
        await page.get_by_role("button", name="Finley Fischer").click()
        await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        chosen = {"data": {"user": "max"}, "headers": {"Assent-Client": "web", "Origin": company.address}}
        # Only those who are offered, and without the demo nobody.
        assert (await page.context.request.post("/api/session", **chosen)).status == 401
        company.door.state.services.demo_people = ()
        chosen["data"] = {"user": "fin"}
        assert (await page.context.request.post("/api/session", **chosen)).status == 401
