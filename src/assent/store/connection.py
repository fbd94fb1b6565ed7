"""Connections to PostgreSQL: one set of options, JSON by orjson, errors that say what to do, every wait limited."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import orjson

from assent.store.errors import RolledBack, StoreError
from assent.store.settings import Settings

if TYPE_CHECKING:
    _Base = asyncpg.Connection[asyncpg.Record]
    Connection: TypeAlias = (
        asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    )
else:
    _Base = asyncpg.Connection
    Connection: TypeAlias = asyncpg.Connection

SERVER_VERSION_MIN: Final = 15
FRESH_PLANS: Final = "force_custom_plan"
"""PostgreSQL's word for planning each execution by itself."""
_JSONB_VERSION: Final = b"\x01"
KEEPALIVE_PROBES: Final = 3
"""Probes without an answer that end an idle connection, a third of `tcp_keepalive_ms` apart."""


@dataclass(slots=True)
class Vitals:
    """What is known of a connection's health; times are monotonic."""

    opened_s: float = field(default_factory=time.monotonic)
    used_s: float = field(default_factory=time.monotonic)
    """When it was last given back."""
    in_use: bool = False
    is_silent: bool = False
    """Whether it was dropped because the server did not answer."""
    is_condemned: bool = False
    """Whether it is to be dropped instead of used again."""
    lifetime_s: float | None = None


class LiveConnection(_Base):
    """A connection with a deadline for everything that it waits for, and on which a COMMIT that rolls back is an error.

    asyncpg gives up on a statement after its deadline, then asks the server to cancel it and waits for the answer on
    the same connection, for another deadline. Here that wait, and every close, ends after `cancel_timeout_ms`: the
    connection is dropped, so that whatever waits for it fails at once and its place in the pool is free.
    """

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.vitals = Vitals()
        self._socket = transport.get_extra_info("socket")
        self._cancel_timeout_s = 0.0
        self._giving_up: asyncio.TimerHandle | None = None

    def guard(self, settings: Settings) -> None:
        """Apply the deadlines of these settings, those of the socket included."""
        self._cancel_timeout_s = settings.cancel_timeout_ms / 1000
        _guard_socket(self._socket, settings)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109 - asyncpg's
        """Run a statement; raise `RolledBack` for a COMMIT that the server replies with a rollback.

        PostgreSQL answers COMMIT with `ROLLBACK`, and no error, after a statement of the transaction failed: where code
        has caught that error, asyncpg would report success.
        """
        status: str = await super().execute(query, *args, timeout=timeout)
        if status == "ROLLBACK" and query.startswith("COMMIT"):
            raise RolledBack(
                "A statement of the transaction failed, and its error was caught: nothing was changed. "
                "Run statements that may fail inside `connection.transaction()`, a savepoint"
            )
        return status

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own
        """Close the connection; a server that does not answer in time is left without a goodbye."""
        with suppress(TimeoutError):
            await super().close(timeout=timeout or self._cancel_timeout_s or None)

    @property
    def live(self) -> "LiveConnection":
        """The connection itself, also where a pool's proxy is asked."""
        return self

    @property
    def is_cancelling(self) -> bool:
        """Return whether a statement was abandoned, and the server has not confirmed its cancellation."""
        protocol: Any = self._protocol  # type: ignore[attr-defined]
        return protocol is not None and bool(protocol._is_cancelling())

    def terminate(self) -> None:
        """End the connection at once; one that is cancelling is ended because the server does not answer."""
        self.vitals.is_silent = self.vitals.is_silent or self.is_cancelling
        super().terminate()

    def _cancel_current_command(self, *waiters: Any) -> None:
        # asyncpg calls this after a deadline and when the caller is cancelled. From here on nothing else can use the
        # connection until the server confirms, so the time for that is ours to limit.
        super()._cancel_current_command(*waiters)  # type: ignore[misc]
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._cancel_timeout_s:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._cancel_timeout_s, self._drop_if_cancelling)

    def _drop_if_cancelling(self) -> None:
        self._giving_up = None
        if self.is_cancelling:
            self.terminate()


def _guard_socket(connected: socket.socket | None, settings: Settings) -> None:
    """Have the kernel notice a peer that is gone: keepalive for an idle connection, a limit for unacknowledged data."""
    if connected is None or connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle_s = max(1, settings.tcp_keepalive_ms // 1000)
    wanted = {
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPALIVE": idle_s,  # the same on macOS
        "TCP_KEEPINTVL": max(1, idle_s // KEEPALIVE_PROBES),
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
        "TCP_USER_TIMEOUT": settings.tcp_user_timeout_ms,
    }
    for name, value in wanted.items():
        # Not every system has all of them.
        if (option := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


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
