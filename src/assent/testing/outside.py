"""The outside world, where a test speaks for it: what a step awaits is answered, or handed in, without being sent."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from assent.model.graph import Outcome
from assent.model.ids import new_id
from assent.outbox.events import completion_event, emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.testing.sandbox import Sandbox

_SQL: Final = load_queries("assent.testing", "outside.sql")


async def answer_effect(
    sandbox: Sandbox, step_id: UUID, data: Any, error: Mapping[str, Any] | None = None
) -> bool:
    """Let a step have the answer that it awaits, or the error; false where it awaits none."""
    outcome, reply = (Outcome.ERROR, error) if error is not None else (Outcome.COMPLETED, data)

    async def work(connection: Connection) -> bool:
        now = sandbox.clock.now()
        effect = await connection.fetchrow(
            _SQL.answer_awaited_effect, sandbox.org_id, step_id, {"answer": reply}
        )
        if effect is None:
            return False
        await emit_events(connection, [completion_event(dict(effect), outcome, reply, now)], now)
        return True

    return await sandbox.database.run(work, org_id=None)


async def push_result(sandbox: Sandbox, step_id: UUID, key: str | None, sent: Mapping[str, Any]) -> bool:
    """Hand in what an outside party sends for what a step asked; false where it asked nothing. Raises `Refused`."""
    async with sandbox.database.transaction(sandbox.org_id) as connection:
        request_id = await connection.fetchval(_SQL.find_request_of_step, sandbox.org_id, step_id)
    if request_id is None:
        return False
    its_key = key or str(new_id(sandbox.clock.now()))
    await sandbox.runtime.org(sandbox.org_id).requests.push_result(request_id, its_key, **sent)
    return True
