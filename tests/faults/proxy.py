"""A TCP proxy before PostgreSQL that reads the wire protocol, and cuts, freezes or holds a link at a chosen statement.

    async with Proxy.before(database_url) as proxy:
        database = await Database.open(proxy.url)
        fault = proxy.arm(Fault("COMMIT", nth=2, moment="after", action="cut"))
        …
        assert fault.struck

A statement is named by its text, such as COMMIT, or by its name in our `.sql` files, such as `claim_tasks`. It is
looked for in Query messages and, by way of Parse and Bind, in Execute messages. The proxy listens on the loopback
interface only, and runs in the event loop of its caller.
"""

import asyncio
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.statements import statements_of

Moment = Literal["before", "after"]
"""Before the server gets the statement; or after the server has finished it, and before its client hears so."""
Action = Literal["cut", "freeze", "hold"]
"""Cut: reset the connection. Freeze: nothing passes any more, and neither side hears why. Hold: until released."""

COMMIT: Final = "COMMIT"

_SSL_REQUEST: Final = 80_877_103
_GSS_REQUEST: Final = 80_877_104
_CANCEL_REQUEST: Final = 80_877_102
_CHUNK_BYTES: Final = 65_536
_NAMED: Final = re.compile(r"\s*/\* (\w+) \*/")
_SAVEPOINT: Final = re.compile(r"\s+\w*asyncpg_savepoint\w*")
"""Asyncpg's names of savepoints, which differ from run to run."""
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing the socket sends RST instead of FIN."""


@dataclass(eq=False)
class Fault:
    """What to do to the link on which the `nth` statement of this name comes, counted from when it is armed."""

    statement: str
    nth: int = 1
    moment: Moment = "after"
    action: Action = "cut"
    on_strike: Callable[[], None] | None = None
    """Called at the moment of the fault, for instance to cut or refuse further links."""
    _seen: int = 0
    _struck: asyncio.Event = field(default_factory=asyncio.Event)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def struck(self) -> bool:
        return self._struck.is_set()

    async def wait(self) -> None:
        """Return when the fault has struck; for the moment "after", the server has finished the statement then."""
        await self._struck.wait()

    def release(self) -> None:
        """Let a held link go on."""
        self._released.set()

    def _is_due(self, statement: str) -> bool:
        if self._seen >= self.nth or statement != self.statement:
            return False
        self._seen += 1
        return self._seen == self.nth


class Proxy:
    """Links between clients and one PostgreSQL server."""

    def __init__(self, upstream_url: str) -> None:
        self._upstream = _Upstream.read(upstream_url)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: list[Fault] = []
        self._refusing = False
        self.statements: Counter[str] = Counter()
        """How many statements of each name passed, or would have, since `clear`."""
        self.order: list[str] = []
        """Their names, in the order in which they came."""
        self.round_trips = 0
        """How many times the server was ready for the next message since `clear`."""

    @classmethod
    @asynccontextmanager
    async def before(cls, url: str, port: int = 0) -> AsyncIterator[Self]:
        """A running proxy before the server that `url` names; all its links are cut at the end."""
        proxy = cls(url)
        proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", port)
        try:
            yield proxy
        finally:
            proxy._server.close()
            proxy.cut()
            await asyncio.gather(*proxy._tasks, return_exceptions=True)
            await proxy._server.wait_closed()

    @property
    def url(self) -> str:
        """The database's URL by way of the proxy."""
        return self.url_of(self._upstream.database)

    def url_of(self, database: str) -> str:
        """The URL of another database of the same server by way of the proxy."""
        assert self._server is not None, "expected a running proxy; use `async with Proxy.before(url)`"
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://{quote(self._upstream.user)}@127.0.0.1:{port}/{quote(database)}?sslmode=disable"

    def arm(self, fault: Fault) -> Fault:
        """Wait for the fault's statement; several faults may be armed at once."""
        self._faults.append(fault)
        return fault

    def disarm(self) -> None:
        """Forget all faults, and let held links go on; frozen ones stay frozen."""
        for fault in self._faults:
            fault.release()
        self._faults.clear()

    def clear(self) -> None:
        """Count statements from zero."""
        self.statements.clear()
        self.order.clear()
        self.round_trips = 0

    @property
    def links(self) -> int:
        """How many connections are open, frozen ones included."""
        return len(self._links)

    def cut(self) -> int:
        """Reset every link; how many there were."""
        return _each(self._links, _Link.cut)

    def cut_clients(self) -> int:
        """Reset the client's side of every link, while the server hears nothing of it; how many there were."""
        return _each(self._links, _Link.cut_client)

    def freeze(self) -> int:
        """Freeze every link that is open now; new ones work. How many there were."""
        return _each(self._links, _Link.freeze)

    def thaw(self) -> int:
        """Let every frozen link go on where it stood; how many there were."""
        return _each([link for link in self._links if link.frozen], _Link.thaw)

    def refuse(self) -> None:
        """Close new connections as soon as they come, until `admit`."""
        self._refusing = True

    def admit(self) -> None:
        """Take new connections again."""
        self._refusing = False

    def _note(self, statements: Sequence[str]) -> Fault | None:
        """Count the statements of one message; a fault at any of them is one of the message."""
        self.statements.update(statements)
        self.order.extend(statements)
        # Each armed fault counts the statement, so no short cut here.
        due = [fault for one in statements for fault in self._faults if fault._is_due(one)]
        return due[0] if due else None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        client = _Side(reader, writer)
        if self._refusing:
            client.cut()
            return
        try:
            server = await self._upstream.connect()
        except OSError:
            client.cut()
            return
        link = _Link(self, client, server)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            link.cut()


@dataclass(frozen=True)
class _Upstream:
    """Where the server is: a TCP address, or the socket in a folder."""

    user: str
    database: str
    host: str
    port: int

    @classmethod
    def read(cls, url: str) -> Self:
        parts, more = urlsplit(url), parse_qs(urlsplit(url).query)
        return cls(
            user=unquote(parts.username or "postgres"),
            database=unquote(parts.path.removeprefix("/")),
            host=more["host"][0] if "host" in more else parts.hostname or "127.0.0.1",
            port=int(more["port"][0]) if "port" in more else parts.port or 5432,
        )

    async def connect(self) -> "_Side":
        if self.host.startswith("/"):
            return _Side(*await asyncio.open_unix_connection(f"{self.host}/.s.PGSQL.{self.port}"))
        return _Side(*await asyncio.open_connection(self.host, self.port))


class _Side:
    """One end of a link: messages in, bytes out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_startup(self) -> bytes:
        """A message without a type: startup, cancel, or the question whether TLS is spoken."""
        head = await self._reader.readexactly(4)
        return head + await self._reader.readexactly(int.from_bytes(head, "big") - 4)

    async def messages(self) -> AsyncIterator[list[bytes]]:
        """Whole messages, as many at once as have come, until this side ends the connection."""
        buffer = bytearray()
        while chunk := await self._reader.read(_CHUNK_BYTES):
            buffer += chunk
            complete = list(_split(buffer))
            if complete:
                del buffer[: sum(map(len, complete))]
                yield complete

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def cut(self) -> None:
        """Reset the connection: bytes that wait to be sent are dropped."""
        raw = self._writer.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            with suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()


class _Link:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: _Side, server: _Side) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._passing = asyncio.Event()
        self._passing.set()
        self._texts: dict[bytes, str] = {}
        """Prepared statement → its name among ours, or its text."""
        self._portals: dict[bytes, str] = {}
        self._awaiting: Fault | None = None
        """A fault for the moment when the server is ready again."""

    @property
    def frozen(self) -> bool:
        return not self._passing.is_set()

    async def run(self) -> None:
        """Pass messages until either side ends; nobody ends a frozen link but the proxy."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if not await self._start():
                return
            pumps = [asyncio.create_task(self._pump_client()), asyncio.create_task(self._pump_server())]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                await self._passing.wait()
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    def freeze(self) -> None:
        self._passing.clear()

    def thaw(self) -> None:
        self._passing.set()

    def cut_client(self) -> None:
        self._client.cut()

    def cut(self) -> None:
        self._client.cut()
        self._server.cut()
        self._passing.set()

    async def _start(self) -> bool:
        """Pass the startup message; whether a session follows. TLS is declined, a cancel request has no answer."""
        while True:
            message = await self._client.read_startup()
            code = int.from_bytes(message[4:8], "big")
            if code not in (_SSL_REQUEST, _GSS_REQUEST):
                await self._server.send(message)
                return code != _CANCEL_REQUEST
            await self._client.send(b"N")

    async def _pump_client(self) -> None:
        with suppress(ConnectionError):
            async for messages in self._client.messages():
                await self._pass_on(messages)

    async def _pass_on(self, messages: list[bytes]) -> None:
        waiting = bytearray()
        for message in messages:
            fault = self._proxy._note(self._statements(message))
            if fault is not None and fault.moment == "before":
                await self._send_server(waiting)
                waiting = bytearray()
                await self._strike(fault)
            elif fault is not None:
                self._awaiting = fault
            waiting += message
        await self._send_server(waiting)

    async def _send_server(self, data: bytes | bytearray) -> None:
        await self._passing.wait()
        if data:
            await self._server.send(bytes(data))

    async def _pump_server(self) -> None:
        # What the server answers to the statement of a fault is kept back until it is ready for the next one: the
        # transaction is over then, also where the statement was one without BEGIN and COMMIT.
        kept = bytearray()
        with suppress(ConnectionError):
            async for messages in self._server.messages():
                for message in messages:
                    kept += message
                    self._proxy.round_trips += message[:1] == b"Z"
                    if self._awaiting is not None and message[:1] == b"Z":
                        fault, self._awaiting = self._awaiting, None
                        await self._strike(fault)
                if self._awaiting is None:
                    await self._passing.wait()
                    await self._client.send(bytes(kept))
                    kept.clear()

    async def _strike(self, fault: Fault) -> None:
        if fault.on_strike is not None:
            fault.on_strike()
        if fault.action == "cut":
            self.cut()
        elif fault.action == "freeze":
            self.freeze()
        fault._struck.set()
        if fault.action == "cut":
            raise ConnectionResetError("cut by the proxy")
        await (self._passing.wait() if fault.action == "freeze" else fault._released.wait())

    def _statements(self, message: bytes) -> list[str]:
        """What is about to be executed, if this message executes something; Parse and Bind are remembered."""
        kind, body = message[:1], message[5:]
        match kind:
            case b"Q":
                return [_name(part) for part in statements_of(body.rstrip(b"\0").decode())]
            case b"P":
                name, text, _ = body.split(b"\0", 2)
                self._texts[name] = _name(text.decode())
            case b"B":
                portal, name, _ = body.split(b"\0", 2)
                self._portals[portal] = self._texts.get(name, "")
            case b"E":
                return [self._portals.get(body.split(b"\0", 1)[0], "")]
        return []


def _split(buffer: bytearray) -> Iterator[bytes]:
    """The messages that are whole: a type, a length that counts itself, and the body."""
    start = 0
    while len(buffer) - start >= 5:
        end = start + 1 + int.from_bytes(buffer[start + 1 : start + 5], "big")
        if end > len(buffer):
            return
        yield bytes(buffer[start:end])
        start = end


def _name(text: str) -> str:
    if text.rstrip(";").endswith(COMMIT):
        return COMMIT  # also where the last statement of a transaction comes with it
    named = _NAMED.match(text)
    return named[1] if named else _SAVEPOINT.sub("", text).strip().removesuffix(";").upper()


def _each(links: Iterable[_Link], do: Callable[[_Link], None]) -> int:
    chosen = list(links)
    for link in chosen:
        do(link)
    return len(chosen)
