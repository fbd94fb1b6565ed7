"""The store of files: what every backend does alike, and what a folder keeps of a process that was killed."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from assent.documents.blobs import Blobs, BlobSettings, blob_key
from assent.model.mutation import Refused
from assent.model.problems import Invalid


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    url = (tmp_path / "a folder").as_uri() if request.param == "file" else "memory://"
    return Blobs(BlobSettings.defaults(blobs=url))


async def parts(*given: bytes, then: Exception | None = None) -> AsyncIterator[bytes]:
    for part in given:
        yield part
    if then is not None:
        raise then


async def read(store: Blobs, key: str, *part: int) -> bytes:
    return b"".join([each async for each in await store.fetch(key, *part)])


async def test_a_file_comes_out_as_it_went_in_whole_and_in_parts(store: Blobs) -> None:
    key, content = blob_key("acme", uuid4()), bytes(range(256)) * 40_000
    await store.store(key, parts(content[:7], content[7:]))
    assert await read(store, key) == content
    assert await read(store, key, 5) == content[5:]
    assert await read(store, key, 1_000, 1_003) == content[1_000:1_003]


async def test_nothing_is_stored_of_what_breaks_off(store: Blobs) -> None:
    key = blob_key("acme", uuid4())
    big = [b"x" * 1_000_000] * 12  # beyond two parts of a multipart upload
    with pytest.raises(ZeroDivisionError):
        await store.store(key, parts(*big, then=ZeroDivisionError()))
    with pytest.raises(Refused) as caught:
        await store.fetch(key)
    assert caught.value.rejection.code == "BLOBS_UNAVAILABLE"
    if store.folder is not None:
        assert [one for one in store.folder.rglob("*") if one.is_file()] == []


async def test_deleting_what_is_not_there_is_no_error(store: Blobs) -> None:
    key = blob_key("acme", uuid4())
    await store.store(key, parts(b"content"))
    await store.delete(key)
    await store.delete(key)
    with pytest.raises(Refused):
        await store.fetch(key)


async def test_keys_below_a_folder_are_listed_and_the_size_of_each_is_known(store: Blobs) -> None:
    keys = {f"vault/acme/{number}" for number in range(1_200)}
    for key in (*keys, "vault/acme2/0", "vault/other"):
        await store.store(key, parts(key.encode()))
    await store.store("vault/acme/empty", parts())
    assert {key async for key in store.list("vault/acme")} == {*keys, "vault/acme/empty"}
    assert [key async for key in store.list("nothing")] == []
    assert await store.size("vault/acme/7") == len("vault/acme/7")
    assert await store.size("vault/acme/empty") == 0
    assert await store.size("vault/acme") is None


async def test_a_folder_and_memory_sign_no_links(store: Blobs) -> None:
    assert await store.presigned_url(blob_key("acme", uuid4()), timedelta(minutes=1)) is None


def _leave_half(folder: Path, key: str) -> Path:
    file = folder / f"{key}#1"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"half of a fi")
    return file


async def test_what_a_killed_process_left_in_a_folder_is_deleted_with_its_key(tmp_path: Path) -> None:
    store = Blobs(BlobSettings.defaults(blobs=tmp_path.as_uri()))
    mine, other = blob_key("acme", uuid4()), blob_key("acme", uuid4())
    left = [_leave_half(tmp_path, key) for key in (mine, other)]
    await store.delete(mine)
    assert [one.exists() for one in left] == [False, True]


def test_the_key_of_a_blob_begins_with_its_org_and_leads_nowhere_else() -> None:
    blob_id = uuid4()
    assert blob_key("acme", blob_id) == f"acme/{str(blob_id)[-2:]}/{blob_id}"
    for org in ("../globex", "..", ".", "a/b", "a\\b", "ä b"):
        first, _, rest = blob_key(org, blob_id).partition("/")
        assert rest == f"{str(blob_id)[-2:]}/{blob_id}"
        assert first.isascii()
        assert not first.startswith(".")
    assert len({blob_key(org, blob_id) for org in ("a/b", "a%2Fb", "a", "A")}) == 4


def test_a_store_is_named_by_a_url_and_its_credentials_are_not_shown() -> None:
    with pytest.raises(Invalid) as caught:
        BlobSettings.defaults(blobs="ftp://user:geheim@host/x")
    assert "geheim" not in str(caught.value)
    assert "s3://bucket" in str(caught.value)
    with pytest.raises(Invalid, match="ORPHAN_AFTER"):
        BlobSettings.defaults(blob_upload_s_max=40_000, blob_orphan_after_s=50_000)


def test_without_a_setting_files_are_in_a_folder_beside_the_data_of_our_own_server(tmp_path: Path) -> None:
    settings = BlobSettings.defaults(data_dir=tmp_path / "postgres")
    assert Blobs(settings).folder == tmp_path / "postgres-files"
