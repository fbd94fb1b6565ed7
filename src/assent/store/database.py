"""The database as the other rooms see it: transactions for an org, or for a worker, and a way to listen.

Whatever a transaction sets, it sets for itself only, and the connection goes back to the pool as it came. The
pool relies on that: never SET without LOCAL, and take advisory locks for the transaction only.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Literal, Self, TypedDict, TypeVar, Unpack

import asyncpg
import orjson

from assent.model.actor import By
from assent.model.names import is_blank
from assent.model.timing import Clock
from assent.store.clock import SYSTEM_CLOCK, time_for_sql
from assent.store.commit import CommitProof, LostCommit, commit, outage_after_goodbye, resolve, roll_back
from assent.store.connection import (
    FRESH_PLANS,
    Connection,
    LiveConnection,
    connect,
    inline,
    put,
    session_parameters,
)
from assent.store.errors import StoreError
from assent.store.failures import retry_lost
from assent.store.listen import Listener
from assent.store.pool import Pool
from assent.store.queries import load_queries
from assent.store.roles import ENGINE_ROLE
from assent.store.settings import Settings

if TYPE_CHECKING:
    from assent.store.embedded.server import EmbeddedServer

__all__ = ["Connection", "Database", "Isolation", "Observer", "Plans", "TransactionOptions"]

T = TypeVar("T")
Isolation = Literal["read_committed", "repeatable_read", "serializable"]
Plans = Literal["fresh", "kept"]
"""Whether statements are planned for each execution, which takes longer than most of ours run, or go by kept plans."""


class TransactionOptions(TypedDict, total=False):
    """How a transaction runs, as `Database.transaction` says."""

    isolation: Isolation
    plans: Plans
    by: By | None
    first: str | None
    gathers: bool


Observer = Callable[[asyncpg.connection.LoggedQuery], None]

DATABASE_NAME: Final = "assent"
"""The database on our own server; elsewhere the URL names it."""

_PLAN_MODES: Final[dict[Plans, str]] = {"fresh": FRESH_PLANS, "kept": "force_generic_plan"}
_QUERIES: Final = load_queries("assent.store", "store.sql")
_ENTER_ORG: Final = _QUERIES.enter_org
_ENTER_AS_OWNER: Final = _QUERIES.enter_as_owner
_ACT_FOR_ORG: Final = _QUERIES.act_for_org
_SET_PARAMETERS: Final = _QUERIES.set_parameters
_RENEW_PLANS: Final = _QUERIES.renew_plans
_CREATE_DATABASE: Final = _QUERIES.create_database


class Database:
    """A pool of connections, and the clock that its transactions go by."""

    def __init__(
        self,
        pool: Pool,
        url: str,
        settings: Settings,
        clock: Clock,
        server: "EmbeddedServer | None" = None,
    ) -> None:
        self.url = url
        self.settings = settings
        self.clock = clock
        self._pool = pool
        self._server = server
        self._parameters = _set_parameters(url, settings)
        """What sets the parameters of each transaction, where no session can."""
        self._observers: list[Observer] = []
        self._closing: set[Callable[[], Awaitable[None]]] = set()
        self._plans_made_at_s: dict[int, float] = {}
        """Process of the server → since when its plans are kept."""

    @classmethod
    async def open(
        cls, url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> Self:
        """Connect to `url`, else to `ASSENT_DATABASE_URL`, else to a server of our own, which this starts."""
        settings = settings or Settings()
        given = url or settings.database_url
        if given is not None:
            return cls(await Pool.open(given, settings), given, settings, clock)
        server, own_url = await _start_server(settings)
        try:
            return cls(await Pool.open(own_url, settings), own_url, settings, clock, server)
        except BaseException:
            await asyncio.to_thread(server.stop)
            raise

    def before_close(self, end: Callable[[], Awaitable[None]]) -> None:
        """Call a function before the connections are closed: it ends what goes on by itself over them."""
        self._closing.add(end)

    async def disconnect(self) -> None:
        """Wait for running transactions, and close every connection."""
        for end in tuple(self._closing):
            await end()
        await self._pool.close()

    async def close(self) -> None:
        """Wait for running transactions, close every connection, and leave the server that we started."""
        await self.disconnect()
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)

    @asynccontextmanager
    async def transaction(  # noqa: PLR0913
        self,
        org_id: str | None,
        *,
        isolation: Isolation = "read_committed",
        plans: Plans = "fresh",
        by: By | None = None,
        proof: CommitProof | None = None,
        read_only: bool = False,
        first: str | None = None,
        gathers: bool = False,
    ) -> AsyncIterator[Connection]:
        """Open a transaction: confined to an org by row security, or, with None, as the owner of everything.

        Plans are kept for commands that look up a few rows by key; searches and large sets are planned each time. Where
        they are kept, or where it `gathers`, what is `put` goes in one message with the next statement, or with COMMIT.
        Whatever is administered in it is audited as done `by` an actor. An error means that nothing was changed, but
        for `OutcomeUnknown`: the answer to COMMIT was lost, and `proof` did not help to find out. Of a transaction
        that is `read_only` it does not matter: what was read is right. A statement that is named as `first` takes no
        arguments, and goes to the server in the message that begins the transaction; what it returns is not read.
        """
        try:
            async with self._connection() as connection:
                if plans == "kept":
                    await self._renew_plans(connection)
                began_s = time.monotonic()
                transaction = connection.transaction(isolation=isolation, readonly=read_only)
                live: LiveConnection = connection.live  # type: ignore[union-attr]
                said = (self._parameters, self._entrance(org_id, plans, by), first)
                await live.begin(transaction, _together(*said), gathers=gathers or plans == "kept")
                try:
                    try:
                        yield connection
                    except BaseException:
                        await roll_back(connection, transaction)
                        raise
                    await commit(connection, transaction, began_s)
                finally:
                    live.end()
        except LostCommit as lost:
            if not read_only:
                audit_id = proof.audit_id if proof is not None else None
                written_for = (proof.org_id if proof is not None else None) or org_id
                await resolve(lost, self.url, self.settings, written_for, audit_id)

    @asynccontextmanager
    async def glance(self) -> AsyncIterator[Connection]:
        """Open a connection for one statement, as the owner of everything, without BEGIN and COMMIT.

        It goes by the server's time: nothing that is read or written so may ask `assent.now()`.
        """
        async with self._connection() as connection:
            yield connection

    async def run(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        org_id: str | None,
        attempts_max: int | None = None,
        proof: CommitProof | None = None,
        **options: Unpack[TransactionOptions],
    ) -> T:
        """Run `work` in a transaction, again where it lost against others: it may run more than once.

        `work` names in `proof` an audit entry that it wrote, so that a lost answer to COMMIT can be looked up.
        """
        proof = proof if proof is not None else CommitProof()

        async def attempt() -> T:
            proof.audit_id = proof.org_id = None  # of an attempt before this one nothing is left
            async with self.transaction(org_id, proof=proof, **options) as connection:
                return await work(connection)

        return await retry_lost(attempt, attempts_max or self.settings.transaction_attempts_max)

    def listen(self, *channels: str) -> Listener:
        """Notifications on `channels`, over a connection of their own: `async with database.listen(…)`."""
        return Listener(self.settings.direct_url(self.url), channels, settings=self.settings)

    @contextmanager
    def observe(self, observer: Observer) -> Iterator[None]:
        """Call `observer` for every statement of transactions that begin inside; for tests and benchmarks."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        async with self._pool.connection() as connection, outage_after_goodbye(connection):
            if not self._observers:
                yield connection
                return
            with ExitStack() as stack:
                for observer in self._observers:
                    stack.enter_context(connection.query_logger(observer))
                yield connection

    @property
    def is_joined(self) -> bool:
        """Whether its transactions are part of one that is under way."""
        return False

    @property
    def connections(self) -> tuple[int, int]:
        """How many connections of the pool are used, and how many are idle."""
        return self._pool.sizes

    async def _renew_plans(self, connection: Connection) -> None:
        """PostgreSQL renews plans after an ANALYZE, which may take it a minute in which a table grows a hundredfold."""
        if not self.settings.prepared_statements_max:
            return  # no plan is kept
        server, now_s = connection.get_server_pid(), time.monotonic()
        if now_s - self._plans_made_at_s.get(server, -math.inf) >= self.settings.plans_kept_ms / 1000:
            await connection.execute(_RENEW_PLANS)
            self._plans_made_at_s[server] = now_s

    def _entrance(self, org_id: str | None, plans: Plans, by: By | None) -> str | None:
        """Return what confines a transaction to an org, in the message that begins it."""
        now, acting = time_for_sql(self.clock), _acting(by)
        if org_id is not None:
            said = (_require_org(org_id), now, _PLAN_MODES[plans], acting)
            return inline(_ENTER_ORG, ENGINE_ROLE, *said)
        return inline(_ENTER_AS_OWNER, now, acting) if now or acting else None


async def act_for_org(connection: Connection, org_id: str) -> None:
    """Confine the rest of a transaction that is confined to an org to another one.

    What was put before is sent before, and runs for the org for which it was put.
    """
    await put(connection, _ACT_FOR_ORG, _require_org(org_id))


def _together(*statements: str | None) -> str | None:
    """Return the statements that begin a transaction as one text."""
    texts = [text.rstrip().rstrip(";") for text in statements if text is not None]
    return "; ".join(texts) or None


def _set_parameters(url: str, settings: Settings) -> str | None:
    if not settings.is_pooled(url):
        return None
    # The plan mode comes first: what enters an org may say another one.
    return inline(_SET_PARAMETERS, orjson.dumps(session_parameters(settings)).decode())


def _acting(by: By | None) -> str:
    return orjson.dumps(by.to_json()).decode() if by is not None else ""


def _require_org(org_id: str) -> str:
    if is_blank(org_id):
        raise ValueError("A transaction needs the id of an org, or None for the owner; found a blank text.")
    return org_id


async def _start_server(settings: Settings) -> "tuple[EmbeddedServer, str]":
    try:
        # Imported here: with a server of one's own, neither the wheel nor Unix is needed.
        from assent.store.embedded.server import EmbeddedServer  # noqa: PLC0415
    except ImportError as error:
        raise StoreError(
            f"The embedded server does not run here ({error}). Name a server in ASSENT_DATABASE_URL"
        ) from error
    server = await asyncio.to_thread(EmbeddedServer.start, settings.data_dir)
    try:
        await _ensure_database(server.url("postgres"), settings)
    except BaseException:
        await asyncio.to_thread(server.stop)
        raise
    return server, server.url(DATABASE_NAME)


async def _ensure_database(maintenance_url: str, settings: Settings) -> None:
    connection = await connect(maintenance_url, settings)
    try:
        await connection.execute(_CREATE_DATABASE)
    except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
        pass  # it is there, or another process is making it at this moment
    finally:
        await connection.close()
