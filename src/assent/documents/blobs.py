"""Where the bytes of files are: one interface to a folder, memory, or a bucket of S3, Google or Azure, by obstore.

Keys of documents begin with the org and end with an id that is used once. `files.py` keeps bytes and rows together.
Applications have keys of their own in the same store.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

from pydantic import AfterValidator, model_validator
from pydantic_settings import SettingsConfigDict

from assent.model.mutation import Refused, Rejection
from assent.model.parse import shown
from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_log = logging.getLogger(__name__)

SCHEMES: Final = ("file", "memory", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
SIGNING_SCHEMES: Final = frozenset(SCHEMES) - {"file", "memory"}
PART_BYTES: Final = 5 * 1024 * 1024
"""The parts in which bytes go to a store: the smallest that S3 takes."""
PARTS_AT_ONCE: Final = 2
"""Of one upload: its memory is this many parts, and one that fills."""
GIVE_UP_WITHIN_S: Final = 10.0
"""How long a store may take to abandon an upload that was cancelled."""
READ_BYTES: Final = 256 * 1024
"""The parts in which bytes come out of a store."""
NOT_THERE: Final = "files take the extra `files`: pip install 'assent[files]'"


def _check_store(url: str) -> str:
    # The URL is not shown: it may hold credentials.
    if urlsplit(url).scheme not in SCHEMES:
        raise ValueError("expected file:///folder, memory://, s3://bucket, gs://bucket or az://container")
    return url


def _check_public(url: str) -> str:
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"expected a URL such as https://assent.example.com, found {shown(url)}")
    return url.rstrip("/")


class BlobSettings(EnvironmentSettings):
    """Settings of files; the field `blob_bytes_max` is the variable `ASSENT_BLOB_BYTES_MAX`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_")

    blobs: Annotated[str, AfterValidator(_check_store)] | None = None
    """Where files are kept: `file:///folder`, `memory://`, `s3://bucket/prefix`, `gs://…`, `az://…`.

    Credentials are in the variables of each provider, such as `AWS_ACCESS_KEY_ID`. Without it, files are in a folder
    beside our own server's data."""
    data_dir: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    blob_bytes_max: int = number(104_857_600, 1, 5_497_558_138_880)
    """The size of one file; an org can have a lower limit, by its setting `blob_bytes_max`."""
    blob_upload_s_max: int = number(3_600, 1, 43_200)
    """How long one upload may take."""
    blob_orphan_after_s: int = number(86_400, 60, 2_592_000)
    """After how long an upload that came to nothing is deleted; at least twice `blob_upload_s_max`."""
    blob_presign: Literal["on", "off"] = "on"
    """Whether a link to a file leads to the bucket, where the store signs links; else to this server."""
    blob_link_s: int = number(300, 10, 604_800)
    """How long a link to a file holds."""
    public_url: Annotated[str, AfterValidator(_check_public)] = ""

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if self.blob_orphan_after_s < 2 * self.blob_upload_s_max:
            message = f"expected at least {2 * self.blob_upload_s_max}, found {self.blob_orphan_after_s}"
            raise Invalid([self.bad("blob_orphan_after_s", message)])
        return self

    @property
    def place(self) -> str:
        """Return the URL of the store."""
        if self.blobs is not None:
            return self.blobs
        from assent.store.embedded.server import default_data_dir  # noqa: PLC0415  it loads what starts a server

        folder = (self.data_dir or default_data_dir()).absolute()
        return folder.with_name(f"{folder.name}-files").as_uri()


def blob_key(org_id: str, blob_id: UUID) -> str:
    """Return where the bytes of a blob are in the store: the org first, so that an org can move by its prefix."""
    org = quote(org_id, safe="")
    return f"{org.replace('.', '%2E') if org.startswith('.') else org}/{str(blob_id)[-2:]}/{blob_id}"


class Blobs:
    """The store of files of one installation; it is opened at the first use, for it takes the extra `files`."""

    def __init__(self, settings: BlobSettings | None = None) -> None:
        self._given = settings
        self._settings = settings
        self._opened: ObjectStore | None = None

    @property
    def settings(self) -> BlobSettings:
        if self._settings is None:
            self._settings = BlobSettings()
        return self._settings

    @property
    def folder(self) -> Path | None:
        """Return the folder of a local store; None for a bucket or memory."""
        url = urlsplit(self.settings.place)
        return Path(unquote(url.path)) if url.scheme == "file" else None

    @property
    def signs(self) -> bool:
        """Return whether the store signs links."""
        return urlsplit(self.settings.place).scheme in SIGNING_SCHEMES

    async def store(
        self,
        key: str,
        parts: AsyncIterator[bytes],
        *,
        content_type: str = "application/octet-stream",
        disposition: str = "attachment",
    ) -> None:
        """Write the bytes of a new key as they come; if `parts` raises, or the call is cancelled, nothing is written.

        Type and disposition are what a bucket says when a link leads to it.
        """
        obstore, store = _obstore(), self._store()
        attributes: Any = {"Content-Type": content_type, "Content-Disposition": disposition}
        source = _Source(parts)
        put = obstore.put_async(
            store,
            key,
            aiter(source),
            attributes=attributes if self.signs else None,
            use_multipart=True,
            chunk_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )
        try:
            await _finish(asyncio.ensure_future(put), source)
            if (folder := self.folder) is not None:
                await asyncio.to_thread(_sync, folder / key)
        except Exception as error:
            if source.has_failed:
                raise
            raise unavailable(error) from error

    async def fetch(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Return the bytes from `start` up to, and without, `end`; raise `Refused` if they cannot be had.

        The store is asked before this returns, so that the caller can still refuse.
        """
        obstore, store = _obstore(), self._store()
        options: Any = {"range": {"offset": start} if end is None else (start, end)}
        try:
            found = await obstore.get_async(store, key, options=options if start or end is not None else None)
        except (OSError, obstore.exceptions.BaseError) as error:
            raise unavailable(error) from error
        return _parts(found)

    async def size(self, key: str) -> int | None:
        """Return how many bytes a key has; None of one that is not there."""
        obstore, store = _obstore(), self._store()
        try:
            found = await obstore.head_async(store, key)
        except (FileNotFoundError, obstore.exceptions.NotFoundError):
            return None
        except (OSError, obstore.exceptions.BaseError) as error:
            raise unavailable(error) from error
        return int(found["size"])

    async def list(self, prefix: str) -> AsyncIterator[str]:
        """Return the keys below a folder, such as `vault/acme`, in no order; raise `Refused` if they cannot be had."""
        obstore, store = _obstore(), self._store()
        try:
            async for page in obstore.list(store, prefix):
                for found in page:
                    yield str(found["path"])
        except (OSError, obstore.exceptions.BaseError) as error:
            raise unavailable(error) from error

    async def delete(self, key: str) -> None:
        """Delete a key; one that is not there is deleted."""
        obstore, store = _obstore(), self._store()
        with suppress(FileNotFoundError, obstore.exceptions.NotFoundError):
            await obstore.delete_async(store, key)
        if (folder := self.folder) is not None:
            await asyncio.to_thread(_delete_staged, folder / key)

    async def presigned_url(self, key: str, expires: timedelta) -> str | None:
        """Return a link to the bytes of a key for some time; None where the store signs none."""
        if not self.signs:
            return None
        store: Any = self._store()
        url: str = await _obstore().sign_async(store, "GET", key, expires)
        return url

    def _store(self) -> "ObjectStore":
        if self._opened is None:
            obstore = _obstore()
            url = self.settings.place
            if (folder := self.folder) is not None:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._opened = obstore.store.LocalStore(folder)
            elif urlsplit(url).scheme == "memory":
                self._opened = obstore.store.MemoryStore()
            else:
                self._opened = obstore.store.from_url(url)
        return self._opened


class _Stopped(Exception):
    """The call that wanted the bytes stored was cancelled."""


class _Source:
    """Parts on their way to a store; says whether an error was theirs or the store's."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self._next: asyncio.Future[bytes | None] | None = None
        self._is_stopped = False
        self.has_failed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (part := await self._take()) is not None:
                yield part
        except asyncio.CancelledError:
            raise _Stopped from None
        except Exception:
            self.has_failed = True
            raise

    async def _take(self) -> bytes | None:
        if self._is_stopped:
            raise _Stopped
        self._next = asyncio.ensure_future(self._part())
        return await self._next

    async def _part(self) -> bytes | None:
        return await anext(self._parts, None)

    def stop(self) -> None:
        """Have the next part be an error."""
        self._is_stopped = True
        if self._next is not None:
            self._next.cancel()


async def _finish(put: "asyncio.Future[Any]", source: _Source) -> None:
    """Wait for the end of an upload. One that is cancelled fails first, so that the store abandons what it has.

    A cancelled call of obstore leaves its source waiting, and a multipart upload open.
    """
    try:
        await asyncio.shield(put)
    except asyncio.CancelledError:
        source.stop()
        await asyncio.wait({put}, timeout=GIVE_UP_WITHIN_S)
        if put.done() and not put.cancelled():
            put.exception()
        raise


async def _parts(found: Any) -> AsyncIterator[bytes]:
    stream = found.stream(min_chunk_size=READ_BYTES)
    try:
        async for part in stream:
            yield bytes(part)
    finally:
        del found, stream  # which closes what the store has opened


def _obstore() -> Any:
    try:
        import obstore  # noqa: PLC0415  a process that has nothing to do with files does not load it
        import obstore.store  # noqa: PLC0415
    except ImportError:
        raise Refused(Rejection("BLOBS_UNAVAILABLE", NOT_THERE)) from None
    return obstore


def unavailable(error: Exception) -> Refused:
    """Return the refusal for an error of the store; what the store says may name its credentials, and is not shown."""
    _log.warning(
        "the store of files cannot be used", extra={"error": f"{type(error).__name__}: {error}"[:500]}
    )
    message = f"the store of files cannot be used now: {type(error).__name__}"
    return Refused(Rejection("BLOBS_UNAVAILABLE", message, hint="see the server's log, and try again"))


def _sync(file: Path) -> None:
    """Have a file and its name survive a loss of power, before a row says that it is there."""
    for place in (file, file.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _delete_staged(file: Path) -> None:
    """Delete what a process left that was killed while it wrote: obstore writes to `<name>#<number>` first."""
    for staged in file.parent.glob(f"{file.name}#*"):
        staged.unlink(missing_ok=True)
