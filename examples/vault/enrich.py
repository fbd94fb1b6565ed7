"""What is known of each content: triggers read it, a resource throttles the slow part, and joins write the entry.

Each content is read once, however many files of however many containers have it.
"""

import os
import re
from collections import Counter
from typing import Any

import httpx
from tinytag import TinyTag, TinyTagException

import assent
from assent.documents.reading import read_file

from . import catalog, store
from .application import app

CHARACTERS_MAX = 10_000
WORD = re.compile(r"[^\W\d_]{4,}")


@app.trigger(on="file.stored", match="mime_type startsWith 'image/' AND mime_type != 'image/svg+xml'")
@app.task("extract.exif", attempts_max=5, resources=["store"])
async def extract_exif(task: assent.TaskContext, sha256: str) -> dict[str, Any]:
    """Read the size of a picture, and what the camera has noted, in a process of its own with limits."""
    async with store.local_copy(task.org_id, sha256) as path:
        found = await read_file(path)
    if found.problem is not None:
        raise assent.GiveUp(f"it cannot be read: {found.problem}")
    return dict(found.fields)


@app.trigger(on="file.stored", match="mime_type = 'audio/mpeg'")
@app.task("extract.id3", attempts_max=5, resources=["store"])
async def extract_id3(task: assent.TaskContext, sha256: str) -> dict[str, Any]:
    async with store.local_copy(task.org_id, sha256) as path:
        try:
            tag = TinyTag.get(path, duration=False)
        except TinyTagException as error:
            raise assent.GiveUp(f"it cannot be read: {error}") from error
    found = {"title": tag.title, "artist": tag.artist, "album": tag.album, "year": tag.year}
    return {name: value for name, value in found.items() if value}


@app.trigger(on="file.stored", match="mime_type = 'text/plain' AND size > 0 OR mime_type = 'application/pdf'")
@app.task("extract.text", attempts_max=5, resources=["store"])
async def extract_text(task: assent.TaskContext, sha256: str) -> dict[str, str]:
    return {"text": await text_of(task.org_id, sha256)}


@app.trigger(on="file.stored", match="mime_type = 'text/plain' AND size > 0 OR mime_type = 'application/pdf'")
@app.task("enrichment", attempts_max=5, timeout="5m", resources=["store", "model"])
async def enrich(task: assent.TaskContext, sha256: str) -> dict[str, Any]:
    """Have a model of Ollama say what a text is about; without one, find the words that it uses most.

    Not more than two run at a time, of all orgs and on all workers, for the model serves no more.
    """
    text = await text_of(task.org_id, sha256)
    if (url := os.environ.get("OLLAMA_URL")) is None:
        return {"keywords": [word for word, _ in Counter(WORD.findall(text.lower())).most_common(10)]}
    asked = {"model": os.environ.get("OLLAMA_MODEL", "llama3.2"), "stream": False}
    asked["prompt"] = f"Say in one sentence what this text is about.\n\n{text}"
    async with httpx.AsyncClient(timeout=240) as client:
        reply = (await client.post(f"{url}/api/generate", json=asked)).raise_for_status().json()
    return {"summary": str(reply["response"])[:1_000]}


async def text_of(org_id: str, sha256: str) -> str:
    async with store.local_copy(org_id, sha256) as path:
        found = await read_file(path)
    if found.text is None:
        raise assent.GiveUp(f"it cannot be read: {found.problem or 'it has no text'}")
    return found.text.replace("\x00", "")[:CHARACTERS_MAX]


@app.join("extract.exif", key="input.sha256", name="index.picture")
@app.join("extract.id3", key="input.sha256", name="index.audio")
@app.join("extract.text", "enrichment", key="input.sha256", name="index.text")
@app.task("search.index", resources=["store"])
async def index(task: assent.TaskContext, key: str, outputs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Write the entry of a content when all have ended that read it: to the store, and to the index."""
    facts = {name: value for output in outputs.values() for name, value in output.items()}
    entry = {"sha256": key, "facts": facts}
    await store.keep_json(task.org_id, "entries", key, entry)
    async with task.transaction() as connection:
        await catalog.insert_entries(connection, [entry])
    return {"sha256": key, "known": sorted(facts)}
