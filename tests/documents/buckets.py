"""Buckets of the three providers, each on a server of its own process: moto for S3 and Google, Azurite for Azure.

Google's clients send what those of S3 send, but for signatures and the names of headers, and so moto understands them;
no emulator of Google's that a registry has takes an upload in parts. moto checks no signature, Azurite does.
"""

import asyncio
import base64
import fcntl
import hashlib
import hmac
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

import boto3
import httpx
from botocore.config import Config
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.plain_sql import WAIT_MAX_S

sys.path.insert(0, str(Path(__file__).parents[2] / "web"))
import build

NAME: Final = "papers"
AZURITE: Final = Path(__file__).parent / "azurite"
ACCOUNT: Final = "devstoreaccount1"
ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Azurite's own, which is no secret."""


class Bucket(Protocol):
    """A bucket as its owner sees it, with a client that is not ours."""

    url: str
    server: str
    secret: str
    """What no link and no log may show."""
    ends_uploads: bool
    """Whether an upload in parts can be ended; else the provider forgets its parts by itself."""

    @property
    def variables(self) -> Mapping[str, str]: ...

    async def create(self) -> None: ...

    async def keys(self) -> list[str]: ...

    async def uploads(self) -> list[str]: ...

    async def head(self, key: str) -> tuple[str, str]:
        """Return the type and the disposition of an object."""
        ...

    async def empty(self) -> None: ...


@dataclass
class S3Bucket:
    """A bucket of S3."""

    server: str
    url: str = f"s3://{NAME}/clients"
    secret: str = "geheim"
    ends_uploads: bool = True

    def __post_init__(self) -> None:
        config, region = Config(retries={"max_attempts": 1}), "us-east-1"
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=self.server,
            config=config,
            region_name=region,
            aws_access_key_id="tests",
            aws_secret_access_key="geheim",
        )

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": self.server,
            "AWS_ALLOW_HTTP": "true",
        }

    async def create(self) -> None:
        await asyncio.to_thread(self._client.create_bucket, Bucket=NAME)

    async def keys(self) -> list[str]:
        found = await asyncio.to_thread(self._client.list_objects_v2, Bucket=NAME)
        return [one["Key"] for one in found.get("Contents", ())]

    async def uploads(self) -> list[str]:
        found = await asyncio.to_thread(self._client.list_multipart_uploads, Bucket=NAME)
        return [one["Key"] for one in found.get("Uploads", ())]

    async def head(self, key: str) -> tuple[str, str]:
        found = await asyncio.to_thread(self._client.head_object, Bucket=NAME, Key=key)
        return found["ContentType"], found["ContentDisposition"]

    async def empty(self) -> None:
        for key in await self.keys():
            await asyncio.to_thread(self._client.delete_object, Bucket=NAME, Key=key)
        self._client.close()


def _private_key() -> str:
    key = rsa.generate_private_key(65_537, 2_048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@dataclass
class GoogleBucket(S3Bucket):
    """A bucket of Google, with the key of a service account."""

    url: str = f"gs://{NAME}/clients"
    secret: str = field(default_factory=_private_key)

    @property
    def variables(self) -> Mapping[str, str]:
        account = {
            "type": "service_account",
            "client_email": "papers@tests.example",
            "private_key_id": "1",
            "private_key": self.secret,
            "gcs_base_url": self.server,
        }
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)}


@dataclass
class AzureBucket:
    """A container of Azure; its requests are signed with the account's key."""

    server: str
    url: str = f"az://{NAME}/clients"
    secret: str = ACCOUNT_KEY
    ends_uploads: bool = False

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.secret,
            "AZURE_STORAGE_ENDPOINT": f"{self.server}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }

    async def create(self) -> None:
        answer = await self._send("PUT", f"/{NAME}?restype=container")
        assert answer.status_code in (201, 409), answer.text

    async def keys(self) -> list[str]:
        return await self._list("")

    async def uploads(self) -> list[str]:
        return sorted({*await self._list("&include=uncommittedblobs")} - {*await self.keys()})

    async def _list(self, more: str) -> list[str]:
        answer = await self._send("GET", f"/{NAME}?restype=container&comp=list{more}")
        assert answer.is_success, answer.text
        return [one.text or "" for one in ElementTree.fromstring(answer.text).iterfind(".//Blob/Name")]  # noqa: S314

    async def head(self, key: str) -> tuple[str, str]:
        answer = await self._send("HEAD", f"/{NAME}/{key}")
        return answer.headers["content-type"], answer.headers["content-disposition"]

    async def empty(self) -> None:
        for key in await self.keys():
            await self._send("DELETE", f"/{NAME}/{key}")

    async def _send(self, method: str, place: str) -> httpx.Response:
        path, _, query = place.partition("?")
        said = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        about = "".join(f"\n{name}:{value}" for name, value in sorted(parse_qsl(query)))
        lines = [method, *[""] * 11, *(f"{name}:{value}" for name, value in said.items())]
        text = "\n".join([*lines, f"/{ACCOUNT}/{ACCOUNT}{path}{about}"])
        digest = hmac.new(base64.b64decode(self.secret), text.encode(), hashlib.sha256).digest()
        said["authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        async with httpx.AsyncClient() as client:
            return await client.request(method, f"{self.server}/{ACCOUNT}{place}", headers=said)


PROVIDERS: Final[Mapping[str, Callable[[str], Bucket]]] = {
    "s3": S3Bucket,
    "google": GoogleBucket,
    "azure": AzureBucket,
}


@asynccontextmanager
async def bucket_server(provider: str) -> AsyncIterator[str]:
    """Run the server of a provider until the end of the block; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = await asyncio.to_thread(_azurite, port) if provider == "azure" else _moto(port)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await _answers(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _moto(port: int) -> list[str]:
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]


def _azurite(port: int) -> list[str]:
    """Return the command that runs Azurite; its locked packages are installed by the first who needs them."""
    with (AZURITE / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build.install(AZURITE)
    script = AZURITE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    return [
        *(*build.node(), str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
        *("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"),
    ]


async def _answers(address: str) -> None:
    where = urlsplit(address)
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(where.hostname, where.port)
                writer.close()
                return
            await asyncio.sleep(0.05)
