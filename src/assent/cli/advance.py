"""`assent advance`: answer a step that waits, or make a transition of an entity."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.actor_options import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act
from assent.cli.data_options import DataOption, JsonDataOption, given_data
from assent.cli.ids import GivenId
from assent.cli.options import JsonOption
from assent.cli.targets import InstanceArgument, find_meant

if TYPE_CHECKING:
    from assent.runtime import InstanceView

StepOption = Annotated[
    str | None, typer.Option("--step", help="Which step is meant, where several wait: its name or its id.")
]


def advance(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    event: Annotated[str, typer.Argument(help="The step's answer, or the name of a transition.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    step: StepOption = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a step that waits, or move an entity on: `assent advance ID submit`.

    An entity's id stands for its instance; when that has ended, a transition begins a new one.
    """
    from assent.cli.instance_text import print_done

    given = given_data(data, json_data)
    view = act(
        ActorOptions(app, org, user, json), lambda session: _advance(session, instance, event, given, step)
    )
    print_done(event, view, json=json)


async def _advance(
    session: ActorSession, given: GivenId, event: str, data: dict[str, Any], step: str | None
) -> "InstanceView":
    from assent.kernel.read import read_entity

    runtime, org_id, actor = session.runtime, session.org_id, session.actor
    async with session.reading() as connection:
        meant = await find_meant(session, connection, given)
        instance_id = meant.instance_id
        if meant.entity_id is not None and step is not None:
            entity = await read_entity(connection, org_id, meant.entity_id)
            instance_id = entity.instance_id if entity else None
    if instance_id is None:
        assert meant.entity_id is not None
        return await runtime.org(org_id, actor).entities.transition(meant.entity_id, event, data)
    return await runtime.org(org_id, actor).instances.advance(instance_id, event, data, step=step)
