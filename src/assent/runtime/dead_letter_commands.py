"""Commands to dead letters of all queues: events, effects, tasks and results whose attempts are used up."""

import builtins
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from assent.engine.inputs import RetryInstance
from assent.jobs.dead_letters import revive, revive_all
from assent.jobs.job import JOB_KINDS, JobKind
from assent.model.ids import Cursor
from assent.model.mutation import Refused, Rejection
from assent.operations.dead_letters import DeadLetter, LetterKind, page_of_dead_letters
from assent.runtime.batch import BatchItem
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.rights import may_operate
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


@dataclass(frozen=True, slots=True)
class DeadLetterCommands:
    """Commands to the dead letters of an org."""

    scope: OrgScope

    async def list(
        self,
        kind: LetterKind | None = None,
        *,
        what: str | None = None,
        after: Cursor | None = None,
        limit: int = 100,
    ) -> builtins.list[DeadLetter]:
        """Return dead letters, newest first: of one kind, and of one event type, task type or destination."""
        scope = self.scope
        async with scope.reading() as connection:
            return await page_of_dead_letters(
                connection, scope.org_id, kind, after, limit, partition_id=scope.partition_id, what=what
            )

    async def retry(self, letter_id: UUID, kind: LetterKind | None = None) -> LetterKind:
        """Retry a dead letter with as many attempts as it had; return its kind. Raise `Refused` if there is none."""
        if kind != "event" and (found := await self._retry_job(letter_id, kind)) is not None:
            return found
        if kind not in (None, "event"):
            raise Refused(Rejection("NOT_FOUND", f"no dead {kind} {letter_id}", (f"{kind}_id",)))
        await self._retry_event(letter_id)
        return "event"

    async def retry_all(self, kind: LetterKind | None = None, *, what: str | None = None) -> int:
        """Retry every dead letter, of one kind and of one event type, task type or destination; return how many.

        Letters for which a step waited stay dead: the step is what is retried. Each event is retried by itself.
        """
        kinds = [each for each in JOB_KINDS if kind in (None, each)]
        jobs = sum([await self._retry_jobs(each, what) for each in kinds])
        return jobs + (await self._retry_events(what) if kind in (None, "event") else 0)

    async def _retry_job(self, job_id: UUID, kind: JobKind | None) -> JobKind | None:
        """Retry a dead effect, result or task; an effect is sent under the key that it had."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> JobKind | None:
            found = await revive(transaction.connection, scope.org_id, job_id, kind)
            if found is not None:
                await transaction.note(found, f"{found}.retry", str(job_id))
            return found

        return await scope.write(work)

    async def _retry_jobs(self, kind: JobKind, lane: str | None) -> int:
        scope = self.scope

        async def work(transaction: CommandTransaction) -> int:
            revived = await revive_all(transaction.connection, scope.org_id, kind, lane)
            if revived:
                await transaction.note(kind, f"{kind}.retry", lane or "*", details={f"{kind}s": revived})
            return revived

        return await scope.write(work)

    async def _retry_event(self, event_id: UUID) -> None:
        """Retry the step that failed for an event, or the event itself where no step was recorded."""
        scope, actor = self.scope, self.scope.required_actor
        may_operate(actor, "retry")

        async def work(transaction: CommandTransaction) -> None:
            connection = transaction.connection
            instance_id = await connection.fetchval(_SQL.revive_dead_letter, scope.org_id, event_id)
            if instance_id is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead letter {event_id}", ("event_id",)))
            command = RetryInstance(scope.new_id(), actor)
            item = BatchItem(scope.org_id, instance_id, command=command, origin=scope.core.origin)
            await connection.execute(_SQL.lock_instances, [instance_id])
            jobs = await scope.core.advancing.advance(
                connection, [item], scope.database.clock.now(), as_owner=False
            )
            transaction.proof.audit_id = next((job.audit_id for job in jobs if job.audit_id), None)

        await scope.write(work)

    async def _retry_events(self, what: str | None) -> int:
        count, after = 0, None
        while letters := await self.list("event", what=what, after=after):
            for letter in letters:
                try:
                    await self._retry_event(letter.id)
                except Refused as refused:
                    # Letters of one instance are retried together: the others are gone when their turn comes.
                    if refused.code != "NOT_FOUND" or letter.instance_id is None:
                        raise
                count += 1
            after = letters[-1].created_at, letters[-1].id
        return count
