"""How a member is written to: the language, the time zone, and when mails that ask come. Each sets their own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, Self

import asyncpg

from assent.language.mails import LANGUAGE_PATTERN, TIME_ZONE
from assent.model.mutation import Refused, Rejection
from assent.people.orgs import TIME_ZONE_PATTERN, TIME_ZONE_SETTING, read_org
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

Mails = Literal["at_once", "daily", "none"]
"""When mails that ask come: each at once, once a day all together, or not at all. Escalations come at once."""

DIGEST_HOUR: Final = 8
"""The hour of a digest in the member's time zone, unless the member sets another."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """How a member is written to."""

    user_id: str
    language: str | None = None
    """None: that of the org."""
    time_zone: str = TIME_ZONE
    mails: Mails = "at_once"
    digest_hour: int = DIGEST_HOUR
    decides_by_mail: bool = False
    """Whether mails to the member's present address may have links that decide; it takes a setting of the org too."""
    updated_at: datetime | None = None

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        return cls(**row)


async def read_preferences(connection: Connection, org_id: str, user_id: str) -> Preferences:
    """Return how a member is written to; the org's time zone, and defaults, for a member who has set nothing."""
    row = await connection.fetchrow(_SQL.read_preferences, org_id, user_id)
    return Preferences.of(row) if row is not None else await _defaults(connection, org_id, user_id)


async def change_preferences(
    connection: Connection, org_id: str, user_id: str, changes: Mapping[str, Any]
) -> Preferences:
    """Set some of the actor's own preferences; raise `Refused`.

    `decides_by_mail` holds for the address that the member has now. Another address ends it, for else the
    holder of `members:manage` would decide for every approver, by a mailbox of their own.
    """
    row = await connection.fetchrow(_SQL.lock_preferences, org_id, user_id)
    found = Preferences.of(row) if row is not None else await _defaults(connection, org_id, user_id)
    changed = replace(found, **changes)
    _check(changed)
    links = changes.get("decides_by_mail")
    values = (changed.language, changed.time_zone, changed.mails, changed.digest_hour, links)
    try:
        async with connection.transaction():
            saved = await connection.fetchrow(_SQL.save_preferences, org_id, user_id, *values)
    except asyncpg.InvalidParameterValueError:
        raise Refused(_bad_zone(changed.time_zone)) from None
    assert saved is not None
    if links and not saved["decides_by_mail"]:
        message, hint = f"{user_id} has no address for mails", "an administrator sets it"
        raise Refused(Rejection("BAD_VALUE", message, ("decides_by_mail",), hint=hint))
    return Preferences.of(saved)


async def _defaults(connection: Connection, org_id: str, user_id: str) -> Preferences:
    zone = (await read_org(connection, org_id)).settings.get(TIME_ZONE_SETTING)
    return Preferences(user_id, time_zone=zone if isinstance(zone, str) else TIME_ZONE)


def _check(wanted: Preferences) -> None:
    if wanted.language is not None and not re.fullmatch(LANGUAGE_PATTERN, wanted.language):
        message = f"expected a language such as en, de or de-CH, found {wanted.language!r}"
        raise Refused(Rejection("BAD_VALUE", message, ("language",)))
    if not re.fullmatch(TIME_ZONE_PATTERN, wanted.time_zone):
        raise Refused(_bad_zone(wanted.time_zone))
    if wanted.mails not in ("at_once", "daily", "none"):
        message = f"expected at_once, daily or none, found {wanted.mails!r}"
        raise Refused(Rejection("BAD_VALUE", message, ("mails",)))
    if not 0 <= wanted.digest_hour <= 23:
        message = f"expected an hour from 0 to 23, found {wanted.digest_hour}"
        raise Refused(Rejection("BAD_VALUE", message, ("digest_hour",)))


def _bad_zone(zone: str) -> Rejection:
    message = f"expected a time zone such as Europe/Berlin, found {zone!r}"
    return Rejection("BAD_VALUE", message, ("time_zone",))
