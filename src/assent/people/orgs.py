"""Orgs: created by an operator, and their settings, read and saved by administrators.

Expressions read a setting as `org.<name>`. Three settings are the product's own; an application may declare others, and
then a setting that is declared nowhere is a problem. Secrets are no settings: every expression can read these.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Self

import asyncpg

from assent.engine.nodes.calls import RECIPIENTS_SETTING, RECIPIENTS_SETTING_MAX
from assent.language.mails import LANGUAGE_PATTERN
from assent.model.actor import Actor
from assent.model.canonical import NotCanonical, canonical_hash, canonical_json, require_canonical
from assent.model.contract import FieldSpec, FieldType
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.parse import NAME_PATTERN
from assent.model.policy import EVERYTHING, refuse_not_held
from assent.model.problems import PROBLEMS_MAX, Invalid, Problem, nearest
from assent.model.values import check_value
from assent.store.connection import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.people", "people.sql")

MANAGE_ORG: Final = "org:manage"
"""The capability to read and save the settings of an org."""

PUBLISH_SETTING: Final = "publish"
"""Whether one person publishes alone (`direct`), or another than the editor (`four_eyes`)."""
RETENTION_SETTING: Final = "retention_days"
"""After how many days instances that have ended are deleted; without it they stay."""
TASK_RETENTION_SETTING: Final = "task_retention_days"
"""After how many days tasks that went well or were cancelled are deleted; without it, when the operator says."""
DOCUMENT_RETENTION_SETTING: Final = "document_retention_days"
"""After how many days the content of documents is erased that nothing needs any more; without it, it stays."""
LANGUAGE_SETTING: Final = "mail_language"
"""The language of mails to members who chose none."""
TIME_ZONE_SETTING: Final = "mail_time_zone"
"""The time zone of members who chose none."""
LINKS_SETTING: Final = "mail_links"
"""Whether mails have a link by which a person decides without signing in; a mailbox is then a credential."""
ALERT_SETTING: Final = "alert_url"
"""Where new incidents and dead letters are posted, signed with the org's signing secrets."""
FILE_BYTES_SETTING: Final = "blob_bytes_max"
"""The size of one file of a document; without it, the limit of the server."""
TIME_ZONE_PATTERN: Final = "[A-Za-z0-9_+/-]{1,60}"
RESERVED: Final = "id"
"""`org.id` is the org itself in expressions."""

Settings = Mapping[str, FieldSpec]
OWN_SETTINGS: Final[Settings] = MappingProxyType(
    {
        PUBLISH_SETTING: FieldSpec(type=FieldType.ENUM, values=("direct", "four_eyes")),
        RETENTION_SETTING: FieldSpec(type=FieldType.INTEGER, min=1, max=36_500),
        TASK_RETENTION_SETTING: FieldSpec(type=FieldType.INTEGER, min=1, max=36_500),
        DOCUMENT_RETENTION_SETTING: FieldSpec(type=FieldType.INTEGER, min=1, max=36_500),
        LANGUAGE_SETTING: FieldSpec(type=FieldType.TEXT, pattern=LANGUAGE_PATTERN),
        TIME_ZONE_SETTING: FieldSpec(type=FieldType.TEXT, pattern=TIME_ZONE_PATTERN),
        LINKS_SETTING: FieldSpec(type=FieldType.BOOLEAN),
        ALERT_SETTING: FieldSpec(type=FieldType.TEXT, pattern="https?://[!-~]{1,1000}"),
        FILE_BYTES_SETTING: FieldSpec(type=FieldType.INTEGER, min=1),
        RECIPIENTS_SETTING: FieldSpec(type=FieldType.INTEGER, min=1, max=RECIPIENTS_SETTING_MAX),
    }
)
"""The settings that the product itself reads."""
SETTINGS_BYTES_MAX: Final = 65_536
"""Each advance of an instance may read all settings of its org."""
_SETTINGS_MAX: Final = SETTINGS_BYTES_MAX // len('"a":1,')
"""More cannot be in so many bytes: they are not looked at."""
_TOO_LARGE: Final = Problem("TOO_LARGE", f"expected settings of at most {SETTINGS_BYTES_MAX:,} bytes")
_NONE_DECLARED: Final[Settings] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Org:
    """An org with its settings."""

    org_id: str
    name: str
    settings: Mapping[str, Any]
    created_at: datetime | None
    """None for an org that has no row yet, and no settings."""

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        return cls(**row)

    @property
    def tag(self) -> str:
        """Return what changes with every change of the settings."""
        return canonical_hash([self.settings])[:32]


async def create_org(
    connection: Connection,
    org_id: str,
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    declared: Settings = _NONE_DECLARED,
) -> Org:
    """Create an org, in a transaction of the owner; raise `Refused` if there is one, `Invalid` for bad settings."""
    row = await _insert_if_new(connection, org_id, name or org_id, _checked(settings or {}, declared))
    if row is None:
        raise Refused(Rejection("ALREADY_EXISTS", f"there is an org {org_id} already", ("org_id",)))
    return Org.of(row)


async def ensure_org(connection: Connection, org_id: str) -> None:
    """Create an org that has no record yet, in a transaction of the owner; one that has stays as it is."""
    await _insert_if_new(connection, org_id, org_id, {})


async def _insert_if_new(
    connection: Connection, org_id: str, name: str, settings: Mapping[str, Any]
) -> asyncpg.Record | None:
    require_name(org_id, "org_id")
    try:
        return await connection.fetchrow(_SQL.insert_org_if_new, org_id, name, dict(settings))
    except asyncpg.CheckViolationError:
        message = f"expected letters, digits and _ . : - that begin with a letter or digit, found {org_id!r}"
        raise Refused(Rejection("BAD_NAME", message, ("org_id",))) from None


async def read_org(connection: Connection, org_id: str) -> Org:
    """Return an org; one that was never created has no settings."""
    row = await connection.fetchrow(_SQL.read_org, org_id)
    return Org.of(row) if row is not None else Org(org_id, org_id, {}, None)


async def save_settings(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    settings: Mapping[str, Any],
    by: Actor,
    *,
    tag: str | None = None,
    declared: Settings = _NONE_DECLARED,
) -> Org:
    """Replace all settings of an org; raise `Invalid`, or `Refused` if the tag is not the current one."""
    checked = _checked(settings, declared)
    return await _write(connection, await _lock(connection, org_id, tag), checked, by)


async def change_settings(  # noqa: PLR0913
    connection: Connection,
    org_id: str,
    changes: Mapping[str, Any],
    by: Actor,
    *,
    tag: str | None = None,
    declared: Settings = _NONE_DECLARED,
) -> Org:
    """Set some settings, and remove those whose value is null; raise as `save_settings` does."""
    found = await _lock(connection, org_id, tag)
    kept = {name: value for name, value in found.settings.items() if name not in changes}
    return await _write(connection, found, kept | _checked(changes, declared), by)


async def _lock(connection: Connection, org_id: str, tag: str | None) -> Org:
    """Return the org, with its row locked until the transaction ends; the first setting of an org makes the row."""
    await connection.fetchrow(_SQL.insert_org_if_new, org_id, org_id, {})
    row = await connection.fetchrow(_SQL.lock_org, org_id)
    assert row is not None
    found = Org.of(row)
    if tag not in (None, found.tag):
        message, hint = "the settings were changed since they were read", "read them again, and decide again"
        raise Refused(Rejection("VERSION_CONFLICT", message, hint=hint))
    return found


async def _write(connection: Connection, found: Org, settings: Mapping[str, Any], by: Actor) -> Org:
    if settings.get(PUBLISH_SETTING) != found.settings.get(PUBLISH_SETTING):
        # One who may publish could else do without the other pair of eyes.
        refuse_not_held(by, {EVERYTHING}, PUBLISH_SETTING)
    if len(canonical_json(settings)) > SETTINGS_BYTES_MAX:
        raise Invalid([_TOO_LARGE])
    row = await connection.fetchrow(_SQL.update_settings, found.org_id, dict(settings))
    assert row is not None
    return Org.of(row)


def _checked(settings: Mapping[str, Any], declared: Settings) -> dict[str, Any]:
    """Return settings in the form in which they are kept, without those that are null; raise `Invalid`."""
    if len(settings) > _SETTINGS_MAX:
        raise Invalid([_TOO_LARGE])
    known = {**declared, **OWN_SETTINGS}
    kept: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in settings.items():
        if len(problems) >= PROBLEMS_MAX:
            break
        if (problem := _problem_with_name(name, known, is_closed=bool(declared))) is not None:
            problems.append(problem)
        elif name in known:
            kept[name], found = check_value(known[name], value, (name,))
            problems += found
        else:
            try:
                require_canonical(value)
            except NotCanonical as error:
                problems.append(Problem(error.code, str(error), (name, *error.path)))
            kept[name] = value
    if problems:
        raise Invalid(problems)
    return {name: value for name, value in kept.items() if value is not None}


def _problem_with_name(name: str, known: Settings, *, is_closed: bool) -> Problem | None:
    if name == RESERVED or not re.fullmatch(NAME_PATTERN, name):
        message = "expected a name of small letters, digits and _, and not `id`, such as `budget`"
        return Problem("BAD_NAME", message, (name,))
    if name in known or not is_closed:
        return None
    near = nearest(name, known)
    message = f"`{name}` is no setting of this application; there are: {', '.join(sorted(known))}"
    return Problem("UNKNOWN_KEY", message, (name,), f"did you mean `{near}`?" if near else None)


async def list_partitions(
    connection: Connection, org_id: str, confined_to: str | None, after: str | None, limit: int
) -> list[str]:
    """Return the partitions in which something of an org is, by name."""
    rows = await connection.fetch(_SQL.list_partitions, org_id, confined_to, after, limit)
    return [row["partition_id"] for row in rows]
