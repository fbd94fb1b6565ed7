"""Entities: create, read, change, act and move. `/api/entities`"""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Response

from assent.http import showing
from assent.http.desk import RequestContext, Transaction
from assent.http.entity_shapes import ActionCall, EntityBody, EntityChanges, NewEntity, TransitionBody
from assent.http.etags import IfMatch, version_meant
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.permissions import may_read
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import UNSEEN, answer, entity_for, entity_headers, list_entity, seen_by, show_moved
from assent.http.signing import Reading, Writing
from assent.http.texts import NamePath, NamesQuery
from assent.kernel.listing import EntityFilter, list_entities
from assent.kernel.locking import lock_entity
from assent.kernel.read import read_entity
from assent.model.cursor import id_in, position_of
from assent.model.mutation import Command, Entity, Refused, Rejection
from assent.store.database import Connection

router = Router(takes_much=True, prefix="/api/entities/{entity_type}", tags=["entities"])

Look = Annotated[RequestContext, Depends(Reading("entities:read"))]
Write = Annotated[RequestContext, Depends(Writing("entities:write", "entities"))]
Move = Annotated[RequestContext, Depends(Writing("entities:write", "workflows"))]
"""A transition is a command to the entity's workflow, and counted as one."""

NO_DATA: Final = ActionCall()
_NAMES: Final = {"payload": "data"}
_ETAG: dict[str, Any] = {"headers": {"ETag": {"schema": {"type": "string"}, "description": "The version."}}}


@router.post(
    "",
    status_code=201,
    response_model=EntityBody,
    summary="Create an entity",
    responses={201: _ETAG, **UNSEEN, **documented(400, 404, 409, 413, 422)},
)
async def create_entity(desk: Write, entity_type: NamePath, body: NewEntity) -> Response:
    """At its first version. An `id` of one's own makes a repeat harmless; where there is a workflow, it begins."""

    async def work(session: Transaction) -> Reply:
        desk.contract(entity_type)
        command = _command(desk, entity_type, "create", body.data, body.id, body.reason)
        entity = (await session.kernel.mutate(command)).entity
        return await _written(desk, entity, 201)

    return await desk.write(work, _NAMES)


@router.get(
    "",
    response_model=Page[EntityBody],
    summary="List entities, newest first",
    responses=documented(404, 422),
)
async def list_entities_of_type(
    desk: Look,
    entity_type: NamePath,
    state: NamesQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Those of the caller's partition, with the content of their current version."""
    desk.contract(entity_type)
    may_read(desk, entity_type)
    wanted = EntityFilter(entity_type, state, desk.caller.partition_id)
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[Entity]:
        return await list_entities(connection, desk.org_id, wanted, after, limit + 1)

    return page_of(await desk.read(work), limit, list_entity, lambda entity: str(entity.id))


@router.get(
    "/{entity_id}",
    response_model=EntityBody,
    summary="Read an entity",
    responses={200: _ETAG, **documented(404, 422)},
)
async def show_entity(desk: Look, entity_type: NamePath, entity_id: UUID) -> Response:
    """At its current version, which is also its `ETag`."""

    async def work(connection: Connection) -> Reply:
        return await showing.show_entity(desk, await entity_for(desk, connection, entity_type, entity_id))

    return (await desk.read(work)).response()


@router.patch(
    "/{entity_id}",
    response_model=EntityBody,
    summary="Change an entity",
    responses={200: _ETAG, **UNSEEN, **documented(400, 404, 409, 412, 413, 422, 428)},
)
async def change_entity(
    desk: Write, entity_type: NamePath, entity_id: UUID, body: EntityChanges, if_match: IfMatch = None
) -> Response:
    """Says which version it changes. A change that changes nothing makes no version."""
    version = version_meant(if_match, required=True)

    async def work(session: Transaction) -> Reply:
        desk.contract(entity_type)
        command = _command(desk, entity_type, "update", body.data, entity_id, body.reason, version)
        return await _written(desk, (await session.kernel.mutate(command)).entity)

    return await desk.write(work, _NAMES)


@router.post(
    "/{entity_id}/actions/{verb}",
    response_model=EntityBody,
    summary="Run an action on an entity",
    responses={200: _ETAG, **UNSEEN, **documented(400, 404, 409, 412, 413, 422)},
)
async def act_on_entity(  # noqa: PLR0913, PLR0917
    desk: Write,
    entity_type: NamePath,
    entity_id: UUID,
    verb: NamePath,
    body: ActionCall = NO_DATA,
    if_match: IfMatch = None,
) -> Response:
    """An action of the application's own, or `update`; `amend` of what is locked gives a new entity."""
    version = version_meant(if_match)

    async def work(session: Transaction) -> Reply:
        desk.contract(entity_type)
        if verb == "create":
            raise Refused(Rejection("UNKNOWN_ACTION", "what is there cannot be created", ("action",)))
        command = _command(desk, entity_type, verb, body.data, entity_id, body.reason, version)
        entity = (await session.kernel.mutate(command)).entity
        return await _written(desk, entity, 200 if entity.id == entity_id else 201)

    return await desk.write(work, _NAMES)


@router.post(
    "/{entity_id}/transitions/{name}",
    response_model=TransitionBody,
    summary="Move an entity through its lifecycle",
    responses={200: _ETAG, **UNSEEN, **documented(400, 404, 409, 412, 413, 422)},
)
async def move_entity(  # noqa: PLR0913, PLR0917
    desk: Move,
    entity_type: NamePath,
    entity_id: UUID,
    name: NamePath,
    body: ActionCall = NO_DATA,
    if_match: IfMatch = None,
) -> Response:
    """Asks the entity's workflow for a transition. Where people must approve first, the state is still the old one."""
    version = version_meant(if_match)

    async def work(session: Transaction) -> Reply:
        before = await _held(desk, session.connection, entity_type, entity_id, version)
        if desk.contract(entity_type).workflow == "none":
            command = _command(desk, entity_type, name, body.data, entity_id, body.reason, version)
            moved = (await session.kernel.mutate(command)).entity
            return await answer(show_moved(desk, moved), **entity_headers(moved))
        view = await session.runtime.org(desk.org_id, desk.caller.actor).entities.transition(
            before.id, name, body.data
        )
        after = await read_entity(session.connection, desk.org_id, entity_id)
        assert after is not None
        return await answer(show_moved(desk, after, view), **entity_headers(after))

    return await desk.write(work, _NAMES | {"event": "name"})


def _command(  # noqa: PLR0913, PLR0917
    desk: RequestContext,
    entity_type: str,
    verb: str,
    data: dict[str, Any],
    entity_id: UUID | None,
    reason: str | None,
    version: int | None = None,
) -> Command:
    """A command of the caller, with how and from where it came (who is in the actor)."""
    caller = desk.caller
    return Command(
        caller.org_id,
        f"{entity_type}.{verb}",
        caller.actor,
        data,
        entity_id,
        expected_version=version,
        reason=reason or desk.reason,
        place=caller.place,
        channel="http",
        partition_id=caller.partition_id,
    )


async def _held(
    desk: RequestContext, connection: Connection, entity_type: str, entity_id: UUID, version: int | None
) -> Entity:
    """The entity that is meant; where a version is, it is held at that until the transaction ends."""
    desk.contract(entity_type)
    read = read_entity if version is None else lock_entity
    found = seen_by(desk, entity_type, entity_id, await read(connection, desk.org_id, entity_id))
    if version not in (None, found.version):
        message = f"expected version {version}, found version {found.version}"
        hint = "read it again and decide anew"
        raise Refused(Rejection("VERSION_CONFLICT", message, ("expected_version",), hint=hint))
    return found


async def _written(desk: RequestContext, entity: Entity, status: int = 200) -> Reply:
    return await answer(showing.show_entity(desk, entity, status), **entity_headers(entity, status))
