"""`assent start`: begin a flow."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.actor_options import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act
from assent.cli.data_options import DataOption, JsonDataOption, given_data
from assent.cli.options import JsonOption

if TYPE_CHECKING:
    from assent.runtime import InstanceView

KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="An idempotency key: the same again answers with the instance of before."),
]


def start(  # noqa: PLR0913, PLR0917
    flow: Annotated[str, typer.Argument(help="The flow, by the name that it was published under.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Start a flow, and see where it came to rest."""
    from assent.cli.instance_text import print_done

    given = given_data(data, json_data)
    view = act(ActorOptions(app, org, user, json), lambda session: _start(session, flow, given, key))
    print_done(f"started {flow}", view, json=json)


async def _start(session: ActorSession, flow: str, data: dict[str, Any], key: str | None) -> "InstanceView":
    return await session.runtime.org(session.org_id, session.actor).instances.start(
        flow, data, idempotency_key=key
    )
