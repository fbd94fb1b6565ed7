"""`assent rebuild`: fold the steps of instances into their rows again; steps are the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import GivenId, given_id, given_length
from assent.cli.remote import JsonBody, Server, ServerRefusal, get, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from datetime import timedelta

    from rich.text import Text

InstancesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID…]", help="Instances or entities, by their ids or the beginnings of them."),
]
CheckOption = Annotated[bool, typer.Option("--check", help="Only compare; ends with 1 where they differ.")]
StuckOption = Annotated[
    bool, typer.Option("--all-stuck", help="Every instance of the org that runs and that nothing can move.")
]
StillOption = Annotated[
    str, typer.Option("--still-for", metavar="LENGTH", help="How long a stuck one must have been still.")
]


@by_member
def rebuild(
    who: ActorOptions,
    ids: InstancesArgument = None,
    check: CheckOption = False,
    all_stuck: StuckOption = False,
    still_for: StillOption = "15m",
) -> None:
    """Compare instances with what their steps make of them, and correct those that differ.

    Takes the capability `workflows:repair`.
    """
    from assent.cli.output import print_body

    given = [given_id(text) for text in ids or []]
    if bool(given) == all_stuck:
        raise typer.BadParameter("expected the id of an instance, or --all-stuck")
    stuck_for = given_length(still_for, "--still-for") if all_stuck else None
    found = act(
        who,
        lambda server: _ask(server, given, stuck_for, check),
        lambda session: _rebuild(session, given, stuck_for, check, shown=not who.json),
    )
    if who.json:
        print_body(found)
    else:
        _print(found["items"])
    raise typer.Exit(1 if any(_is_wrong(one) for one in found["items"]) else 0)


def _is_wrong(one: Any) -> bool:
    """Return whether an instance is still not as its steps make it, or that could not be found out."""
    return "error" in one or (bool(one.differences) and not one.changed)


def _ask(server: Server, given: Sequence[GivenId], stuck_for: "timedelta | None", check: bool) -> Any:
    if stuck_for is None:
        ids = [server.instance(one) for one in given]
    else:
        still_s = int(stuck_for.total_seconds())
        stuck = server.ask(get("operations", "stuck", still_s=still_s, limit=200))["items"]
        ids = [one.instance_id for one in stuck]
    return JsonBody(items=[_ask_one(server, instance_id, check) for instance_id in ids], next=None)


def _ask_one(server: Server, instance_id: str, check: bool) -> Any:
    """Rebuild an instance; note an error instead of raising it, so that the others are rebuilt."""
    from assent.cli.refusals import as_json

    path = ("operations", "instances", instance_id)
    try:
        differences = server.ask(get(*path, "comparison")).differences
        changed = bool(differences and not check and server.ask(post(*path, "rebuild")).changed)
    except ServerRefusal as refusal:
        error = JsonBody(as_json(refusal.rejection))
        return JsonBody(instance_id=instance_id, changed=False, differences=JsonBody(), error=error)
    return JsonBody(
        instance_id=instance_id,
        changed=changed,
        differences=differences if changed or check else JsonBody(),
    )


async def _rebuild(
    session: ActorSession,
    given: Sequence[GivenId],
    stuck_for: "timedelta | None",
    check: bool,
    *,
    shown: bool,
) -> str:
    from json import dumps

    from assent.cli.output import Bar
    from assent.cli.rebuild_instance import named_instances, rebuild_one, stuck_instances
    from assent.runtime.rights import may_operate

    may_operate(session.actor, "repair")
    ids = await (stuck_instances(session, stuck_for) if stuck_for else named_instances(session, given))
    found = []
    with Bar("instances", shown=shown) as bar:
        bar.expect(len(ids))
        for instance_id in ids:
            found.append((await rebuild_one(session, instance_id, check=check)).to_json())
            bar.advance()
    return dumps({"items": found, "next": None}, default=str)


def _print(found: Sequence[Any]) -> None:
    from assent.cli.output import console

    out = console()
    for one in found:
        out.print(_text(one))
    if not found:
        out.print("No instance is stuck.", style="dim")


def _text(one: Any) -> "Text":
    from rich.text import Text

    from assent.cli.output import one_line, safe
    from assent.cli.refusals import text_of_problem

    text = Text(f"{one.instance_id}  ")
    if "error" in one:
        return text.append(text_of_problem(one.error))
    if not one.differences:
        return text.append("✓ as its steps make it", "green")
    text.append("✓ rebuilt" if one.changed else "✗ differs", "green" if one.changed else "red")
    for name, part in one.differences.items():
        kept, rebuilt = (safe(one_line(str(value))) for value in (part.kept, part.rebuilt))
        text.append(f"\n  {name}: {kept} → {rebuilt}", "default")
    return text
