"""`assent attachments`: files attached to entities: attach, list, download, remove and erase them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.documents import (
    FileArgument,
    FileNameOption,
    OutOption,
    described,
    save_file,
)
from assent.cli.entities import (
    NAMES,
    EntityArgument,
    ReasonOption,
    TypeArgument,
    VersionOption,
    find_entity_id,
    is_readable,
)
from assent.cli.options import given_version
from assent.cli.remote import Server, get, if_match, post, put_file
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.attachments import AttachmentBody
    from assent.bodies.instances import EntityBody
    from assent.runtime.file_commands import OpenedFile

app = typer.Typer(
    no_args_is_help=True, help="Files attached to entities: list, add, download, remove and erase them."
)

AttachmentArgument = Annotated[
    UUID, typer.Argument(metavar="ATTACHMENT", help="The attachment, by its whole id.")
]
WhyOption = Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit log.")]


@app.command("list")
@by_member
def list_(who: ActorOptions, entity_type: TypeArgument, entity: EntityArgument) -> None:
    """List the attachments of an entity at its current version."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.attachments import AttachmentBody
        from assent.bodies.body import Page

        entity_id = await find_entity_id(session, entity_type, entity)
        found = await session.commands.attachments.list(entity_id, entity_type=entity_type)
        page = Page[AttachmentBody](items=[AttachmentBody.of_attachment(one) for one in found])
        return page.model_dump_json()

    def route(server: Server) -> Any:
        return server.ask(get("entities", entity_type, entity, "attachments"))

    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no attachment.")


@app.command()
@by_member
def add(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    file: FileArgument,
    name: FileNameOption = None,
    version: VersionOption = None,
    reason: ReasonOption = None,
) -> None:
    """Attach a file, as an update of the entity: approvals of the version before are void."""
    from assent.cli.output import print_change

    (called, kind), expected = described(file, name, None), given_version(version)

    async def work(session: ActorSession) -> "AttachmentBody | None":
        from assent.bodies.attachments import AttachmentBody

        entity_id = await find_entity_id(session, entity_type, entity)
        attached = await session.commands.attachments.add(
            entity_id,
            file,
            file_name=called,
            entity_type=entity_type,
            expected_version=expected,
            reason=reason,
        )
        is_shown = is_readable(session, entity_type)
        return AttachmentBody.of_attachment(attached.attachment) if is_shown else None

    def route(server: Server) -> Any:
        tag = if_match(expected) if version is not None else None
        parts = ("entities", entity_type, entity, "attachments")
        about = {"name": called, "reason": reason}
        return server.ask(put_file(*parts, file=file, content_type=kind, if_match=tag, **about))

    added = act(who, route, work, NAMES)
    print_change(added, f"attached {called}{f': {added.id}' if added else ''}", json=who.json)


@app.command()
@by_member
def download(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    attachment: AttachmentArgument,
    out: OutOption = None,
) -> None:
    """Save an attachment, also one that was removed. A file that is there already is not overwritten."""

    async def opening(session: ActorSession) -> "OpenedFile":
        entity_id = await find_entity_id(session, entity_type, entity)
        return await session.commands.attachments.open(entity_id, attachment, entity_type=entity_type)

    route = get("entities", entity_type, entity, "attachments", attachment, "content")
    save_file(who, route, opening, out)


@app.command()
@by_member
def remove(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    attachment: AttachmentArgument,
    reason: WhyOption,
    version: VersionOption = None,
) -> None:
    """Remove an attachment, as an update of the entity; versions before keep it."""
    from assent.cli.output import print_change

    expected = given_version(version)

    async def work(session: ActorSession) -> "EntityBody | None":
        from assent.bodies.instances import EntityBody

        entity_id = await find_entity_id(session, entity_type, entity)
        about: dict[str, Any] = {"entity_type": entity_type, "expected_version": expected}
        changed = await session.commands.attachments.remove(entity_id, attachment, reason, **about)
        return EntityBody.of(changed) if is_readable(session, entity_type) else None

    def route(server: Server) -> Any:
        tag = if_match(expected) if version is not None else None
        parts = ("entities", entity_type, entity, "attachments", attachment, "remove")
        return server.ask(post(*parts, body={"reason": reason}, if_match=tag))

    changed = act(who, route, work, NAMES)
    print_change(changed, f"removed {attachment}", json=who.json)


@app.command()
@by_member
def erase(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    attachment: AttachmentArgument,
    reason: WhyOption,
) -> None:
    """Delete the bytes and the name of an attachment for good. Takes `documents:erase`."""
    from assent.cli.output import print_change

    async def work(session: ActorSession) -> "AttachmentBody | None":
        from assent.bodies.attachments import AttachmentBody

        entity_id = await find_entity_id(session, entity_type, entity)
        attachments = session.commands.attachments
        erased = await attachments.erase(entity_id, attachment, reason, entity_type=entity_type)
        return AttachmentBody.of_attachment(erased) if is_readable(session, entity_type) else None

    def route(server: Server) -> Any:
        parts = ("entities", entity_type, entity, "attachments", attachment, "erase")
        return server.ask(post(*parts, body={"reason": reason}))

    erased = act(who, route, work)
    print_change(erased, f"erased {attachment}", json=who.json)


def _table(attachments: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, safe, table

    rows = [
        [
            safe(one.file_name or ("(erased)" if one.is_erased else "")),
            one.content_type,
            f"{one.size_bytes:,}",
            safe(one.attached_by),
            moment(one.attached_at),
            str(one.id),
        ]
        for one in attachments
    ]
    return table(("name", "type", "bytes", "attached by", "at", "id"), rows, right=("bytes",))
