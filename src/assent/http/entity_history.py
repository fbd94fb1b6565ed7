"""What an entity was: its versions, what differs between them, and who did what. `/api/entities/…`"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path

from assent.http.desk import RequestContext
from assent.http.entity_shapes import DiffBody, EntityAuditBody, VersionBody
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.showing import entity_for
from assent.http.signing import Reading
from assent.http.texts import NamePath
from assent.kernel.listing import list_audit, list_versions, read_two_versions
from assent.model.cursor import id_in, integer_in, position_of
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.rows import Row

router = Router(prefix="/api/entities/{entity_type}/{entity_id}", tags=["entities"])

Look = Annotated[RequestContext, Depends(Reading("entities:read"))]
VersionNumber = Annotated[int, Path(ge=1, le=999_999_999)]


@router.get(
    "/versions",
    response_model=Page[VersionBody],
    summary="List the versions of an entity, newest first",
    responses=documented(404, 422),
)
async def list_entity_versions(
    desk: Look,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Newest first, each with its whole content."""
    after = position_of(cursor, integer_in)

    async def work(connection: Connection) -> list[Row]:
        await entity_for(desk, connection, entity_type, entity_id)
        return await list_versions(connection, desk.org_id, entity_id, after, limit + 1)

    return page_of(await desk.read(work), limit, VersionBody.of, lambda row: row["version"])


@router.get(
    "/versions/{a}/diff/{b}",
    response_model=DiffBody,
    summary="Compare two versions of an entity",
    responses=documented(404, 422),
)
async def compare_entity_versions(
    desk: Look, entity_type: NamePath, entity_id: UUID, a: VersionNumber, b: VersionNumber
) -> Any:
    """Field by field, and the state where that differs; the order of the two is the direction."""

    async def work(connection: Connection) -> DiffBody:
        await entity_for(desk, connection, entity_type, entity_id)
        found = await read_two_versions(connection, desk.org_id, entity_id, a, b)
        if missing := {a, b} - found.keys():
            raise Refused(Rejection("NOT_FOUND", f"no version {min(missing)} of {entity_id}", ("path",)))
        return DiffBody.of(found[a], found[b])

    return await desk.read(work)


@router.get(
    "/audit",
    response_model=Page[EntityAuditBody],
    summary="See who did what to an entity, newest first",
    responses=documented(404, 422),
)
async def list_entity_audit(
    desk: Look,
    entity_type: NamePath,
    entity_id: UUID,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Newest first. Commands to its workflow are in the audit log of the org."""
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[Row]:
        await entity_for(desk, connection, entity_type, entity_id)
        return await list_audit(connection, desk.org_id, entity_id, after, limit + 1)

    return page_of(await desk.read(work), limit, EntityAuditBody.of, lambda row: str(row["id"]))
