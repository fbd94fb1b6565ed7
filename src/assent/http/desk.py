"""What a route works at: who is calling, a way to read, and a way to write.

A write is one transaction, the reply that is kept for it included. A command that is refused is an answer too.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from fastapi import Request, Response

from assent.app import App
from assent.effects.callback_settings import CallbackSettings
from assent.effects.callbacks import callbacks_of
from assent.http.callers import Caller, SignIn
from assent.http.changes import ChangeFeed
from assent.http.entrance import SignInThrottle
from assent.http.problems import Names, problem_reply
from assent.http.rates import Rates
from assent.http.refusals import note_command
from assent.http.replies import RepeatKey, request_hash
from assent.http.reply import Reply
from assent.http.settings import HttpSettings
from assent.kernel import Kernel
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection
from assent.model.origin import By, Origin
from assent.operations.metrics_page import MetricsPage
from assent.runtime import Runtime
from assent.store.commit import CommitProof
from assent.store.database import Connection, Database
from assent.store.errors import OutcomeUnknown
from assent.store.joined_database import CallerDatabase
from assent.store.retry import retry_lost
from assent.telemetry import current_trace

T = TypeVar("T")


class Services:
    """What all requests of a server have in common."""

    def __init__(
        self,
        app: App,
        database: Database,
        settings: HttpSettings,
        callbacks: CallbackSettings,
        show_again: "ShowAgain",
    ) -> None:
        self.app = app
        self.show_again = show_again
        self.database = database
        self.settings = settings
        self.runtime = app.runtime(database)
        self.sign_in = SignIn(database, settings)
        self.rates = Rates(settings, database.clock)
        self.callbacks = callbacks_of(callbacks)
        self.entrance = SignInThrottle(self.rates)
        self.changes = ChangeFeed(database)
        self.metrics = MetricsPage(database)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction for a caller; kernel and runtime work inside it."""

    connection: Connection
    kernel: Kernel
    runtime: Runtime


Work = Callable[[Transaction], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request of one caller."""

    house: Services
    caller: Caller
    request: Request
    repeat_key: str | None = None
    condition: str | None = None
    """What `If-Match` says."""
    reason: str | None = None
    """Why, as the header `Assent-Reason` says."""

    @property
    def org_id(self) -> str:
        return self.caller.org_id

    @property
    def origin(self) -> Origin:
        return Origin("http", self.caller.place, self.reason)

    @property
    def by(self) -> By:
        """Who acts here and by which way, for the audit log."""
        return By(self.caller.actor, self.origin, current_trace())

    def contract(self, entity_type: str) -> Contract:
        contracts = self.house.app.registry.contracts
        if entity_type not in contracts:
            message = f"there is no entity type `{entity_type}`"
            raise Refused(Rejection("UNKNOWN_ENTITY_TYPE", message, ("entity_type",)))
        return contracts[entity_type]

    async def read(self, work: Callable[[Connection], Awaitable[T]], *, as_owner: bool = False) -> T:
        """Read; again where a migration has just changed what a prepared statement returns."""
        org_id = None if as_owner else self.org_id
        database = self.house.database

        async def attempt() -> T:
            reading = database.transaction(org_id, isolation="repeatable_read", read_only=True)
            async with reading as connection:
                return await work(connection)

        return await retry_lost(attempt, database.settings.transaction_attempts_max)

    async def write(self, work: Work, names: Names | None = None, *, as_owner: bool = False) -> Response:
        """Run a command once: under a key that was used before, its reply comes again.

        `work` refuses before it runs its command; whatever that has written by then is kept. `as_owner` is for what
        only the owner of the tables may read or write, such as secrets.
        """
        repeat = await self._repeat_key()
        refused: list[Rejection] = []
        proof = CommitProof()

        async def attempt(connection: Connection) -> Reply:
            refused.clear()  # what lost against others runs again
            if repeat is None:
                return await self._answer(connection, work, names, refused, proof)
            now = self.house.database.clock.now()
            if found := await repeat.find(connection, now):
                return await self.house.show_again(self, connection, found)
            reply = await self._answer(connection, work, names, refused, proof)
            keep = timedelta(hours=self.house.settings.idempotency_keep_hours)
            await repeat.keep(connection, reply.again or reply, now, keep)
            return reply

        async def run() -> Reply:
            org_id = None if as_owner else self.org_id
            return await self.house.database.run(
                attempt, org_id=org_id, plans="kept", by=self.by, proof=proof
            )

        done = await (run() if repeat is None else _run_until_known(run))
        self.request.state.is_done = True
        await self._note(refused)
        return done.response()

    async def command(
        self,
        run: Callable[[Runtime], Awaitable[T]],
        show: Callable[[Connection, T], Awaitable[Reply]],
        names: Names | None = None,
    ) -> Response:
        """One command to an instance, and its reply.

        Without a key for repeats nothing binds the reply to the command's transaction, and it may go through one with
        others that come at the same time.
        """
        if self.repeat_key is not None:
            return await self.write(lambda session: _run_and_show(session, run, show), names)
        try:
            done = await run(self.house.runtime.via(self.origin))
            self.request.state.is_done = True
            async with self.house.database.transaction(
                self.org_id, plans="kept", read_only=True
            ) as connection:
                reply = await show(connection, done)
        except Refused as refusal:
            await self._note([refusal.rejection])
            reply = self._problem(refusal.rejection, names)
        return reply.response()

    async def _answer(
        self,
        connection: Connection,
        work: Work,
        names: Names | None,
        refused: list[Rejection],
        proof: CommitProof,
    ) -> Reply:
        joined = CallerDatabase(self.house.database, connection, self.org_id)
        try:
            reply = await work(self._session(joined))
        except Refused as refusal:
            refused.append(refusal.rejection)
            reply = self._problem(refusal.rejection, names)
        proof.audit_id = next(iter(joined.audit_ids), None)
        return reply

    async def _note(self, refused: Sequence[Rejection]) -> None:
        for rejection in refused:
            await note_command(self.house.database, self.caller, self.request, rejection, self.reason)

    def _problem(self, rejection: Rejection, names: Names | None) -> Reply:
        stale = rejection.code == "VERSION_CONFLICT" and self.condition is not None
        return problem_reply(rejection, self.request.url.path, names=names, status=412 if stale else None)

    def _session(self, joined: CallerDatabase) -> Transaction:
        """The application's runtime, in this transaction instead of its own."""
        runtime = self.house.runtime.via(self.origin).on(joined)
        return Transaction(joined.connection, runtime.core.kernel, runtime)

    async def _repeat_key(self) -> RepeatKey | None:
        if self.repeat_key is None:
            return None
        url = self.request.url
        what = f"{self.caller.partition_id or ''}{url.path}"
        hashed = request_hash(self.request.method, what, url.query, self.condition, await self.request.body())
        return RepeatKey(self.org_id, self.caller.actor.id, self.repeat_key, hashed)


async def _run_until_known(run: Callable[[], Awaitable[Reply]]) -> Reply:
    """Run a command under a key for repeats; where its outcome is unknown, the reply that was kept for it says it."""
    try:
        return await run()
    except OutcomeUnknown as unknown:
        try:
            return await run()
        except Exception as error:
            raise unknown from error


ShowAgain = Callable[[RequestContext, Connection, Reply], Awaitable[Reply]]
"""What becomes of a kept answer: it is shown to those who may still read what it shows."""


async def _run_and_show(
    session: Transaction,
    run: Callable[[Runtime], Awaitable[T]],
    show: Callable[[Connection, T], Awaitable[Reply]],
) -> Reply:
    return await show(session.connection, await run(session.runtime))
