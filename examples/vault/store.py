"""Blobs under the SHA-256 of their content, in the store in which documents are: a folder or a bucket (ASSENT_BLOBS).

What has the same content is there once. Nothing is ever changed, so a blob that is there needs no lock. The store is
the truth: the tables of `schema.sql` can be made again from it.
"""

import asyncio
import hashlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import assent

CHUNK_BYTES = 1024 * 1024

blobs = assent.Blobs()


@dataclass(frozen=True)
class Part:
    """Bytes of a file that become a blob."""

    path: Path
    start: int
    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path, start: int = 0, size: int | None = None) -> "Part":
        """Return a part of a file, or all of it, with its hash; it reads the file."""
        length = path.stat().st_size - start if size is None else size
        digest = hashlib.sha256()
        for chunk in chunks(path, start, length):
            digest.update(chunk)
        return cls(path, start, length, digest.hexdigest())


def chunks(path: Path, start: int, size: int) -> Iterator[bytes]:
    with path.open("rb") as opened:
        opened.seek(start)
        while size and (chunk := opened.read(min(size, CHUNK_BYTES))):
            size -= len(chunk)
            yield chunk


async def keep(org_id: str, part: Part) -> None:
    """Write a blob, unless it is there."""
    key = _key(org_id, "blobs", part.sha256)
    if await blobs.size(key) is None:
        await blobs.store(key, _in_thread(chunks(part.path, part.start, part.size)))


async def fetch(org_id: str, sha256: str) -> AsyncIterator[bytes]:
    """Return the bytes of a blob; give up after the last if they are not those that were kept."""
    digest = hashlib.sha256()
    async for chunk in await blobs.fetch(_key(org_id, "blobs", sha256)):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != sha256:
        raise assent.GiveUp(f"blob {sha256} is damaged")


@asynccontextmanager
async def local_copy(org_id: str, source: str | Path) -> AsyncIterator[Path]:
    """Copy a blob, or a file that others may write to, to where it stays as it is until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="vault-") as folder:
        path = Path(folder) / "copy"
        if isinstance(source, Path):
            await asyncio.to_thread(shutil.copyfile, source, path)
        else:
            await write(path, fetch(org_id, source))
        yield path


async def write(path: Path, content: AsyncIterator[bytes]) -> None:
    opened = await asyncio.to_thread(path.open, "wb")
    try:
        async for chunk in content:
            await asyncio.to_thread(opened.write, chunk)
    finally:
        await asyncio.to_thread(opened.close)


async def keep_json(org_id: str, kind: str, sha256: str, value: Any) -> None:
    """Keep what is known of a blob: a manifest, or an entry of the index."""
    await blobs.store(_key(org_id, kind, sha256), _in_thread(iter([json.dumps(value).encode()])))


async def fetch_json(org_id: str, kind: str, sha256: str) -> Any:
    found = await blobs.fetch(_key(org_id, kind, sha256))
    return json.loads(b"".join([chunk async for chunk in found]))


async def list_kept(org_id: str, kind: str) -> list[str]:
    """Return the SHA-256 of all blobs, manifests or entries."""
    return sorted([key.rpartition("/")[2] async for key in blobs.list(_folder(org_id, kind))])


def _folder(org_id: str, kind: str) -> str:
    return f"vault/{quote(org_id, safe='').replace('.', '%2E')}/{kind}"


def _key(org_id: str, kind: str, sha256: str) -> str:
    return f"{_folder(org_id, kind)}/{sha256[:2]}/{sha256}"


async def _in_thread(found: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (chunk := await asyncio.to_thread(next, found, None)) is not None:
        yield chunk
