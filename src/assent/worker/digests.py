"""Digests: one mail a day to each member who wants one, with everything that waits for them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from assent.effects.notices import Notice, send_notices
from assent.language.mails import QUESTIONS_MAX
from assent.people.directory import Directory, MembersDirectory
from assent.people.inbox import InboxItem, InboxQuery, read_inbox
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.worker.duty import RunResult, Schedule, WorkerContext

_SQL: Final = load_queries("assent.worker", "worker.sql")

QUESTIONS_COUNTED_MAX: Final = 200
"""Of one owner of seats: a digest says no greater number."""


class Digests:
    """Claim the members whose hour has come, and enqueue one mail each, in one transaction.

    The day is claimed with the mail: a worker that dies in between leaves neither, and of two workers one claims it.
    A member who is asked nothing gets no mail.
    """

    name = "digests"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError(
                "Digests need a runtime, for the directory of its application; give the context one."
            )
        self.pace = Schedule(place.options.digests_interval_ms / 1000)
        self._database = place.database
        self._directory: Directory = place.runtime.core.directory
        self._batch_max = place.options.digests_batch_max

    async def run_once(self) -> RunResult:
        return await self._database.run(self._enqueue, org_id=None)

    async def _enqueue(self, connection: Connection) -> RunResult:
        claimed = await connection.fetch(_SQL.claim_digests, self._batch_max)
        if not claimed:
            return RunResult()
        now = await transaction_time(connection)
        waiting = await self._questions(connection, [(row["org_id"], row["user_id"]) for row in claimed], now)
        notices = [
            _notice(row, questions)
            for row in claimed
            if (questions := waiting.get((row["org_id"], row["user_id"])))
        ]
        sent = await send_notices(connection, notices, now)
        return RunResult(sent, more=len(claimed) == self._batch_max)

    async def _questions(
        self, connection: Connection, people: Sequence[tuple[str, str]], now: datetime
    ) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
        """Return what waits for these people; one statement for all of them, where `members` is the directory."""
        found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        if type(self._directory) is MembersDirectory:
            orgs, users = map(list, zip(*people, strict=True))
            for row in await connection.fetch(_SQL.list_digest_questions, orgs, users, QUESTIONS_COUNTED_MAX):
                found[row["org_id"], row["reader"]].append(_question(dict(row)))
            return found
        for org_id, user_id in people:
            wanted = InboxQuery(limit=QUESTIONS_COUNTED_MAX)
            page = await read_inbox(connection, org_id, user_id, wanted, now, directory=self._directory)
            mine = [item for item in page.items if item.claimed_by in (None, user_id)]
            found[org_id, user_id] = [_question(_row_of(item)) for item in mine]
        return found


def _row_of(item: InboxItem) -> Row:
    names = (
        "kind",
        "request_id",
        "node_name",
        "title",
        "entity_type",
        "workflow",
        "figure",
        "currency",
        "due_at",
    )
    return {name: getattr(item, name) for name in (*names, "requested_by")} | {"entity_version": item.version}


def _question(row: Row) -> dict[str, Any]:
    """Return the facts of a question, as a mail that asks has them, and where it is answered."""
    has_version = row["kind"] == "approval"
    title = row["title"] or row["entity_type"] or row["workflow"]
    return {
        "what": f"{row['node_name']}: {title}",
        "figure": str(row["figure"]) if row["currency"] else None,
        "currency": row["currency"],
        "requested_by": row["requested_by"],
        "due_at": row["due_at"].isoformat() if row["due_at"] else None,
        "version": row["entity_version"] if has_version else None,
        "page": f"{row['kind']}s",
        "request": str(row["request_id"]),
    }


def _notice(claimed: Row, questions: Sequence[Mapping[str, Any]]) -> Notice:
    facts = {"count": len(questions), "questions": list(questions[:QUESTIONS_MAX])}
    day = claimed["today"].isoformat()
    return Notice(claimed["org_id"], claimed["user_id"], "digest", facts, day, page="inbox")
