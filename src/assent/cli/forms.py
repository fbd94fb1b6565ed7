"""`assent forms`: show a form, claim it, save a draft, pass it on; `assent instances advance` completes it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import DataOption, JsonDataOption, given_data
from assent.cli.remote import get, given, post, put
from assent.cli.session import ActorOptions, ActorSession, act, act_then_read, by_member

if TYPE_CHECKING:
    from assent.bodies.instances import FormBody
    from assent.cli.remote import ServerCall

app = typer.Typer(no_args_is_help=True, help="Forms: show and claim them, save drafts, pass them on.")

FormArgument = Annotated[
    UUID, typer.Argument(metavar="FORM", help="The form, by its whole id, as `assent inbox` shows it.")
]


@app.command()
@by_member
def show(who: ActorOptions, form: FormArgument) -> None:
    """Show a form: its fields, who is asked, and its draft if you could submit it."""
    _print(act(who, get("forms", form), lambda session: _read(session, form)), who.json)


@app.command()
@by_member
def claim(who: ActorOptions, form: FormArgument) -> None:
    """Claim a form: until it is released, no other member can fill it in."""
    route = post("forms", form, "claim")
    _command(who, form, route, lambda session: session.commands.forms.claim(form), "claimed")


@app.command()
@by_member
def release(who: ActorOptions, form: FormArgument) -> None:
    """Release a form that was claimed; another's takes the capability `forms:reassign`."""
    route = post("forms", form, "release")
    _command(who, form, route, lambda session: session.commands.forms.release(form), "released")


@app.command("save-draft")
@by_member
def save_draft(
    who: ActorOptions, form: FormArgument, data: DataOption = None, json_data: JsonDataOption = None
) -> None:
    """Save the fields so far, in place of the draft before; the problems that they have are shown."""
    fields = given_data(data, json_data)
    route = put("forms", form, "draft", body={"data": fields})
    _command(who, form, route, lambda session: session.commands.forms.save_draft(form, fields), "saved")


@app.command()
@by_member
def reassign(
    who: ActorOptions,
    form: FormArgument,
    from_user: Annotated[str, typer.Argument(metavar="FROM", help="The member who is asked now.")],
    to_user: Annotated[str, typer.Argument(metavar="TO", help="The member who is asked instead.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the record.")] = None,
) -> None:
    """Ask another member to fill in a form: in your own place, or in another's with `approvals:reassign`."""

    async def work(session: ActorSession) -> None:
        await session.commands.forms.reassign(form, from_user=from_user, to_user=to_user, reason=reason)

    route = post("forms", form, "reassign", body=given(from_user=from_user, to_user=to_user, reason=reason))
    _command(who, form, route, work, f"reassigned to {to_user}")


async def _read(session: ActorSession, step_id: UUID) -> "FormBody":
    from assent.bodies.instances import FormBody

    return FormBody.of(await session.commands.forms.get(step_id))


def _command(
    who: ActorOptions,
    step_id: UUID,
    route: "ServerCall",
    work: Callable[[ActorSession], Awaitable[object]],
    done: str,
) -> None:
    """Run a command on a form, and print the form then if the member may read it."""
    from assent.cli.output import console, print_body, safe

    form = act_then_read(who, route, work, lambda session: _read(session, step_id))
    if not who.json:
        console().print(f"✓ {safe(done)}")
    if form is not None:
        _print(form, who.json)
    elif who.json:
        print_body(None)


def _print(form: Any, json: bool) -> None:
    from rich.text import Text

    from assent.cli.output import console, moment, one_line, print_body, print_table, safe, status_text, table

    if json:
        print_body(form)
        return
    out = console()
    title = Text(f"{safe(form.workflow)} {safe(form.node_name)}  {form.id}  ", "bold")
    out.print(title.append(status_text(form.status)))
    claimed = f", claimed by {safe(form.claimed_by)}" if form.claimed_by else ""
    due = f", due {moment(form.due_at)}" if form.due_at else ""
    out.print(f"  asks {safe(', '.join(form.asked))}{claimed}{due}; answers: {safe(', '.join(form.answers))}")
    draft = form.draft or {}
    required = form.form_schema.get("required", ())
    rows = (
        [
            f"  {name}",
            str(field.get("type", "")),
            "required" if name in required else "",
            one_line(str(draft.get(name, ""))),
        ]
        for name, field in form.form_schema.get("properties", {}).items()
    )
    print_table(table(("  field", "type", "", "draft"), rows))
    for problem in form.draft_problems or ():
        out.print(f"  {problem['code']} {safe(problem['message'])}", style="yellow")
