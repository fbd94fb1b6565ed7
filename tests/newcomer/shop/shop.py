"""A shop that lends equipment, as a new user writes it; `assent` is the only import from Assent."""

import os
import time
from pathlib import Path

import assent

app = assent.App().add("definitions/")
app.setting("budget", {"type": "money", "min": 0})
app.setting("erp_url", {"type": "text"})


@app.operation("desk.book")
def book(connection, arguments):
    return {"booking": f"B-{arguments['number']}"}


@app.task("loans.pack", attempts_max=5)
def pack(number: int) -> dict[str, int]:
    """Note which process packs, and pack once the parcel is released."""
    Path(f"packing-{number}").write_text(str(os.getpid()))
    while not Path(f"release-{number}").exists():
        time.sleep(0.02)
    return {"grams": 900}
