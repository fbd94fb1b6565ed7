"""A real Chromium: the system's, or the one that the locked packages of this folder bring."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, async_playwright

from assent.store.embedded.file_lock import FileLock

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "web"))
import build  # noqa: E402

INSTALLED: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPACKED: Final = HERE / "node_modules" / ".chromium"
AXE: Final = HERE / "node_modules" / "axe-core" / "axe.min.js"


def program() -> str:
    """Return the path of a Chromium; where the system has none, unpack that of the package, once for all workers."""
    with FileLock.exclusive(HERE / "package.json"):
        build.install(HERE)
        for name in INSTALLED:
            if (found := shutil.which(name)) is not None:
                return found
        return _unpack()


def _unpack() -> str:
    UNPACKED.mkdir(exist_ok=True)
    script = "import('@sparticuz/chromium').then(async (m) => console.log(await m.default.executablePath()))"
    said = subprocess.run(
        [*build.node(), "--input-type=module", "-e", script],
        cwd=HERE,
        env={**os.environ, "TMPDIR": str(UNPACKED)},
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.strip()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser until the end of the block."""
    async with async_playwright() as playwright:
        # Tests also run as root, where Chromium's own sandbox does not start.
        arguments = ["--no-sandbox", "--no-zygote", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path=program(), args=arguments)
        try:
            yield browser
        finally:
            await browser.close()
