"""The application to which the modules add their tasks, and the folders that it reads and writes."""

import os
from pathlib import Path

import assent

app = assent.App()
app.resource("store").resource("model", max_concurrency=2)
for table in ("vault_containers", "vault_files", "vault_entries"):
    app.grant(table)


def inside(variable: str, name: str) -> Path:
    """Return a path below a folder of the environment; give up on one that leads out of it, also by a link."""
    folder = Path(os.environ[variable]).resolve()
    path = (folder / name).resolve()
    if path == folder or not path.is_relative_to(folder):
        raise assent.GiveUp(f"{name!r} is not below {variable}")
    return path
