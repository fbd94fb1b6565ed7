"""`assent audit`: who did what, to what, when, by which way and why."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import get
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

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


@by_member
def audit(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
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
) -> None:
    """Search the audit log, newest first: changes, commands and administration. Takes `audit:read`."""
    from assent.cli.output import print_items

    wanted = {
        "entity_id": entity,
        "actor": actor,
        "action": action,
        "subject_kind": subject_kind,
        "subject_id": subject,
        "channel": channel,
        "since": since.astimezone() if since else None,
        "until": until.astimezone() if until else None,
        "cursor": cursor,
        "limit": limit,
    }

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.operations import AuditEntryBody

        page = await session.commands.audit.search(**wanted)  # type: ignore[arg-type]
        return text_of_page(page, AuditEntryBody.of)

    page = act(who, get("audit", **wanted), work)
    print_items(page, json=who.json, show=_table, none="Nothing of the kind is on record.")


def _table(found: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = (
        [
            moment(row.at),
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


def _who(row: Any) -> str:
    """Return the actor, and the people in whose place they acted."""
    return (
        f"{row['actor_id']} for {', '.join(row['on_behalf_of'])}" if row["on_behalf_of"] else row["actor_id"]
    )


def _subject(row: Any) -> str:
    if row["subject_kind"] is not None:
        return f"{row['subject_kind']} {row['subject_id']}"
    return f"{row['entity_type']} {row['entity_id']} v{row['to_version']}"


def _what(row: Any) -> str:
    changed = [
        f"{name}: {_plain(before)} → {_plain(after)}" for name, (before, after) in row["changes"].items()
    ]
    details = {name: value for name, value in (row["details"] or {}).items() if value is not None}
    asked = [f"{name}={_plain(value)}" for name, value in details.items()]
    return ", ".join([*asked, *changed])


def _plain(value: Any) -> str:
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value).decode()
