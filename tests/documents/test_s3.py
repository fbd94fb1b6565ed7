"""Files in a bucket: a server that speaks S3, as a process of its own; multipart, ranges, signed links, deletion."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config

from assent.documents.blobs import Blobs, BlobSettings, blob_key
from assent.model.mutation import Refused
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.documents.test_files import PDF, parts, sweep
from tests.plain_sql import WAIT_MAX_S
from tests.world import ORG, rows

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "geheim", "AWS_REGION": "us-east-1"}
LARGE = [bytes([number]) * 1_000_000 for number in range(13)]
"""Beyond two parts of a multipart upload."""


@pytest.fixture(scope="module")
async def s3_url() -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(WAIT_MAX_S):
            while True:
                with suppress(httpx.TransportError):
                    await client.get(f"http://127.0.0.1:{port}/moto-api/")
                    break
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
def bucket(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT": s3_url, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    config = Config(retries={"max_attempts": 1})
    client = boto3.client("s3", endpoint_url=s3_url, region_name="us-east-1", config=config)
    client.create_bucket(Bucket="papers")
    yield client
    for one in client.list_objects_v2(Bucket="papers").get("Contents", ()):
        client.delete_object(Bucket="papers", Key=one["Key"])
    client.close()


@pytest.fixture
def blobs(bucket: Any) -> Blobs:
    return Blobs(BlobSettings.defaults(blobs="s3://papers/clients", blob_bytes_max=20_000_000))


async def keys(bucket: Any) -> list[str]:
    found = await asyncio.to_thread(bucket.list_objects_v2, Bucket="papers")
    return [one["Key"] for one in found.get("Contents", ())]


async def uploads(bucket: Any) -> list[Any]:
    found = await asyncio.to_thread(bucket.list_multipart_uploads, Bucket="papers")
    return list(found.get("Uploads", ()))


async def test_a_file_goes_into_a_bucket_and_comes_out_in_parts(
    compliance: Compliance, blobs: Blobs, bucket: Any
) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    small = await documents.add_version(document.id, content=PDF, file_name="Päss.pdf")
    large = await documents.add_version(document.id, content=parts(*LARGE))
    assert sorted(await keys(bucket)) == sorted(
        f"clients/{blob_key(ORG, one.blob_id)}" for one in (small, large)
    )
    opened = await compliance.by(VERA).documents.open(document.id, large.id)
    whole = b"".join(LARGE)
    assert await opened.read() == whole
    assert await opened.part(5_999_998, 6_000_003).read() == whole[5_999_998:6_000_003]
    head = await asyncio.to_thread(
        bucket.head_object, Bucket="papers", Key=f"clients/{blob_key(ORG, small.blob_id)}"
    )
    assert head["ContentType"] == "application/pdf"
    assert head["ContentDisposition"].startswith("attachment; ")


async def test_a_link_leads_to_the_bucket_and_is_an_attachment_there(
    compliance: Compliance, s3_url: str
) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    page = b"<!doctype html><script>alert(1)</script>"
    version = await documents.add_version(document.id, "text/html", content=page, file_name="a.html")
    link = await compliance.by(VERA).documents.link(document.id, version.id)
    assert link.url.startswith(s3_url)
    assert "geheim" not in link.url
    async with httpx.AsyncClient() as client:
        found = await client.get(link.url)
    assert found.content == page
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith('attachment; filename="a.html.bin"')


async def test_nothing_is_left_in_a_bucket_of_what_breaks_off_or_is_cancelled(
    compliance: Compliance, bucket: Any
) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")

    async def broken() -> AsyncIterator[bytes]:
        for part in LARGE:
            yield part
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await documents.add_version(document.id, content=broken())
    waits = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        for part in LARGE:
            yield part
        waits.set()
        await asyncio.Event().wait()

    work = asyncio.create_task(documents.add_version(document.id, content=slow()))
    await waits.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await keys(bucket) == []
    assert await uploads(bucket) == []
    assert await rows(compliance.database, "blobs") == []


async def test_an_erased_file_leaves_the_bucket(compliance: Compliance, bucket: Any) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    version = await documents.add_version(document.id, content=PDF)
    await compliance.by(LEAD).documents.erase(document.id, version.id, "asked to")
    assert dict((await sweep(compliance).run_once()).parts) == {"deleted": 1, "failed": 0}
    assert await keys(bucket) == []


async def test_a_bucket_that_is_not_there_is_an_outage_and_no_lost_file(
    compliance: Compliance, bucket: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Blobs(BlobSettings.defaults(blobs="s3://elsewhere"))
    with pytest.raises(Refused) as caught:
        await gone.store(
            blob_key(ORG, (await compliance.by(PORTAL).documents.create("a", "b")).id), parts(PDF)
        )
    assert caught.value.rejection.code == "BLOBS_UNAVAILABLE"
    assert "geheim" not in caplog.text
    assert await gone.presigned_url("acme/00/x", timedelta(minutes=1))  # signing asks nobody
