"""A photo archive: a schedule looks for new files, triggers read them, and a join writes each one's entry.

PHOTO_FOLDER=photos python examples/photos.py          # the API and a worker; then copy PNG files into the folder
assent members add ann --org acme --role manager && assent roles save manager "schedules:*" "tasks:*" --org acme
assent schedules next inbox.scan --app photos:app --org acme --as ann
assent schedules run inbox.scan --app photos:app --org acme --as ann     # at once, and not in ten minutes
assent tasks list --app photos:app --org acme --as ann
"""

import hashlib
import json
import mimetypes
import os
import struct
from pathlib import Path
from typing import Any

import assent

app = assent.App()


def folder() -> Path:
    return Path(os.environ["PHOTO_FOLDER"])


@app.schedule("*/10 * * * *", missed="once")
@app.task("inbox.scan")
async def scan(task: assent.TaskContext) -> int:
    """Emit an event for each file. The cause makes it one event, however often a file that stays the same is seen."""
    files = [path for path in sorted(folder().iterdir()) if path.suffix != ".json"]
    found = {
        f"{path.name} {path.stat().st_mtime_ns}": {
            "name": path.name,
            "mime_type": mimetypes.guess_type(path.name)[0] or "",
            "size": path.stat().st_size,
        }
        for path in files
    }
    await task.emit_many("file.found", found)
    return len(files)


@app.trigger(on="file.found", match="mime_type = 'image/png' AND size > 0")
@app.task("photo.measure")
def measure(name: str) -> dict[str, int]:
    """Read the size of a PNG file, which stands in its first 24 bytes."""
    head = (folder() / name).read_bytes()[:24]
    if len(head) < 24 or not head.startswith(b"\x89PNG"):
        raise assent.GiveUp(f"{name} is no PNG file")
    width, height = struct.unpack(">II", head[16:24])
    return {"width": width, "height": height}


@app.trigger(on="file.found", match="mime_type startsWith 'image/'")
@app.task("photo.hash")
def checksum(name: str) -> str:
    return hashlib.sha256((folder() / name).read_bytes()).hexdigest()


@app.join("photo.measure", "photo.hash", key="input.name")
@app.task("photo.index")
def index(key: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """Write what is known of a photo beside it, when both have read it."""
    entry = {"name": key, "sha256": outputs["photo.hash"], **outputs["photo.measure"]}
    (folder() / f"{key}.json").write_text(json.dumps(entry), encoding="utf-8")
    return entry


if __name__ == "__main__":
    app.run(org="acme")
