"""`assent drafts`: flows and patches that are being written, one for each name; they never run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import yaml_object
from assent.cli.remote import delete, get, if_match, post, put
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from assent.bodies.definitions import DefinitionBody, DraftBody, PublicationBody

app = typer.Typer(no_args_is_help=True, help="Drafts of flows and patches: create, change, publish them.")

DraftArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The draft, by its whole id.")]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A flow or a patch as YAML or JSON; - for standard input.")
]
TagOption = Annotated[
    str,
    typer.Option("--version", metavar="TAG", help="The tag that was read, as `show` prints it; * for any."),
]


@app.command()
@by_member
def create(who: ActorOptions, file: FileArgument) -> None:
    """Create a draft, valid or not, and show its problems. Takes the capability `definitions:edit`."""
    source = yaml_object(file)

    async def work(session: ActorSession) -> "DraftBody":
        from assent.bodies.definitions import DraftBody

        return DraftBody.of_draft(await session.commands.drafts.create(source))

    route = post("drafts", body={"source": source})
    _print(act(who, route, work), who.json)


@app.command()
@by_member
def show(who: ActorOptions, draft: DraftArgument) -> None:
    """Show a draft with its problems, and the tag that `--version` takes. Takes `definitions:read`."""

    async def work(session: ActorSession) -> "DraftBody":
        from assent.bodies.definitions import DraftBody

        return DraftBody.of_draft(await session.commands.drafts.get(draft))

    _print(act(who, get("drafts", draft), work), who.json)


@app.command()
@by_member
def change(who: ActorOptions, draft: DraftArgument, file: FileArgument, version: TagOption) -> None:
    """Replace a draft, which keeps its name. Takes the capability `definitions:edit`."""
    source, tag = yaml_object(file), _tag(version)

    async def work(session: ActorSession) -> "DraftBody":
        from assent.bodies.definitions import DraftBody

        return DraftBody.of_draft(await session.commands.drafts.change(draft, source, tag=tag))

    route = put("drafts", draft, body={"source": source}, if_match=if_match(tag))
    _print(act(who, route, work), who.json)


@app.command()
@by_member
def discard(who: ActorOptions, draft: DraftArgument) -> None:
    """Discard a draft. Takes the capability `definitions:edit`."""
    from assent.cli.output import print_change

    async def work(session: ActorSession) -> "DefinitionBody":
        from assent.bodies.definitions import DefinitionBody

        return DefinitionBody.of_content(await session.commands.drafts.discard(draft))

    gone = act(who, delete("drafts", draft), work)
    print_change(gone, f"discarded the draft of {gone.key}", json=who.json)


@app.command()
@by_member
def publish(who: ActorOptions, draft: DraftArgument, version: TagOption) -> None:
    """Publish a draft as it was reviewed; new instances use it. Takes `definitions:publish` and what its steps use.

    If the org publishes with four eyes, a member who did not edit it publishes.
    """
    from assent.cli.definitions import one_line
    from assent.cli.output import print_change

    tag = _tag(version)

    async def work(session: ActorSession) -> "PublicationBody":
        from assent.bodies.definitions import PublicationBody

        return PublicationBody.of_publication(await session.commands.drafts.publish(draft, tag=tag))

    route = post("drafts", draft, "publish", if_match=if_match(tag))
    done = act(who, route, work)
    print_change(done, f"published {one_line(done.definition)}", json=who.json)


def _tag(text: str) -> str | None:
    return None if text == "*" else text


def _print(draft: Any, json: bool) -> None:
    from assent.cli.definitions import print_draft
    from assent.cli.output import print_body

    if json:
        print_body(draft)
    else:
        print_draft(draft)
