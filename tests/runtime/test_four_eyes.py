"""Where an org publishes with four eyes, nobody publishes what they wrote, by any door."""

from typing import Any
from uuid import UUID

import pytest

from assent.compiler.source import Source
from assent.definitions import (
    archive,
    change_draft,
    keep_draft,
    publish_contract,
    publish_draft,
    publish_flow,
    publish_patch,
    publish_patches,
    rollback,
)
from assent.definitions.publish import publish_sources
from assent.definitions.recompile import recompile_definition
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused
from assent.running import publish as publish_application
from assent.store.connection import Connection
from assent.store.database import Database
from tests.authored import DESIGN, data_of
from tests.processes.commands import run_command
from tests.runtime.definitions import older_compiler
from tests.world import ORG, rows

FLOW = {
    "flow": "leave",
    "version": 1,
    "start": "ask",
    "steps": [{"id": "ask", "type": "action"}, {"id": "done", "type": "terminal"}],
    "transitions": [{"from": "ask", "to": "done"}],
}
PATCH = data_of(DESIGN / "invoice.patch.yaml")
ALL = frozenset({"*"})
ANN, BEA, CLEO = (Actor(name, capabilities=ALL) for name in ("ann", "bea", "cleo"))
ROBOT = Actor("robot", kind="service_account", capabilities=ALL)


@pytest.fixture(autouse=True)
async def _four_eyes(database: Database) -> None:
    async with database.transaction(None) as connection:
        await publish_contract(
            connection, data_of(DESIGN / "invoice.contract.yaml"), SYSTEM, database.clock.now()
        )
    await _set(database, "four_eyes")


async def _set(database: Database, publish: str) -> None:
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $1, $2)"
            " ON CONFLICT (org_id) DO UPDATE SET settings = excluded.settings",
            ORG,
            {"publish": publish},
        )


async def _kept(database: Database, actor: Actor, source: dict[str, Any] = FLOW) -> UUID:
    async with database.transaction(ORG) as connection:
        return (await keep_draft(connection, ORG, source, actor, database.clock.now())).id


async def _publish(database: Database, draft: UUID, actor: Actor) -> None:
    async with database.transaction(ORG) as connection:
        await publish_draft(connection, ORG, draft, actor, database.clock.now())


async def _own(database: Database) -> list[dict[str, Any]]:
    return [row for row in await rows(database, "workflow_definitions") if row["org_id"] == ORG]


@pytest.mark.parametrize("source", [FLOW, PATCH])
async def test_draft_is_published_by_another_than_its_editors(
    database: Database, source: dict[str, Any]
) -> None:
    draft = await _kept(database, ANN, source)
    with pytest.raises(Refused, match="FOUR_EYES_REQUIRED") as refused:
        await _publish(database, draft, ANN)
    assert "ann" in refused.value.rejection.message
    await _publish(database, draft, BEA)
    assert "draft" not in {row["status"] for row in await _own(database)}


async def test_everybody_who_wrote_a_draft_is_its_editor(database: Database) -> None:
    draft = await _kept(database, ANN)
    async with database.transaction(ORG) as connection:
        await change_draft(connection, ORG, draft, {**FLOW, "name": "Leave"}, BEA, database.clock.now())
    for editor in (ANN, BEA):
        with pytest.raises(Refused, match="FOUR_EYES_REQUIRED"):
            await _publish(database, draft, editor)
    await _publish(database, draft, CLEO)


@pytest.mark.parametrize(("editor", "publisher"), [(ROBOT, ANN), (ANN, ROBOT), (ANN, SYSTEM), (SYSTEM, ANN)])
async def test_only_people_are_two_pairs_of_eyes(database: Database, editor: Actor, publisher: Actor) -> None:
    """Whoever holds the key of a service account could be both."""
    draft = await _kept(database, editor)
    with pytest.raises(Refused, match="FOUR_EYES_REQUIRED"):
        await _publish(database, draft, publisher)


async def _flow(connection: Connection, now: Any, actor: Actor) -> None:
    await publish_flow(connection, ORG, FLOW, actor, now)


async def _patch(connection: Connection, now: Any, actor: Actor) -> None:
    await publish_patch(connection, ORG, PATCH, actor, now)


async def _patches(connection: Connection, now: Any, actor: Actor) -> None:
    await publish_patches(connection, ORG, [PATCH], actor, now)


async def _sources(connection: Connection, now: Any, actor: Actor) -> None:
    await publish_sources(connection, ORG, [Source("given", dict(FLOW))], actor, now)


@pytest.mark.parametrize("door", [_flow, _patch, _patches, _sources])
@pytest.mark.parametrize("actor", [ANN, SYSTEM])
async def test_nobody_publishes_directly(database: Database, door: Any, actor: Actor) -> None:
    before = await _own(database)
    with pytest.raises(Refused, match="FOUR_EYES_REQUIRED"):
        async with database.transaction(None) as connection:
            await door(connection, database.clock.now(), actor)
    assert await _own(database) == before
    await _set(database, "direct")
    async with database.transaction(None) as connection:
        await door(connection, database.clock.now(), actor)


async def test_application_and_command_line_do_not_publish_directly(
    database: Database, database_url: str, tmp_path: Any
) -> None:
    with pytest.raises(Refused, match="FOUR_EYES_REQUIRED"):
        await publish_application(database, ORG, [Source("given", dict(FLOW))])
    file = tmp_path / "leave.yaml"
    file.write_text(str(FLOW))
    refused = run_command("definitions", "publish", str(file), "--org", ORG, url=database_url)
    assert refused.returncode == 1
    assert "FOUR_EYES_REQUIRED" in refused.stderr
    assert await _own(database) == []


async def test_what_is_published_already_is_no_publication(database: Database) -> None:
    await _publish(database, await _kept(database, ANN), BEA)
    async with database.transaction(ORG) as connection:
        assert not (await publish_flow(connection, ORG, FLOW, ANN, database.clock.now())).changed


async def test_nobody_brings_a_version_back_or_takes_a_patch_out_alone(database: Database) -> None:
    await _publish(database, await _kept(database, ANN), BEA)
    await _publish(database, await _kept(database, ANN, {**FLOW, "version": 2}), BEA)
    await _publish(database, await _kept(database, ANN, PATCH), BEA)
    found = {(row["definition_kind"], row["status"]): row["id"] for row in await _own(database)}
    now = database.clock.now()
    async with database.transaction(ORG) as connection:
        with pytest.raises(Refused, match="FOUR_EYES_REQUIRED"):
            await rollback(connection, ORG, found["flow", "archived"], ANN, now)
        with pytest.raises(Refused, match="FOUR_EYES_REQUIRED"):
            await archive(connection, ORG, found["org_patch", "published"], ANN, now)
        await archive(connection, ORG, found["flow", "published"], ANN, now)


async def test_compiling_again_says_nothing_new_and_needs_nobody(database: Database) -> None:
    with older_compiler():
        await _publish(database, await _kept(database, ANN), BEA)
    (row,) = await _own(database)
    async with database.transaction(None) as connection:
        done = await recompile_definition(connection, ORG, row["id"], SYSTEM, database.clock.now())
    assert done.new is not None


async def test_another_orgs_setting_says_nothing_of_ours(database: Database) -> None:
    async with database.transaction("globex") as connection:
        await publish_flow(connection, "globex", FLOW, ANN, database.clock.now())
