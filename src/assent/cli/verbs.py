"""`assent verbs`: commands in the form `(domain.verb :key value)`, listed and run."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import DataOption, JsonDataOption, given_data
from assent.cli.remote import get, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from assent.bodies.documents import VerbList, VerbResult

app = typer.Typer(no_args_is_help=True, help="Verbs, such as (document.create …): list and run them.")


@app.command("list")
@by_member
def list_(who: ActorOptions) -> None:
    """List the verbs that there are, with their arguments and the capability that each takes."""
    from assent.cli.output import print_body, print_table, safe, table

    async def work(session: ActorSession) -> "VerbList":
        from assent.bodies.documents import VerbBody, VerbList

        return VerbList(items=[VerbBody.of_verb(one) for one in await session.commands.verbs.list()])

    found = act(who, get("verbs"), work)
    if who.json:
        print_body(found)
        return
    rows: list[list[Any]] = [
        [
            safe(one.name),
            safe(" ".join(map(_argument, one.args))),
            safe(one.capability),
            safe(one.description),
        ]
        for one in found["items"]
    ]
    print_table(table(("verb", "arguments", "capability", ""), rows))


@app.command()
@by_member
def run(
    who: ActorOptions,
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="Such as '(requirement.list :status rejected)'.")
    ],
    data: DataOption = None,
    json_data: JsonDataOption = None,
) -> None:
    """Run a verb and print its result as JSON; each takes its own capability. `-d` sets what it names as $name."""
    from assent.cli.output import print_body

    variables = given_data(data, json_data) if data or json_data else {}

    async def work(session: ActorSession) -> "VerbResult":
        from assent.bodies.documents import VerbResult

        return VerbResult(result=await session.commands.verbs.run(call, variables))

    body = {"call": call, "variables": variables}
    print_body(act(who, post("verbs", "run", body=body), work))


def _argument(one: Any) -> str:
    text = f":{one.name} {one.type}"
    return text if one.required else f"[{text}]"
