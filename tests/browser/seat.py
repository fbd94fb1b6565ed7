"""People before their screens: each has a browser profile of their own, and every complaint of a page is noted."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Self

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.browser.chromium import AXE
from tests.browser.company import Company
from tests.world import ORG

LAPTOP: Final = {"width": 1440, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
expect.set_options(timeout=10_000)


class Desktop:
    """Opens pages for people of a company."""

    def __init__(self, browser: Browser, company: Company, stack: AsyncExitStack) -> None:
        self._browser = browser
        self._stack = stack
        self.company = company
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Parts of complaints that a test provokes."""

    @classmethod
    @asynccontextmanager
    async def at(cls, browser: Browser, company: Company) -> AsyncIterator[Self]:
        async with AsyncExitStack() as stack:
            desktop = cls(browser, company, stack)
            yield desktop
        found = [text for text in desktop.complaints if not any(part in text for part in desktop.expected)]
        assert not found, found

    async def context(self, **options: Any) -> BrowserContext:
        """Return a browser profile of its own."""
        options = {"viewport": LAPTOP, "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        context = await self._browser.new_context(base_url=self.company.address, **options)
        self._stack.push_async_callback(context.close)
        context.on("console", self._note)
        context.on("weberror", lambda error: self.complaints.append(f"error: {error.error}"))
        return context

    async def open(self, user: str, path: str = "/inbox", org: str = ORG, **options: Any) -> Page:
        """Return a page of a person who is signed in already."""
        context = await self.context(**options)
        token, address = await self.company.session_of(user, org), self.company.address
        await context.add_cookies(
            [{"name": "assent", "value": token, "url": address, "httpOnly": True, "sameSite": "Strict"}]
        )
        page = await context.new_page()
        await page.goto(path)
        await expect(page.get_by_role("banner")).to_be_visible()
        return page

    def _note(self, message: ConsoleMessage) -> None:
        # The browser notes every reply that is no success; that of a session that is not there is asked for.
        if message.type in ("error", "warning") and "401" not in message.text:
            self.complaints.append(f"{message.type}: {message.text} {message.location.get('url', '')}")


async def violations(page: Page) -> list[str]:
    """Return what axe finds wrong with a page."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text(encoding="utf-8"))
    # A colour that is on its way to another has no contrast of its own.
    await page.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished))")
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
