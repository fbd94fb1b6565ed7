"""`assent comments`: what people write about an entity; `assent questions`: what approvers ask before they decide."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.approvals import RequestArgument, find_request_id
from assent.cli.entities import EntityArgument, TypeArgument, find_entity_id
from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import Server, get, given, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.comments import CommentBody

app = typer.Typer(no_args_is_help=True, help="Comments on entities: list and add them.")
questions = typer.Typer(
    no_args_is_help=True, help="Questions of approvers before they decide: ask, answer, list and show them."
)

TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="At most 2,000 characters.")]
QuestionArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The question, by its whole id.")]


@app.command("list")
@by_member
def list_(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the comments on an entity and the questions about it, newest first."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.comments import CommentBody

        entity_id = await find_entity_id(session, entity_type, entity)
        comments = session.commands.comments
        page = await comments.list(entity_id, entity_type=entity_type, cursor=cursor, limit=limit)
        return text_of_page(page, CommentBody.of)

    def route(server: Server) -> Any:
        return server.ask(get("entities", entity_type, entity, "comments", cursor=cursor, limit=limit))

    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no comment.")


@app.command()
@by_member
def add(
    who: ActorOptions,
    entity_type: TypeArgument,
    entity: EntityArgument,
    text: TextArgument,
) -> None:
    """Comment on an entity; `@bob` in the text mentions bob, who is notified."""

    async def work(session: ActorSession) -> "CommentBody":
        from assent.bodies.comments import CommentBody

        entity_id = await find_entity_id(session, entity_type, entity)
        return CommentBody.of(await session.commands.comments.add(entity_id, text, entity_type=entity_type))

    def route(server: Server) -> Any:
        return server.ask(post("entities", entity_type, entity, "comments", body={"text": text}))

    added = act(who, route, work)
    _print(added, who.json, lambda: f"commented{_list(' and notified ', added.mentions)}")


@questions.command("list")
@by_member
def list_questions(
    who: ActorOptions,
    request: RequestArgument,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the questions on an approval request with their answers, oldest first."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.comments import CommentBody

        request_id = await find_request_id(session, request)
        page = await session.commands.questions.list(request_id, cursor=cursor, limit=limit)
        return text_of_page(page, CommentBody.of)

    def route(server: Server) -> Any:
        return server.ask(get("approvals", request, "questions", cursor=cursor, limit=limit))

    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no question.")


@questions.command()
@by_member
def show(
    who: ActorOptions,
    question: QuestionArgument,
) -> None:
    """Show a question with its answer."""

    async def work(session: ActorSession) -> "CommentBody":
        from assent.bodies.comments import CommentBody

        return CommentBody.of(await session.commands.questions.get(question))

    found = act(who, get("questions", question), work)
    _print(found, who.json, None)


@questions.command()
@by_member
def ask(
    who: ActorOptions,
    request: RequestArgument,
    text: TextArgument,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="USER", help="One whose work it is; who requested the approval without it."
        ),
    ] = None,
) -> None:
    """Ask the requester of an approval, or another originator; the request stays open, and the answer comes by mail."""

    async def work(session: ActorSession) -> "CommentBody":
        from assent.bodies.comments import CommentBody

        request_id = await find_request_id(session, request)
        return CommentBody.of(await session.commands.questions.ask(request_id, text, to=to))

    def route(server: Server) -> Any:
        return server.ask(post("approvals", request, "questions", body=given(text=text, to=to)))

    asked = act(who, route, work)
    _print(asked, who.json, lambda: f"asked {asked.asks}: {asked.id}")


@questions.command()
@by_member
def answer(
    who: ActorOptions,
    question: QuestionArgument,
    text: TextArgument,
) -> None:
    """Answer a question to you, once; the approver who asked is notified."""

    async def work(session: ActorSession) -> "CommentBody":
        from assent.bodies.comments import CommentBody

        return CommentBody.of(await session.commands.questions.answer(question, text))

    route = post("questions", question, "answer", body={"text": text})
    answered = act(who, route, work)
    _print(answered, who.json, lambda: f"answered {answered.author_id}")


def _print(found: Any, json: bool, done: Callable[[], str] | None) -> None:
    from assent.cli.output import console, print_body, print_table, safe

    if json:
        print_body(found)
    elif done is not None:
        console().print(f"✓ {safe(done())}", markup=False)
    else:
        print_table(_table([found]))


def _list(before: str, names: "Sequence[str]") -> str:
    return f"{before}{', '.join(names)}" if names else ""


def _table(comments: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = (
        [
            moment(one.created_at),
            one.author_id,
            one.asks,
            one_line(one.text),
            one_line(one.answer) or (one.status if one.status != "answered" else ""),
            str(one.entity_version or ""),
            str(one.id),
        ]
        for one in comments
    )
    headings = ("at", "who", "asks", "text", "answer", "version", "id")
    return table(headings, rows, right=("version",))
