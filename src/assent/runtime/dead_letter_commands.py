"""Commands to dead letters of all queues: events, effects, tasks and results whose attempts are used up."""

import builtins
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from assent.effects.outbox import revive, was_awaited
from assent.engine.inputs import RetryInstance
from assent.model.keys import Cursor
from assent.model.mutation import Refused, Rejection
from assent.operations.dead_letters import DeadLetter, LetterKind, page_of_dead_letters
from assent.requests.queue import revive_deliveries
from assent.runtime.batch import BatchItem
from assent.runtime.core import CommandTransaction, OrgScope
from assent.runtime.rights import may_operate
from assent.runtime.task_commands import TaskCommands
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
        """Retry a dead letter with all its attempts; return its kind. Raise `Refused` if there is no such letter."""
        retries: Mapping[LetterKind, Callable[[UUID], Awaitable[None]]] = {
            "event": self._retry_event,
            "effect": self._retry_effect,
            "result": self._retry_result,
            "task": TaskCommands(self.scope).retry,
        }
        if kind is not None:
            await retries[kind](letter_id)
            return kind
        for each, retry in retries.items():
            try:
                await retry(letter_id)
            except Refused as refused:
                if refused.code != "NOT_FOUND":
                    raise
            else:
                return each
        raise Refused(Rejection("NOT_FOUND", f"no dead letter {letter_id}", ("letter_id",)))

    async def retry_all(self, kind: LetterKind | None = None, *, what: str | None = None) -> int:
        """Retry every dead letter, of one kind and of one event type, task type or destination; return how many.

        Letters for which a step waited stay dead: the step is what is retried. Each event is retried by itself.
        """
        retries: Mapping[LetterKind, Callable[[str | None], Awaitable[int]]] = {
            "effect": self._retry_effects,
            "result": self._retry_results,
            "task": TaskCommands(self.scope).retry_all,
            "event": self._retry_events,
        }
        return sum([await retry(what) for each, retry in retries.items() if kind in (None, each)])

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

    async def _retry_effect(self, effect_id: UUID) -> None:
        """Send a dead effect again, under the key that it had."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> None:
            awaited = await was_awaited(transaction.connection, scope.org_id, effect_id)
            if awaited is None:
                raise Refused(Rejection("NOT_FOUND", f"no dead effect {effect_id}", ("effect_id",)))
            if awaited:
                message = f"no step waits for effect {effect_id} any more: its step has failed"
                raise Refused(Rejection("EFFECT_WAS_AWAITED", message, ("effect_id",), hint="retry the step"))
            await revive(transaction.connection, scope.org_id, effect_id)
            await transaction.note("effect", "effect.retry", str(effect_id))

        await scope.write(work)

    async def _retry_effects(self, destination: str | None) -> int:
        scope = self.scope

        async def work(transaction: CommandTransaction) -> int:
            revived = await revive(transaction.connection, scope.org_id, destination=destination)
            if revived:
                await transaction.note(
                    "effect", "effect.retry", destination or "*", details={"effects": revived}
                )
            return revived

        return await scope.write(work)

    async def _retry_result(self, delivery_id: UUID) -> None:
        """Apply a dead result again, with all attempts."""
        scope = self.scope

        async def work(transaction: CommandTransaction) -> None:
            if not await revive_deliveries(transaction.connection, scope.org_id, delivery_id):
                message = f"no dead result {delivery_id}"
                raise Refused(Rejection("NOT_FOUND", message, ("delivery_id",)))
            await transaction.note("result", "result.retry", str(delivery_id))

        await scope.write(work)

    async def _retry_results(self, what: str | None) -> int:
        scope = self.scope
        if what is not None:
            letters = await self.list("result", what=what)
            for letter in letters:
                await self._retry_result(letter.id)
            return len(letters)

        async def work(transaction: CommandTransaction) -> int:
            revived = await revive_deliveries(transaction.connection, scope.org_id)
            if revived:
                await transaction.note("result", "result.retry", "*", details={"results": revived})
            return revived

        return await scope.write(work)
