"""How readers look at a screen: laptop, phone and 200 %, light and dark, in two languages."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page

from tests.browser.seat import LAPTOP, PHONE, violations

SCREENSHOTS: Final = os.environ.get("ASSENT_SCREENSHOTS")
"""A folder in which the screens are kept, to look at them."""


@dataclass(frozen=True)
class Look:
    """How a reader looks at a screen."""

    name: str
    options: dict[str, Any]
    checked: bool = True
    """Whether axe looks too: colours and structure are the same on every width."""


LOOKS: Final = (
    Look("laptop-light", {"viewport": LAPTOP, "color_scheme": "light"}),
    Look("laptop-dark-de", {"viewport": LAPTOP, "color_scheme": "dark", "locale": "de-DE"}),
    Look(
        "phone-light-de", {"viewport": PHONE, "color_scheme": "light", "locale": "de-DE", "is_mobile": True}
    ),
    Look("phone-dark", {"viewport": PHONE, "color_scheme": "dark", "is_mobile": True}, checked=False),
    Look("zoomed", {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}, checked=False),
)
"""640 points are the laptop of 1280 points at 200 %."""

LONG: Final = "Donaudampfschifffahrtsgesellschaftskapitänsmützenlieferant mit Außenstelle"


async def inspect(page: Page, look: Look, screen: str) -> None:
    """Keep a picture of the screen, if asked to; it has no violation, and nothing of it is cut off at the side."""
    if SCREENSHOTS:
        await page.wait_for_timeout(150)  # for the picture only
        await page.screenshot(path=Path(SCREENSHOTS) / f"{screen}-{look.name}.png")
    if look.checked:
        found = await violations(page)
        assert not found, f"{screen} {look.name}: {found}"
    wide, seen = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= seen, f"{screen} {look.name} is {wide} wide, and {seen} are seen"
