"""Take a container in as blobs and a manifest, and make the container again from them.

`ingest.container` reads a file below VAULT_INBOX, `reconstruct.container` writes one below VAULT_OUTBOX. A container in
a container is taken in by a trigger.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import assent

from . import catalog, store
from .application import app, inside
from .containers import cut


@app.task("ingest.container", timeout="1h", resources=["store"])
async def ingest(task: assent.TaskContext, source: str) -> dict[str, Any]:
    return await take_in(task, await asyncio.to_thread(inside, "VAULT_INBOX", source))


@app.trigger(on="file.stored", match="mime_type = 'application/zip' OR mime_type = 'application/x-tar'")
@app.task("ingest.nested", timeout="1h", resources=["store"])
async def ingest_nested(task: assent.TaskContext, sha256: str) -> dict[str, Any]:
    return await take_in(task, sha256)


async def take_in(task: assent.TaskContext, source: str | Path) -> dict[str, Any]:
    """Keep the blobs, then the manifest that names them, then the rows: an attempt that fails has promised nothing."""
    async with store.local_copy(task.org_id, source) as path:
        manifest, parts = await asyncio.to_thread(cut, path, path.parent)
        for number, part in enumerate(parts, 1):
            await store.keep(task.org_id, part)
            task.progress(number / len(parts), f"{number} of {len(parts)} blobs")
    await store.keep_json(task.org_id, "manifests", manifest["sha256"], manifest)
    contents = {file["sha256"]: {name: file[name] for name in FOUND} for file in manifest["files"]}
    async with task.transaction() as connection:
        await catalog.insert_containers(connection, [manifest])
    await task.emit_many(
        "file.stored", contents
    )  # an event for each content, once, wherever it is found again
    return {"container": manifest["sha256"], "files": len(manifest["files"]), "contents": len(contents)}


FOUND = ("sha256", "mime_type", "size")


@app.task("reconstruct.container", timeout="1h", resources=["store"])
async def reconstruct(task: assent.TaskContext, container: str, output: str) -> dict[str, Any]:
    """Write a container as it was; the file appears when every blob and the whole have the hash that they had."""
    target = await asyncio.to_thread(inside, "VAULT_OUTBOX", output)
    manifest = await store.fetch_json(task.org_id, "manifests", container)
    with tempfile.TemporaryDirectory(prefix=".vault-", dir=target.parent) as folder:
        path, frame = Path(folder) / "container", Path(folder) / "frame"
        await store.write(frame, store.fetch(task.org_id, manifest["frame"]))
        digest = hashlib.sha256()

        async def content() -> AsyncIterator[bytes]:
            async for chunk in pieces(task.org_id, manifest, frame):
                digest.update(chunk)
                yield chunk

        await store.write(path, content())
        if digest.hexdigest() != container:
            raise assent.GiveUp(f"what came out is {digest.hexdigest()}, and not {container}")
        await asyncio.to_thread(path.replace, target)
    return {"output": output, "sha256": container, "verified": True}


async def pieces(org_id: str, manifest: dict[str, Any], frame: Path) -> AsyncIterator[bytes]:
    """Return the bytes of a container: of its frame and its files in turn."""
    start = 0
    for sha256, size in manifest["pieces"]:
        if sha256 is None:
            for chunk in store.chunks(frame, start, size):
                yield chunk
            start += size
        else:
            async for chunk in store.fetch(org_id, sha256):
                yield chunk
