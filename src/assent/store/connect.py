"""How we talk to PostgreSQL: one set of options, JSON by orjson, and errors that say what to do."""

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import orjson

from assent.store.connection import LiveConnection
from assent.store.errors import StoreError
from assent.store.settings import Settings

if TYPE_CHECKING:
    Connection: TypeAlias = (
        asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    )
else:
    Connection: TypeAlias = asyncpg.Connection

SERVER_VERSION_MIN: Final = 15

FRESH_PLANS: Final = "force_custom_plan"
"""PostgreSQL's word for planning each execution by itself."""

_JSONB_VERSION: Final = b"\x01"


class Json:
    """A JSON value as an element of an array argument: `unnest($1::jsonb[])`.

    Without it asyncpg takes a list among the values for a further dimension of the array. It also tells the
    null of JSON, `Json(None)`, from that of SQL.
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def json_array(values: Iterable[object]) -> list[Json]:
    """JSON values as one array argument."""
    return [Json(value) for value in values]


async def connect(url: str, settings: Settings) -> LiveConnection:
    """Return a connection outside every pool, ready for use; raise `StoreError` where that fails or takes too long."""
    with _explained(url):
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            connection: LiveConnection = await asyncpg.connect(url, **_options(settings))
            try:
                connection.guard(settings)
                await _prepare(connection)
            except BaseException:
                connection.terminate()
                raise
    return connection


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "connection_class": LiveConnection,
        "command_timeout": settings.statement_deadline_s,
        "timeout": settings.connect_timeout_ms / 1000,
        "statement_cache_size": settings.prepared_statements_max,
        # Neither age nor size throws a prepared statement out: there is a known number of them.
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
        "server_settings": {
            "application_name": "assent",
            "timezone": "UTC",
            # Our statements are short; compiling one takes longer than running it.
            "jit": "off",
            # A plan that was made while tables were small would be kept when they are large. With an org's id in
            # front of every index, all look alike to it then: 500 entities took 104 ms by the wrong one, 24 by theirs.
            # Commands, which look up a few rows by key, keep plans for seconds (`Database.transaction`).
            "plan_cache_mode": FRESH_PLANS,
            "statement_timeout": str(settings.statement_timeout_ms),
            "lock_timeout": str(settings.lock_timeout_ms),
            "idle_in_transaction_session_timeout": str(settings.idle_in_transaction_timeout_ms),
        },
    }


async def _prepare(connection: Connection) -> None:
    found = connection.get_server_version().major
    if found < SERVER_VERSION_MIN:
        raise StoreError(
            f"Assent needs PostgreSQL {SERVER_VERSION_MIN} or newer, this server is version {found}. "
            "Name another one in ASSENT_DATABASE_URL, or unset it to use the embedded server"
        )
    await read_json(connection)


async def read_json(connection: Connection) -> None:
    """From here on the connection takes and gives JSON as values."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", format="binary", encoder=_encode_jsonb, decoder=_decode_jsonb
    )
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=_encode_json, decoder=orjson.loads
    )


async def forget_json(connection: Connection) -> None:
    """From here on the connection takes and gives JSON as text, as asyncpg does by itself."""
    await connection.reset_type_codec("jsonb", schema="pg_catalog")
    await connection.reset_type_codec("json", schema="pg_catalog")


def _encode_jsonb(value: object) -> bytes:
    return _JSONB_VERSION + _encode_json(value)


def _encode_json(value: object) -> bytes:
    return orjson.dumps(value.value if isinstance(value, Json) else value, default=_as_plain)


def _as_plain(value: object) -> str:
    # asyncpg has a UUID class of its own, which orjson does not take for one.
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _decode_jsonb(data: bytes) -> Any:
    return orjson.loads(memoryview(data)[1:])


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreError(
            f"Cannot connect to the database at {place(url)}: {str(error) or type(error).__name__}. "
            "Check that the server runs and that ASSENT_DATABASE_URL is right"
        ) from error


def place(url: str) -> str:
    """Host and database of a URL, without user and password, for messages."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2] or 'the local socket'}{parts.path}"
