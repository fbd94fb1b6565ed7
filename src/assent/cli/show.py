"""`assent show`: everything about one instance, or about the entity that it is for."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from typing import TYPE_CHECKING, Final
from uuid import UUID

from assent.cli.actor_options import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act
from assent.cli.ids import GivenId
from assent.cli.options import JsonOption
from assent.cli.targets import CommandTarget, InstanceArgument, find_meant

if TYPE_CHECKING:
    from assent.cli.page import InstancePage
    from assent.store.database import Connection

REQUESTS_MAX: Final = 50


def show(
    instance: InstanceArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """See where an instance stands, whom it waits for, what it asked, and how it came there.

    An entity's id stands for its newest instance.
    """
    from assent.cli.page import print_page
    from assent.cli.report import print_json

    page = act(ActorOptions(app, org, user, json), lambda session: _read(session, instance))
    if json:
        print_json(page.to_json())
    else:
        print_page(page)


async def _read(session: ActorSession, given: GivenId) -> "InstancePage":
    from assent.cli.page import InstancePage
    from assent.kernel.read import read_entity
    from assent.runtime.views import find_instance

    org_id = session.org_id
    async with session.reading() as connection:
        meant = await find_meant(session, connection, given)
        instance_id = meant.instance_id or await _newest_instance(session, connection, meant)
        row = await find_instance(connection, org_id, instance_id) if instance_id else None
        entity_id = row["entity_id"] if row else meant.entity_id
        entity = await read_entity(connection, org_id, entity_id) if entity_id else None
        page = InstancePage(session.now(), entity, row)
        return await _with_history(session, connection, page, instance_id) if instance_id else page


async def _newest_instance(
    session: ActorSession, connection: "Connection", meant: CommandTarget
) -> UUID | None:
    from assent.runtime.views import InstanceFilter, list_instances

    wanted = InstanceFilter(entity_id=meant.entity_id)
    rows = await list_instances(connection, session.org_id, wanted, None, 1)
    return rows[0]["id"] if rows else None


async def _with_history(
    session: ActorSession, connection: "Connection", page: "InstancePage", instance_id: UUID
) -> "InstancePage":
    from dataclasses import replace

    from assent.approvals.requests import requests_of_instance
    from assent.runtime.description import describe

    org_id, runtime = session.org_id, session.runtime
    described = await describe(runtime.core, connection, org_id, instance_id, session.actor)
    asked = await requests_of_instance(connection, org_id, instance_id, REQUESTS_MAX)
    return replace(page, described=described, requests=asked)
