"""`assent audit`: who did what, to what, when, by which way and why."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from rich.table import Table

    from assent.audit.entries import AuditFilter
    from assent.store.rows import Row

ActorOption = Annotated[str | None, typer.Option("--actor", help="Who did it.")]
ActionOption = Annotated[str | None, typer.Option("--action", help="What, such as approval.decide.")]
EntityOption = Annotated[UUID | None, typer.Option("--entity", metavar="ID", help="An entity.")]
KindOption = Annotated[
    str | None, typer.Option("--subject-kind", help="What it was done to: instance, member, role, …")
]
SubjectOption = Annotated[str | None, typer.Option("--subject", metavar="ID", help="To which of them.")]
ChannelOption = Annotated[str | None, typer.Option("--channel", help="By which way: http, cli, python, …")]
SinceOption = Annotated[datetime | None, typer.Option("--since", help="From this time on, local.")]
UntilOption = Annotated[datetime | None, typer.Option("--until", help="Before this time, local.")]


def audit(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    actor: ActorOption = None,
    action: ActionOption = None,
    entity: EntityOption = None,
    subject_kind: KindOption = None,
    subject: SubjectOption = None,
    channel: ChannelOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """Search the audit log, newest first: changes, commands and administration. Takes `audit:read`."""
    from assent.audit.entries import AuditFilter
    from assent.bodies.operations import AuditEntryBody
    from assent.cli.output import print_list

    wanted = AuditFilter(
        entity_id=entity,
        actor_id=actor,
        action=action,
        subject_kind=subject_kind,
        subject_id=subject,
        channel=channel,
        since=since.astimezone() if since else None,
        until=until.astimezone() if until else None,
    )
    found = act(ActorOptions(app, org, user, json), lambda session: _search(session, wanted, cursor, limit))
    print_list(
        *(found, limit, AuditEntryBody.of, lambda row: str(row["id"])),
        json=json,
        show=_table,
        none="Nothing of the kind is on record.",
    )


async def _search(
    session: ActorSession, wanted: "AuditFilter", cursor: str | None, limit: int
) -> "list[Row]":
    from dataclasses import replace

    from assent.audit.entries import READ_AUDIT, search_audit
    from assent.model.cursor import id_in, position_of
    from assent.runtime.rights import hidden_types, require_capability

    require_capability(session.actor, READ_AUDIT)
    seen = replace(wanted, hidden_types=hidden_types(session.contracts, session.actor))
    async with session.reading() as connection:
        return await search_audit(connection, session.org_id, seen, position_of(cursor, id_in), limit + 1)


def _table(found: "Sequence[Row]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = (
        [
            moment(row["at"]),
            _who(row),
            row["action"],
            _subject(row),
            one_line(_what(row)),
            row["channel"],
            row["place"],
            one_line(row["reason"]),
        ]
        for row in found
    )
    return table(("at", "who", "what", "of", "how it changed", "by way of", "from", "why"), rows)


def _who(row: "Row") -> str:
    """Return the actor, and the people in whose place they acted."""
    return (
        f"{row['actor_id']} for {', '.join(row['on_behalf_of'])}" if row["on_behalf_of"] else row["actor_id"]
    )


def _subject(row: "Row") -> str:
    if row["subject_kind"] is not None:
        return f"{row['subject_kind']} {row['subject_id']}"
    return f"{row['entity_type']} {row['entity_id']} v{row['to_version']}"


def _what(row: "Row") -> str:
    changed = [
        f"{name}: {_plain(before)} → {_plain(after)}" for name, (before, after) in row["changes"].items()
    ]
    details = {name: value for name, value in (row["details"] or {}).items() if value is not None}
    asked = [f"{name}={_plain(value)}" for name, value in details.items()]
    return ", ".join([*asked, *changed])


def _plain(value: Any) -> str:
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value).decode()
