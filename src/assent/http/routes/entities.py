"""Entities: create, read, change, run an action, make a transition. `/api/entities`"""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.bodies.instances import (
    ContractBody,
    EntityBody,
    EntityCountsBody,
    IndexBody,
    InstanceBody,
    TransitionBody,
)
from assent.http.context import Transaction
from assent.http.fields import (
    NAME_LENGTH_MAX,
    Moment,
    NamePath,
    NameQuery,
    NamesQuery,
    OptionalVersion,
    RequestModel,
    RequiredVersion,
    SavedQuery,
    Text,
    etag,
)
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import About, Reply, reply_with
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.kernel.entities import lock_entity, read_entity, require_version
from assent.model.entity_filter import (
    CONDITION_CHARACTERS_MAX,
    CONDITIONS_MAX,
    SEARCH_CHARACTERS_MAX,
    EntityFilter,
)
from assent.model.mutation import Entity, Refused, Rejection
from assent.runtime.views import InstanceView

router = Router(takes_documents=True, prefix="/api/entities/{entity_type}", tags=["entities"])

_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
_DATA: Final = {"number": "2026-17", "grand_total": 120000}
_NAMES: Final = {"payload": "data"}
_ETAG: dict[str, Any] = {"headers": {"ETag": {"schema": {"type": "string"}, "description": "The version."}}}


TimeQuery = Annotated[Moment | None, Query(examples=["2026-03-01T00:00:00Z"])]
WhereQuery = Annotated[
    list[Annotated[str, Field(max_length=CONDITION_CHARACTERS_MAX)]] | None,
    Query(
        max_length=CONDITIONS_MAX,
        description="Conditions on indexed fields, all of which must hold.",
        examples=[["total >= 1000", "title prefix Tax"]],
    ),
]
SearchQuery = Annotated[
    str | None,
    Query(
        max_length=SEARCH_CHARACTERS_MAX, description="Words of searched fields, `tax*` the beginning of one."
    ),
]
SortQuery = Annotated[
    str | None,
    Query(
        max_length=NAME_LENGTH_MAX,
        description="`created_at`, `updated_at` or an indexed field; the greatest first with `-` before it.",
        examples=["-updated_at"],
    ),
]


async def _filter_of(  # noqa: PLR0913, PLR0917
    state: NamesQuery = None,
    where: WhereQuery = None,
    q: SearchQuery = None,
    created_by: NameQuery = None,
    created_since: TimeQuery = None,
    created_until: TimeQuery = None,
    updated_since: TimeQuery = None,
    updated_until: TimeQuery = None,
    sort: SortQuery = None,
) -> EntityFilter:
    return EntityFilter(
        state=tuple(state) if state is not None else None,
        where=tuple(where or ()),
        q=q,
        created_by=created_by,
        created_since=created_since,
        created_until=created_until,
        updated_since=updated_since,
        updated_until=updated_until,
        sort=sort,
    )


FilterQuery = Annotated[EntityFilter, Depends(_filter_of)]


class NewEntity(RequestModel):
    data: Data = Field(examples=[_DATA])
    id: UUID | None = Field(None, description="A new one without it.")
    reason: Text | None = None


class EntityChanges(RequestModel):
    """Fields that change; null removes a field."""

    data: Data = Field(examples=[{"grand_total": 130000}])
    reason: Text | None = Field(None, examples=["The vendor corrected it"])


class ActionCall(RequestModel):
    data: Data = Field(default={}, description="The payload of the action.", examples=[{"to": 100}])
    reason: Text | None = None


NO_DATA: Final = ActionCall()


async def read_visible_entity(tx: Transaction, entity_type: str, entity_id: UUID) -> Entity:
    """Return an entity that the caller may read; else raise `Refused`."""
    return await tx.reads.entities.get(entity_id, entity_type=entity_type)


def require_visible(tx: Transaction, entity_type: str, entity_id: UUID, entity: Entity | None) -> Entity:
    """Return an entity of this type and of the caller's partition; raise `Refused` for every other."""
    if entity is None or entity.type != entity_type or not tx.caller.sees(entity.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no {entity_type} {entity_id}", ("entity_id",)))
    return entity


async def show_written(tx: Transaction, entity: Entity, status: int = 200) -> Reply[EntityBody]:
    """Return the reply with an entity; its version alone if the caller may not read it."""
    headers = _headers(entity, status)
    return await reply_if_readable(_show(tx, entity, status, headers), **headers)


async def _show(tx: Transaction, entity: Entity, status: int, headers: dict[str, str]) -> Reply[EntityBody]:
    tx.may_read(entity.type)
    require_visible(tx, entity.type, entity.id, entity)
    return reply_with(EntityBody.of(entity), status, about=_about(entity), headers=headers)


async def _show_moved(
    tx: Transaction, entity: Entity, view: InstanceView | None = None
) -> Reply[TransitionBody]:
    """Return the reply with an entity after a transition, and its instance."""
    tx.may_read(entity.type)
    instance = InstanceBody.of(view) if view is not None else None
    body = TransitionBody(entity=EntityBody.of(entity), instance=instance)
    return reply_with(body, about=_about(entity), headers=_headers(entity))


def _headers(entity: Entity, status: int = 200) -> dict[str, str]:
    """Return the version of an entity, and its address if it is new; also for callers who may not read it."""
    location = {"location": f"/api/entities/{entity.type}/{entity.id}"} if status == 201 else {}
    return {"etag": etag(entity.version), **location}


def _about(entity: Entity) -> tuple[About, ...]:
    return (("entity", f"{entity.type}/{entity.id}"),)


@router.command(
    "",
    scope="entities:write",
    rate="entities",
    status=201,
    errors=(204, 404, 409),
    names=_NAMES,
    responses={201: _ETAG},
    summary="Create an entity",
)
async def create_entity(tx: Transaction, entity_type: NamePath, body: NewEntity) -> Reply[EntityBody]:
    """At its first version. An `id` from the caller makes a repeat harmless; its workflow starts, if it has one."""
    tx.contract(entity_type)
    mutation = await tx.runtime.entities.mutate(
        f"{entity_type}.create", body.data, body.id, reason=body.reason
    )
    return await show_written(tx, mutation.entity, 201)


@router.query("", scope="entities:read", errors=(404,), summary="List entities")
async def list_entities_of_type(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    entity_type: NamePath,
    filter: FilterQuery,
    saved: SavedQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[EntityBody]]:
    """The entities of the caller's partition, with the content of their current version.

    A page looks at a bounded number of entities: it may be short and have a `next`. A cursor belongs to its `sort`.
    """
    page = await tx.reads.entities.list(entity_type, filter, saved=saved, cursor=cursor, limit=limit)
    return reply_with_page(page, EntityBody.of)


@router.query("/count", scope="entities:read", errors=(404,), summary="Count entities")
async def count_entities_of_type(
    tx: Transaction, entity_type: NamePath, filter: FilterQuery, saved: SavedQuery = None
) -> EntityCountsBody:
    """In all and by state, with the filter of a list; exact up to 10,000, with `more` at least so many."""
    return EntityCountsBody.of(await tx.reads.entities.count(entity_type, filter, saved=saved))


@router.query(
    "/contract", scope="entities:read", errors=(404,), summary="Read the fields and states of an entity type"
)
async def show_entity_contract(tx: Transaction, entity_type: NamePath) -> ContractBody:
    """The labels and types of its fields, and its lifecycle: what a program needs to show entities to people."""
    return ContractBody.of_contract(await tx.reads.entities.contract(entity_type))


@router.query("/indexes", scope="entities:read", errors=(404,), summary="List the indexes of an entity type")
async def list_entity_indexes(tx: Transaction, entity_type: NamePath) -> Page[IndexBody]:
    """By which fields lists can be filtered and sorted, and how far each index is built."""
    indexes = await tx.reads.entities.indexes(entity_type)
    return Page[IndexBody](items=[IndexBody.of(index) for index in indexes])


@router.query(
    "/{entity_id}", scope="entities:read", errors=(404,), responses={200: _ETAG}, summary="Read an entity"
)
async def show_entity(tx: Transaction, entity_type: NamePath, entity_id: UUID) -> Reply[EntityBody]:
    """At its current version, which is also its `ETag`."""
    entity = await read_visible_entity(tx, entity_type, entity_id)
    return reply_with(EntityBody.of(entity), headers=_headers(entity))


@router.command(
    "/{entity_id}",
    method="PATCH",
    scope="entities:write",
    rate="entities",
    errors=(204, 404, 409, 412, 428),
    names=_NAMES,
    responses={200: _ETAG},
    summary="Change an entity",
)
async def change_entity(
    tx: Transaction, entity_type: NamePath, entity_id: UUID, body: EntityChanges, version: RequiredVersion
) -> Reply[EntityBody]:
    """`If-Match` names the version that changes. A change without a difference creates no version."""
    tx.contract(entity_type)
    mutation = await tx.runtime.entities.mutate(
        f"{entity_type}.update", body.data, entity_id, expected_version=version, reason=body.reason
    )
    return await show_written(tx, mutation.entity)


@router.command(
    "/{entity_id}/actions/{verb}",
    scope="entities:write",
    rate="entities",
    errors=(204, 404, 409, 412),
    names=_NAMES,
    responses={200: _ETAG},
    summary="Run an action on an entity",
)
async def act_on_entity(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    verb: NamePath,
    version: OptionalVersion,
    body: ActionCall = NO_DATA,
) -> Reply[EntityBody]:
    """An action of the application, or `update`; `amend` of a locked entity returns a new entity."""
    tx.contract(entity_type)
    if verb == "create":
        raise Refused(Rejection("UNKNOWN_ACTION", "an existing entity cannot be created", ("action",)))
    mutation = await tx.runtime.entities.mutate(
        f"{entity_type}.{verb}", body.data, entity_id, expected_version=version, reason=body.reason
    )
    entity = mutation.entity
    return await show_written(tx, entity, 200 if entity.id == entity_id else 201)


@router.command(
    "/{entity_id}/transitions/{name}",
    scope="entities:write",
    rate="workflows",
    errors=(204, 404, 409, 412),
    names=_NAMES | {"event": "name"},
    responses={200: _ETAG},
    summary="Move an entity through its lifecycle",
)
async def move_entity(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    name: NamePath,
    version: OptionalVersion,
    body: ActionCall = NO_DATA,
) -> Reply[TransitionBody]:
    """Requests a transition from the entity's workflow. If people must approve first, the state does not change yet.

    It is a command to a workflow, and counts as one.
    """
    await _require_version(tx, entity_type, entity_id, version)
    if tx.contract(entity_type).workflow == "none":
        mutation = await tx.runtime.entities.mutate(
            f"{entity_type}.{name}", body.data, entity_id, expected_version=version, reason=body.reason
        )
        return await reply_if_readable(_show_moved(tx, mutation.entity), **_headers(mutation.entity))
    view = await tx.runtime.entities.transition(entity_id, name, body.data)
    assert view.entity is not None, "a transition loads its entity"
    return await reply_if_readable(_show_moved(tx, view.entity, view), **_headers(view.entity))


async def _require_version(tx: Transaction, entity_type: str, entity_id: UUID, version: int | None) -> None:
    """Raise `Refused` for an entity that is not there for the caller; with a version, lock the entity at it."""
    tx.contract(entity_type)
    read = read_entity if version is None else lock_entity
    entity = require_visible(tx, entity_type, entity_id, await read(tx.connection, tx.org_id, entity_id))
    require_version(entity, version)
