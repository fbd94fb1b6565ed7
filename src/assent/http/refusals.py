"""The record of refusals: a line in the log, a metric, and an audit entry if the caller was signed in.

The entry has its own transaction, for the command's changes nothing. Rates limit the entries as they limit commands:
a request beyond its rate is counted only.
"""

import logging
from typing import Final

import asyncpg
from fastapi import Request

from assent.audit.entries import RefusalEntry, write_refusals
from assent.http.auth.callers import Caller
from assent.model.actor import Origin
from assent.model.mutation import Rejection
from assent.refusals import status_of
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.telemetry import current_trace, hooks

_log = logging.getLogger(__name__)

PATH_LENGTH_MAX: Final = 500
_AUDITED: Final = frozenset({403, 404, 409, 412, 413, 422, 428})


def note_sign_in(request: Request, rejection: Rejection, place: str | None) -> None:
    """Record a refused sign-in."""
    count_refusal("sign_in", rejection.code)
    about = {"code": rejection.code, "place": place, "method": request.method, "path": _path(request)}
    _log.warning("sign-in refused", extra=about)


def count_refusal(kind: str, code: str) -> None:
    """Count a refusal in the metrics."""
    if hooks.metrics is not None:
        hooks.metrics.refused(kind, code)


async def note_command(
    database: Database, caller: Caller, request: Request, rejection: Rejection, reason: str | None = None
) -> None:
    """Record a refused command of a caller who is signed in."""
    if status_of(rejection.code) not in _AUDITED:
        return
    count_refusal("command", rejection.code)
    name = str(getattr(request.scope.get("route"), "name", "none"))
    who = {"org": caller.org_id, "actor": caller.actor.id, "place": caller.place}
    _log.info(
        "command refused", extra={"code": rejection.code, "command": name, "path": _path(request), **who}
    )
    origin = Origin("http", caller.place, reason)
    refusal = RefusalEntry(
        caller.org_id, caller.actor, name, rejection.code, _path(request), origin, current_trace()
    )
    try:
        async with database.transaction(caller.org_id, plans="kept") as connection:
            await write_refusals(connection, [refusal])
    except (asyncpg.PostgresError, asyncpg.InterfaceError, StoreError, OSError) as error:
        _log.error("a refused command is not in the audit log", exc_info=error, extra=who)


def _path(request: Request) -> str:
    return request.url.path[:PATH_LENGTH_MAX].replace("\x00", "\ufffd")
