"""Files on a server that runs as a process of its own: cut off, killed, slow and large."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from assent.app import App
from assent.documents.blobs import Blobs, BlobSettings
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.blobs import BlobSweep
from assent.worker.duty import WorkerContext
from tests.http.process import ServeProcess, server
from tests.plain_sql import WAIT_MAX_S
from tests.world import hire_with, insert_org, rows

MEGABYTE = 1_048_576
LARGE_BYTES = int(os.environ.get("ASSENT_TEST_LARGE_FILE_MB", "256")) * MEGABYTE
"""As large as there is time for everywhere; the variable takes another size, such as 1024."""
GROWTH_BYTES_MAX = 96 * MEGABYTE
"""By how much a server may grow while a large file goes through it, in and out."""
PART = bytes(range(256)) * 1_024


@dataclass
class FileDesk:
    """A server with a store of files, and a client who may do everything with documents."""

    url: str
    database: Database
    clock: MovedClock
    blobs: Blobs
    server: ServeProcess
    client: httpx.AsyncClient

    async def place(self) -> str:
        body = {"document_type": "passport", "subject": "c-1"}
        made = await self.client.post("/api/documents", json=body)
        return f"/api/documents/{made.json()['id']}/versions"

    def files(self) -> list[Path]:
        assert self.blobs.folder is not None
        return [one for one in self.blobs.folder.rglob("*") if one.is_file()]

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for what must happen in another process."""
        async with asyncio.timeout(WAIT_MAX_S):
            while not await holds():  # noqa: ASYNC110  another process sets no event of ours
                await asyncio.sleep(0.02)

    async def has_files(self, count: int) -> bool:
        return len(self.files()) == count

    async def open_raw(self, place: str, length: int) -> asyncio.StreamWriter:
        """Begin an upload, and leave it to the caller how it goes on."""
        address = urlsplit(self.server.url)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        sign_in = self.client.headers["authorization"]
        head = (
            f"PUT {place}?name=a.pdf HTTP/1.1",
            f"Host: {address.netloc}",
            f"Authorization: {sign_in}",
            f"Content-Length: {length}",
        )
        writer.write("\r\n".join((*head, "", "")).encode())
        await writer.drain()
        return writer


@pytest.fixture
async def desk(
    database_url: str, database: Database, clock: MovedClock, tmp_path: Path
) -> AsyncIterator[FileDesk]:
    async with running(database_url, database, clock, tmp_path) as found:
        yield found


@asynccontextmanager
async def running(
    url: str, database: Database, clock: MovedClock, folder: Path, **variables: str
) -> AsyncIterator[FileDesk]:
    async with database.transaction(None) as connection:
        await insert_org(connection)
    await hire_with(database, "olga", "documents:*")
    blobs = Blobs(BlobSettings.defaults(blobs=folder.joinpath("files").as_uri()))
    given = {"ASSENT_BLOBS": blobs.settings.place, "ASSENT_BLOB_BYTES_MAX": str(2 * LARGE_BYTES)} | variables
    async with server(url, **given) as started, started.client("olga") as client:
        yield FileDesk(url, database, clock, blobs, started, client)


async def test_a_connection_that_is_cut_while_a_file_comes_leaves_nothing(desk: FileDesk) -> None:
    writer = await desk.open_raw(await desk.place(), 50 * MEGABYTE)
    for _ in range(40):  # more than one part of a multipart upload
        writer.write(PART)
        await writer.drain()
    await desk.until(lambda: desk.has_files(1))
    assert len(await rows(desk.database, "blobs")) == 1
    writer.transport.abort()

    async def is_gone() -> bool:
        return not desk.files() and not await rows(desk.database, "blobs")

    await desk.until(is_gone)
    assert await rows(desk.database, "document_versions") == []


async def test_a_server_that_is_killed_while_a_file_comes_leaves_what_a_worker_sweeps(desk: FileDesk) -> None:
    kept = await desk.client.put(await desk.place(), content=PART)
    assert kept.status_code == 201, kept.text
    writer = await desk.open_raw(await desk.place(), 50 * MEGABYTE)
    for _ in range(40):
        writer.write(PART)
        await writer.drain()
    await desk.until(lambda: desk.has_files(2))
    await desk.server.kill()
    writer.transport.abort()
    statuses = sorted(row["status"] for row in await rows(desk.database, "blobs"))
    assert statuses == ["kept", "uploading"]
    assert len(await rows(desk.database, "document_versions")) == 1
    assert len(desk.files()) == 2  # half a file
    sweep = BlobSweep(WorkerContext(desk.database, runtime=App().runtime(desk.database, desk.blobs)))
    assert (await sweep.run_once()).count == 0
    # The row is dated by the clock of the server that was killed, which no test moves.
    desk.clock.advance(datetime.now(UTC) - desk.clock.now() + timedelta(days=2))
    assert (await sweep.run_once()).count == 1
    (row,) = await rows(desk.database, "blobs")
    assert row["status"] == "kept"
    assert [one.name for one in desk.files()] == [str(row["id"])]


async def test_a_slow_file_comes_through_and_one_that_trickles_is_cut(
    database_url: str, database: Database, clock: MovedClock, tmp_path: Path
) -> None:
    """The time limit of a body holds for each part of a file, and not for all of it."""
    async with running(database_url, database, clock, tmp_path, ASSENT_HTTP_BODY_TIMEOUT_S="2") as desk:

        async def slow() -> AsyncIterator[bytes]:
            for _ in range(8):
                yield PART
                await asyncio.sleep(0.5)

        began = asyncio.get_running_loop().time()
        answer = await desk.client.put(await desk.place(), content=slow())
        assert answer.status_code == 201, answer.text
        assert asyncio.get_running_loop().time() - began > 3
        writer = await desk.open_raw(await desk.place(), 50 * MEGABYTE)
        with suppress(ConnectionError):
            async with asyncio.timeout(WAIT_MAX_S):
                while not writer.transport.is_closing():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.1)

        async def is_gone() -> bool:
            return len(await rows(desk.database, "blobs")) == 1

        await desk.until(is_gone)
        assert len(desk.files()) == 1


async def test_a_reader_that_goes_away_ends_its_download(desk: FileDesk) -> None:
    place = await desk.place()
    version = (await desk.client.put(place, content=parts(64 * MEGABYTE))).json()["id"]
    process = psutil.Process(desk.server.pid)
    async with desk.client.stream("GET", f"{place}/{version}/content") as answer:
        async for _ in answer.aiter_bytes():
            break

    async def is_closed() -> bool:
        return not [one for one in process.open_files() if "/files/" in one.path]

    await desk.until(is_closed)


async def parts(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // len(PART)):
        yield PART


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_large_file_goes_in_and_out_in_flat_memory(
    desk: FileDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    process = psutil.Process(desk.server.pid)
    place = await desk.place()
    await desk.client.put(place, content=PART)  # what is loaded once is loaded now
    before, highest, loop = process.memory_info().rss, [0], asyncio.get_running_loop()

    async def watch() -> None:
        while True:
            highest[0] = max(highest[0], process.memory_info().rss)
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    began = loop.time()
    answer = await desk.client.put(place, content=parts(LARGE_BYTES), timeout=600)
    assert answer.status_code == 201, answer.text
    came_s, began = loop.time() - began, loop.time()
    digest = hashlib.sha256()
    version = answer.json()["id"]
    async with desk.client.stream("GET", f"{place}/{version}/content", timeout=600) as found:
        size = 0
        async for part in found.aiter_bytes():
            size += len(part)
            digest.update(part)
    went_s = loop.time() - began
    watching.cancel()
    grown = highest[0] - before
    with capsys.disabled():
        memory = f"{before // MEGABYTE} MiB before, {highest[0] // MEGABYTE} MiB at most"
        print(f"\n{LARGE_BYTES // MEGABYTE} MiB in {came_s:.1f} s, out {went_s:.1f} s; server {memory}")
    assert size == LARGE_BYTES
    assert found.headers["etag"] == f'"{digest.hexdigest()}"'
    assert grown < GROWTH_BYTES_MAX, f"grew by {grown / MEGABYTE:.0f} MiB"
