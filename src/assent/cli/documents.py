"""`assent documents`: hand in documents, review them, search them, erase their content."""

import json as json_text
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, DataOption, JsonDataOption, LimitOption, given_data
from assent.cli.remote import Server, ServerCall, get, given, post, put_file, seen
from assent.cli.session import ActorOptions, ActorSession, act, act_then_read, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.documents import CreatedDocument, CreatedVersion, DocumentDetailsBody, FileLinkBody
    from assent.runtime.file_commands import OpenedFile

app = typer.Typer(no_args_is_help=True, help="Documents: create, list, show, verify, reject and erase them.")

DocumentArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The document, by its whole id.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file.")]
FileNameOption = Annotated[str | None, typer.Option("--name", help="Its name; by default that of the file.")]
ContentTypeOption = Annotated[str | None, typer.Option("--content-type")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Where it is written; by default under its own name, here.")
]
VersionArgument = Annotated[UUID, typer.Argument(metavar="VERSION", help="The version, by its whole id.")]
DayOption = Annotated[datetime | None, typer.Option("--valid-to", formats=["%Y-%m-%d"], help="The last day.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why, for colleagues.")]


class VersionStatusFilter(StrEnum):
    PENDING = "pending"
    IN_QA = "in_qa"
    VERIFIED = "verified"
    REJECTED = "rejected"


@app.command()
@by_member
def create(
    who: ActorOptions,
    document_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as passport.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose document it is.")],
    requirement: Annotated[UUID | None, typer.Option("--requirement", help="What it is for.")] = None,
) -> None:
    """Create a document; its content comes with its versions. Takes `documents:write`."""
    from assent.cli.output import print_change

    async def work(session: ActorSession) -> "CreatedDocument":
        from assent.bodies.documents import CreatedDocument

        made = await session.commands.documents.create(document_type, subject, requirement_id=requirement)
        return CreatedDocument(id=made.id)

    body = given(document_type=document_type, subject=subject, requirement_id=requirement)
    created = act(who, post("documents", body=body), work)
    print_change(created, f"created {created.id}", json=who.json)


@app.command("add-version")
@by_member
def add_version(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    document: DocumentArgument,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    blob_ref: Annotated[str | None, typer.Option("--blob-ref", help="Where its file is.")] = None,
    content_type: Annotated[str, typer.Option("--content-type")] = "application/json",
    valid_to: DayOption = None,
) -> None:
    """Hand in the next version of a document. Takes `documents:write`."""
    from assent.cli.output import print_change

    body = given(
        content_type=content_type,
        structured_data=given_data(data, json_data) if data or json_data else None,
        blob_ref=blob_ref,
        valid_to=valid_to.date() if valid_to else None,
    )

    async def work(session: ActorSession) -> "CreatedVersion":
        from assent.bodies.documents import CreatedVersion

        added = await session.commands.documents.add_version(document, **body)
        return CreatedVersion.at(added.id, added.document_id, added.version_no)

    route = post("documents", document, "versions", body=body)
    made = act(who, route, work)
    print_change(made, f"version {made.version_no}, {made.cargo}", json=who.json)


@app.command()
@by_member
def upload(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    document: DocumentArgument,
    file: FileArgument,
    name: FileNameOption = None,
    content_type: ContentTypeOption = None,
    valid_to: DayOption = None,
) -> None:
    """Hand in a file as the next version of a document. Takes `documents:write`."""
    from assent.cli.output import print_change

    (called, kind), day = described(file, name, content_type), valid_to.date() if valid_to else None

    async def work(session: ActorSession) -> "CreatedVersion":
        from assent.bodies.documents import CreatedVersion

        documents = session.commands.documents
        added = await documents.add_version(document, kind, content=file, file_name=called, valid_to=day)
        return CreatedVersion.at(added.id, added.document_id, added.version_no)

    place = ("documents", document, "versions")
    route = put_file(*place, file=file, content_type=kind, name=called, valid_to=day)
    made = act(who, route, work)
    print_change(made, f"version {made.version_no}, {made.cargo}", json=who.json)


def described(file: Path, name: str | None, content_type: str | None) -> tuple[str, str]:
    """Return the name and the type of a file, as they were given or as the file is called."""
    from mimetypes import guess_type

    called = name or file.name
    return called, content_type or guess_type(called)[0] or "application/octet-stream"


@app.command()
@by_member
def download(
    who: ActorOptions,
    document: DocumentArgument,
    version: VersionArgument,
    out: OutOption = None,
) -> None:
    """Save the file of a version. A file that is there already is not overwritten. Takes `documents:read`."""
    route = get("documents", document, "versions", version, "content")
    save_file(who, route, lambda session: session.commands.documents.open(document, version), out)


def save_file(
    who: ActorOptions,
    route: ServerCall,
    opening: "Callable[[ActorSession], Awaitable[OpenedFile]]",
    out: Path | None,
) -> None:
    """Write a file to a path that is not there yet, and print where; refuse one that is there already."""
    from assent.cli.output import print_change

    def saved(path: Path, size_bytes: int, sha256: str) -> str:
        return json_text.dumps({"path": str(path), "size_bytes": size_bytes, "sha256": sha256})

    def save(server: Server) -> Any:
        try:
            found = server.save(route, out)
        except FileExistsError as error:
            raise _exists(error) from None
        return seen(saved(found.path, found.size_bytes, found.sha256))

    async def work(session: ActorSession) -> str:
        opened = await opening(session)
        target = out or Path(opened.name)
        try:
            await opened.save(target)
        except FileExistsError as error:
            raise _exists(error) from None
        return saved(target, opened.size_bytes, opened.sha256)

    done = act(who, save, work)
    print_change(done, f"{done.path}, {done.size_bytes:,} bytes", json=who.json)


def _exists(error: FileExistsError) -> Exception:
    from assent.model.mutation import Refused, Rejection

    message = f"{error.filename} is there already"
    return Refused(Rejection("ALREADY_EXISTS", message, ("out",), hint="name another with --out"))


@app.command()
@by_member
def link(who: ActorOptions, document: DocumentArgument, version: VersionArgument) -> None:
    """Make a link to the file of a version, for everyone who has it, for some minutes. Takes `documents:read`."""
    from assent.cli.output import console, print_body

    async def work(session: ActorSession) -> "FileLinkBody":
        from assent.bodies.documents import FileLinkBody

        found = await session.commands.documents.link(document, version)
        return FileLinkBody(url=found.url, expires_at=found.expires_at)

    route = post("documents", document, "versions", version, "link")
    made = act(who, route, work)
    if who.json:
        print_body(made)
    else:
        console().print(made.url, soft_wrap=True, highlight=False)


@app.command("list")
@by_member
def list_(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only of this subject.")] = None,
    status: Annotated[
        VersionStatusFilter | None, typer.Option("--status", help="Of the latest version.")
    ] = None,
    data: DataOption = None,
    words: Annotated[str | None, typer.Option("-q", help="Words that are in the extracted text.")] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List documents, newest first; `--data` searches their fields. Takes `documents:read`."""
    from assent.cli.output import print_items

    fields = given_data(data, None) if data else None

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.documents import DocumentBody

        found = await session.commands.documents.list(
            document_type=type,
            subject=subject,
            status=status.value if status else None,
            fields=fields,
            q=words,
            cursor=cursor,
            limit=limit,
        )
        return text_of_page(found, DocumentBody.of)

    route = get(
        "documents",
        document_type=type,
        subject=subject,
        status=status,
        fields=json_text.dumps(fields, ensure_ascii=False) if fields is not None else None,
        q=words,
        cursor=cursor,
        limit=limit,
    )
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no such document.")


@app.command()
@by_member
def show(who: ActorOptions, document: DocumentArgument) -> None:
    """Show a document with its versions and what happened to it. Takes `documents:read`."""
    route = get("documents", document)
    _print(act(who, route, lambda session: _read(session, document)), who.json)


@app.command()
@by_member
def verify(
    who: ActorOptions,
    document: DocumentArgument,
    version: VersionArgument,
    valid_to: DayOption = None,
    reason: ReasonOption = None,
) -> None:
    """Verify a version that another person handed in. Takes `documents:review`."""
    body = given(valid_to=valid_to.date() if valid_to else None, reason=reason)

    async def work(session: ActorSession) -> None:
        await session.commands.documents.verify(document, version, **body)

    route = post("documents", document, "versions", version, "verify", body=body)
    _command(who, document, route, work, "verified")


@app.command()
@by_member
def reject(
    who: ActorOptions,
    document: DocumentArgument,
    version: VersionArgument,
    code: Annotated[str, typer.Option("--code", help="Such as UNREADABLE; `requirements codes` lists them.")],
    reason: ReasonOption = None,
) -> None:
    """Reject a version; the client is asked again, if the code allows it. Takes `documents:review`."""

    async def work(session: ActorSession) -> None:
        await session.commands.documents.reject(document, version, code, reason)

    body = given(code=code, reason=reason)
    route = post("documents", document, "versions", version, "reject", body=body)
    _command(who, document, route, work, "rejected")


@app.command()
@by_member
def erase(
    who: ActorOptions,
    document: DocumentArgument,
    version: VersionArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why.")],
) -> None:
    """Delete the content of a version for good. Takes `documents:erase`."""

    async def work(session: ActorSession) -> None:
        await session.commands.documents.erase(document, version, reason)

    route = post("documents", document, "versions", version, "erase", body={"reason": reason})
    _command(who, document, route, work, "erased")


async def _read(session: ActorSession, document_id: UUID) -> "DocumentDetailsBody":
    from assent.bodies.documents import DocumentDetailsBody

    return DocumentDetailsBody.of_details(await session.commands.documents.get(document_id))


def _command(
    who: ActorOptions,
    document_id: UUID,
    route: ServerCall,
    work: Callable[[ActorSession], Awaitable[None]],
    done: str,
) -> None:
    """Run a command on a version, and print the document then if the member may read it."""
    from assent.cli.output import print_change

    found = act_then_read(who, route, work, lambda session: _read(session, document_id))
    print_change(found, f"{done} {document_id}", json=who.json)


def _print(found: Any, json: bool) -> None:
    from assent.cli.output import (
        console,
        moment,
        print_body,
        print_table,
        safe,
        status_text,
        table,
    )

    if json:
        print_body(found)
        return
    document = found.document
    console().print(f"{safe(document.document_type)} of {safe(document.subject)}  {document.id}")
    rows: list[list[Any]] = [
        [
            f"  {one.version_no}",
            str(one.id),
            status_text(one.status),
            safe(one.rejection_code or ""),
            safe(one.created_by),
            safe(one.verified_by or ""),
            moment(one.created_at),
        ]
        for one in found.versions
    ]
    print_table(table(("  no", "version", "review", "code", "handed in by", "reviewed by", "at"), rows))


def _table(documents: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, safe, status_text, table

    rows: list[list[Any]] = [
        [
            safe(one.document_type),
            safe(one.subject),
            status_text(one.status or "empty"),
            str(one.version_no or 0),
            moment(one.created_at),
            str(one.id),
        ]
        for one in documents
    ]
    return table(("type", "subject", "review", "versions", "created", "id"), rows)
