"""The index in SQL: what is in which container, and what is known of each content. All of it comes from the store.

`rebuild.index` deletes the rows of its org and makes them again, up to 200 manifests or entries in each subtask.
"""

from collections.abc import Sequence
from typing import Any, Literal

import assent

from . import store
from .application import app

BATCH = 200

CONTAINERS = """
INSERT INTO public.vault_containers (sha256, kind, size)
SELECT sha256, kind, size FROM jsonb_to_recordset($1) AS m (sha256 text, kind text, size bigint)
ON CONFLICT DO NOTHING
"""
FILES = """
INSERT INTO public.vault_files (container, place, name, sha256, mime_type, size)
SELECT container, place, name, sha256, mime_type, size
  FROM jsonb_to_recordset($1)
       AS f (container text, place integer, name text, sha256 text, mime_type text, size bigint)
ON CONFLICT DO NOTHING
"""
ENTRIES = """
INSERT INTO public.vault_entries (sha256, facts)
SELECT sha256, facts FROM jsonb_to_recordset($1) AS e (sha256 text, facts jsonb)
ON CONFLICT (org_id, sha256) DO UPDATE SET facts = excluded.facts
"""
DELETE = """
WITH containers AS (DELETE FROM public.vault_containers), files AS (DELETE FROM public.vault_files)
DELETE FROM public.vault_entries
"""
FIND = """
SELECT f.name, f.container, f.mime_type, f.sha256, e.facts
  FROM public.vault_entries AS e JOIN public.vault_files AS f USING (org_id, sha256)
 WHERE e.words @@ websearch_to_tsquery('simple', $1)
 ORDER BY f.name, f.container, f.place LIMIT $2
"""


async def insert_containers(connection: assent.Connection, manifests: Sequence[dict[str, Any]]) -> None:
    """Insert containers and their files, in two statements; what is there already stays."""
    files = [
        file | {"container": manifest["sha256"], "place": place}
        for manifest in manifests
        for place, file in enumerate(manifest["files"])
    ]
    await connection.execute(CONTAINERS, manifests)
    await connection.execute(FILES, files)


async def insert_entries(connection: assent.Connection, entries: Sequence[dict[str, Any]]) -> None:
    await connection.execute(ENTRIES, entries)


@app.task("vault.find")
async def find(task: assent.TaskContext, words: str, limit: int = 100) -> list[dict[str, Any]]:
    """Find files by the words of their content."""
    async with task.transaction() as connection:
        return [dict(row) for row in await connection.fetch(FIND, words, limit)]


@app.task("rebuild.index", timeout="1h", resources=["store"])
class Rebuild:
    async def on_start(self, task: assent.TaskContext) -> assent.Blocked | dict[str, int]:
        async with task.transaction() as connection:
            await connection.execute(DELETE)
        for kind in ("manifests", "entries"):
            kept = await store.list_kept(task.org_id, kind)
            for first in range(0, len(kept), BATCH):
                task.subtask(rebuild_part, {"kind": kind, "kept": kept[first : first + BATCH]})
        return assent.Blocked() if task.made else {"manifests": 0, "entries": 0}

    async def on_resume(self, task: assent.TaskContext) -> dict[str, int]:
        found = {"manifests": 0, "entries": 0}
        for part in task.subtasks:
            found[part.output["kind"]] += part.output["number"]
        return found


@app.task("rebuild.part", timeout="10m", resources=["store"])
async def rebuild_part(
    task: assent.TaskContext, kind: Literal["manifests", "entries"], kept: list[str]
) -> dict[str, Any]:
    found = [await store.fetch_json(task.org_id, kind, sha256) for sha256 in kept]
    insert = insert_containers if kind == "manifests" else insert_entries
    async with task.transaction() as connection:
        await insert(connection, found)
    return {"kind": kind, "number": len(found)}
