"""`assent rebuild`: fold the steps of instances into their rows again; steps are the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.options import GivenId, JsonOption, given_id
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from datetime import timedelta

    from assent.cli.rebuild_instance import Rebuilt

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


def rebuild(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    ids: InstancesArgument = None,
    check: CheckOption = False,
    all_stuck: StuckOption = False,
    still_for: StillOption = "15m",
    json: JsonOption = False,
) -> None:
    """Compare instances with what their steps make of them, and correct those that differ.

    Takes the capability `workflows:repair`.
    """
    from assent.cli.output import print_json

    given = [given_id(text) for text in ids or []]
    if bool(given) == all_stuck:
        raise typer.BadParameter("expected the id of an instance, or --all-stuck")
    stuck_for = _length(still_for) if all_stuck else None
    found = act(
        ActorOptions(app, org, user, json),
        lambda session: _rebuild(session, given, stuck_for, check, shown=not json),
    )
    if json:
        print_json({"items": [one.to_json() for one in found], "next": None})
    else:
        _print(found)
    raise typer.Exit(1 if any(one.is_wrong for one in found) else 0)


def _length(text: str) -> "timedelta":
    from assent.model.problems import Problem
    from assent.model.timing import parse_duration

    found = parse_duration(text)
    if isinstance(found, Problem):
        raise typer.BadParameter(found.message, param_hint="--still-for")
    return found


async def _rebuild(
    session: ActorSession,
    given: Sequence[GivenId],
    stuck_for: "timedelta | None",
    check: bool,
    *,
    shown: bool,
) -> "list[Rebuilt]":
    from assent.cli.output import Bar
    from assent.cli.rebuild_instance import named_instances, rebuild_one, stuck_instances
    from assent.runtime.rights import may_operate

    may_operate(session.actor, "repair")
    ids = await (stuck_instances(session, stuck_for) if stuck_for else named_instances(session, given))
    found = []
    with Bar("instances", shown=shown) as bar:
        bar.expect(len(ids))
        for instance_id in ids:
            found.append(await rebuild_one(session, instance_id, check=check))
            bar.advance()
    return found


def _print(found: "Sequence[Rebuilt]") -> None:
    from assent.cli.output import console

    out = console()
    for one in found:
        out.print(one.text())
    if not found:
        out.print("No instance is stuck.", style="dim")
