"""Files in a bucket of S3, Google or Azure, each a process of its own; multipart, ranges, signed links, deletion."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import unquote

import httpx
import pytest

from assent.documents.blobs import Blobs, BlobSettings, blob_key
from assent.model.mutation import Refused
from tests.documents.buckets import PROVIDERS, Bucket, bucket_server
from tests.documents.conftest import LEAD, PORTAL, VERA, Compliance
from tests.documents.test_files import PDF, parts, sweep
from tests.world import ORG, rows

LARGE = [bytes([number]) * 1_000_000 for number in range(13)]
"""Beyond two parts of a multipart upload."""

pytestmark = pytest.mark.timeout(600)  # the first run installs what is locked


@pytest.fixture(scope="module", params=PROVIDERS)
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Bucket]:
    async with bucket_server(request.param) as address:
        yield PROVIDERS[request.param](address)


@pytest.fixture
async def bucket(served: Bucket, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    for name, value in served.variables.items():
        monkeypatch.setenv(name, value)
    await served.create()
    yield served
    await served.empty()


@pytest.fixture
def blobs(bucket: Bucket) -> Blobs:
    return Blobs(BlobSettings.defaults(blobs=bucket.url, blob_bytes_max=20_000_000))


async def test_a_file_goes_into_a_bucket_and_comes_out_in_parts(
    compliance: Compliance, blobs: Blobs, bucket: Bucket
) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    small = await documents.add_version(document.id, content=PDF, file_name="Päss.pdf")
    large = await documents.add_version(document.id, content=parts(*LARGE))
    assert sorted(await bucket.keys()) == sorted(
        f"clients/{blob_key(ORG, one.blob_id)}" for one in (small, large)
    )
    opened = await compliance.by(VERA).documents.open(document.id, large.id)
    whole = b"".join(LARGE)
    assert await opened.read() == whole
    assert await opened.part(5_999_998, 6_000_003).read() == whole[5_999_998:6_000_003]
    content_type, disposition = await bucket.head(f"clients/{blob_key(ORG, small.blob_id)}")
    assert content_type == "application/pdf"
    assert disposition.startswith("attachment; ")


async def test_a_link_leads_to_the_bucket_and_is_an_attachment_there(
    compliance: Compliance, bucket: Bucket
) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    page = b"<!doctype html><script>alert(1)</script>"
    version = await documents.add_version(document.id, "text/html", content=page, file_name="a.html")
    link = await compliance.by(VERA).documents.link(document.id, version.id)
    assert link.url.startswith(bucket.server)
    assert bucket.secret not in unquote(link.url)
    async with httpx.AsyncClient() as client:
        found = await client.get(link.url)
    assert found.content == page
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith('attachment; filename="a.html.bin"')


async def test_nothing_is_left_in_a_bucket_of_what_breaks_off_or_is_cancelled(
    compliance: Compliance, bucket: Bucket
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
    assert await bucket.keys() == []
    if bucket.ends_uploads:
        assert await bucket.uploads() == []
    assert await rows(compliance.database, "blobs") == []


async def test_an_erased_file_leaves_the_bucket(compliance: Compliance, bucket: Bucket) -> None:
    documents = compliance.by(PORTAL).documents
    document = await documents.create("passport", "c-1")
    version = await documents.add_version(document.id, content=PDF)
    await compliance.by(LEAD).documents.erase(document.id, version.id, "asked to")
    assert dict((await sweep(compliance).run_once()).parts) == {"deleted": 1, "failed": 0}
    assert await bucket.keys() == []


async def test_a_bucket_that_is_not_there_is_an_outage_and_no_lost_file(
    compliance: Compliance, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Blobs(BlobSettings.defaults(blobs=f"{bucket.url.partition('papers')[0]}elsewhere"))
    with pytest.raises(Refused) as caught:
        await gone.store(
            blob_key(ORG, (await compliance.by(PORTAL).documents.create("a", "b")).id), parts(PDF)
        )
    assert caught.value.rejection.code == "BLOBS_UNAVAILABLE"
    assert bucket.secret not in caplog.text
    assert await gone.presigned_url("acme/00/x", timedelta(minutes=1))  # signing asks nobody
