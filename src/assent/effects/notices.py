"""Notices: messages to members that no step wants, such as a digest or that a person was asked to stand in.

They go through the outbox of effects, each once under its cause. A member without an address gets none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from assent.effects.outbox import NewEffect, count_enqueued
from assent.language.mails import MailKind
from assent.model.job import Effect
from assent.people.delegations import KeptDelegation
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.effects", "effects.sql")


@dataclass(frozen=True, slots=True)
class Notice:
    """A mail to one member."""

    org_id: str
    user_id: str
    kind: MailKind
    facts: Mapping[str, Any]
    cause: str
    """What makes it another than those before: one notice of a kind for one cause and person."""
    page: str | None = None
    """The page that it leads to."""
    item: str | None = None
    """What the page shows."""


async def send_notices(connection: Connection, notices: Sequence[Notice], now: datetime) -> int:
    """Enqueue notices to active members with an address, each once; return how many are new."""
    if not notices:
        return 0
    people = {(one.org_id, one.user_id) for one in notices}
    rows = await connection.fetch(_SQL.find_addressed, *map(list, zip(*sorted(people), strict=True)))
    addressed = {(row["org_id"], row["user_id"]) for row in rows}
    wanted = [_effect_of(one) for one in notices if (one.org_id, one.user_id) in addressed]
    return await count_enqueued(connection, wanted, now)


def _effect_of(notice: Notice) -> NewEffect:
    identity = {"kind": notice.kind, "user": notice.user_id, "cause": notice.cause}
    payload = {
        "channel": "email",
        "to": "",
        "user": notice.user_id,
        "mail": {"kind": notice.kind, "facts": dict(notice.facts)},
        "page": notice.page,
        "request": notice.item,
    }
    return NewEffect(notice.org_id, None, None, None, "notice", Effect("email", payload, identity=identity))


async def notify_delegate(connection: Connection, made: KeptDelegation, now: datetime) -> int:
    """Write to a member who was asked to stand in."""
    facts = {
        "from_user": made.from_user,
        "by": made.created_by,
        "starts": made.starts_at.isoformat(),
        "ends": made.ends_at.isoformat() if made.ends_at else None,
        "reason": made.reason,
    }
    notice = Notice(made.org_id, made.to_user, "delegated", facts, str(made.id), page="inbox")
    return await send_notices(connection, [notice], now)
