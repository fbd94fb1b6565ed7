"""Definitions: versions, what differs between them, pictures; out of use and back again. `/api/definitions`"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Response
from fastapi.responses import PlainTextResponse

from assent.compiler.declarations import DeclarationKind, kind_of
from assent.compiler.diagram import diagram
from assent.compiler.source import Source, read_sources
from assent.definitions import DefinitionVersion, archive, rollback
from assent.definitions.check import check_sources, published_contracts
from assent.definitions.compile_thread import aside
from assent.definitions.definition import Kind, Status
from assent.definitions.publish_sources import publish_sources
from assent.definitions.views import DefinitionFilter, page_of_definitions, workflow_in
from assent.http import showing
from assent.http.declared import reporting_problems
from assent.http.definition_shapes import (
    CheckedBody,
    DefinitionBody,
    DefinitionDiff,
    DefinitionSummary,
    PlacedProblem,
    PublicationBody,
    PublicationsBody,
    Sources,
    WorkflowBody,
)
from assent.http.desk import RequestContext, Transaction
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import definition_for
from assent.http.signing import Reading, Writing
from assent.http.texts import NameQuery
from assent.model.cursor import id_in, position_of
from assent.model.mutation import Refused, Rejection
from assent.runtime.rights import PUBLISH, require_capability
from assent.store.database import Connection

router = Router(takes_much=True, prefix="/api/definitions", tags=["definitions"])

Look = Annotated[RequestContext, Depends(Reading("definitions:read"))]
Check = Annotated[RequestContext, Depends(Reading("definitions:read", "checks"))]
"""Nothing is changed, and compiling costs more than a write does."""
Write = Annotated[RequestContext, Depends(Writing("definitions:write", "entities"))]

MERMAID: Final = "text/vnd.mermaid"


class MermaidResponse(PlainTextResponse):
    media_type = MERMAID


_DIAGRAM: dict[str, Any] = {
    "content": {MERMAID: {"schema": {"type": "string"}, "example": "flowchart TD\n"}},
    "description": "A flowchart in Mermaid.",
}


@router.get(
    "",
    response_model=Page[DefinitionSummary],
    summary="List versions of definitions, newest first",
    responses=documented(422),
)
async def list_definitions(  # noqa: PLR0913, PLR0917
    desk: Look,
    kind: Kind | None = None,
    key: NameQuery = None,
    status: Status | None = None,
    entity_type: NameQuery = None,
    own: bool = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """The names and versions of the org's own and everybody's, drafts too; `own` leaves everybody's out."""
    wanted = DefinitionFilter(kind, key, status, entity_type, own)
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[DefinitionVersion]:
        return await page_of_definitions(connection, desk.org_id, wanted, after, limit + 1)

    return page_of(await desk.read(work), limit, DefinitionSummary.of, lambda found: str(found.id))


@router.post(
    "/check",
    response_model=CheckedBody,
    summary="Check what somebody writes",
    responses=documented(400, 413, 422),
)
async def check_definitions(desk: Check, body: Sources) -> Any:
    """Every problem with its line and column, and what the rest compiles to. Nothing is kept.

    Contracts that are published need not be sent along.
    """
    sources = await aside(_read, body)

    async def work(connection: Connection) -> list[Source]:
        return await published_contracts(connection, sources)

    return await aside(_check, sources, await desk.read(work))


@router.post(
    "/publish",
    response_model=PublicationsBody,
    summary="Publish patches and flows together",
    responses=documented(400, 413, 422),
)
async def publish_definitions(desk: Write, body: Sources) -> Response:
    """For holders of `definitions:publish`, and of what their steps use and run as: all of them, or none.

    Contracts are for everybody, and published by whoever runs the server. Problems say in which text they are.
    """
    sources = await aside(_read, body)

    async def work(session: Transaction) -> Reply:
        _refuse_contracts(sources)
        done = await publish_sources(
            session.connection, desk.org_id, sources, *_by(desk), capabilities=_capabilities(desk)
        )
        found = [PublicationBody.of(publication) for publication in done.publications]
        return Reply.of(PublicationsBody(publications=found))

    return await _publishing(desk, work)


@router.get(
    "/{definition_id}",
    response_model=DefinitionBody,
    summary="Read a version of a definition",
    responses=documented(404, 422),
)
async def show_definition(desk: Look, definition_id: UUID) -> Any:
    """For holders of `definitions:read`: the org's own or everybody's, as it was written and what it compiled to."""

    async def work(connection: Connection) -> DefinitionBody:
        return await showing.show_definition(desk, await definition_for(desk, connection, definition_id))

    return await desk.read(work)


@router.get(
    "/{definition_id}/diagram",
    response_class=MermaidResponse,
    summary="Draw a definition",
    responses={200: _DIAGRAM, **documented(404, 409, 422)},
)
async def draw_definition(desk: Look, definition_id: UUID) -> Response:
    """As a flowchart in Mermaid, with steps, arrows and slots, for holders of `definitions:read`."""

    async def work(connection: Connection) -> str:
        return diagram(workflow_in(await definition_for(desk, connection, definition_id)))

    return MermaidResponse(await desk.read(work))


@router.get(
    "/{definition_id}/diff/{other_id}",
    response_model=DefinitionDiff,
    summary="Compare two definitions",
    responses=documented(404, 409, 422),
)
async def compare_definitions(desk: Look, definition_id: UUID, other_id: UUID) -> Any:
    """What is different in the other one, for holders of `definitions:read`: nodes, edges, windows and settings."""

    async def work(connection: Connection) -> DefinitionDiff:
        before = workflow_in(await definition_for(desk, connection, definition_id))
        after = workflow_in(await definition_for(desk, connection, other_id))
        return DefinitionDiff.of(before, after)

    return await desk.read(work)


@router.post(
    "/{definition_id}/archive",
    response_model=DefinitionSummary,
    summary="Take a definition out of use",
    responses=documented(404, 409, 413, 422),
)
async def archive_definition(desk: Write, definition_id: UUID) -> Response:
    """For holders of `definitions:publish`. Nothing new starts from it; what runs goes on."""

    async def work(session: Transaction) -> Reply:
        done = await archive(
            session.connection, desk.org_id, definition_id, *_by(desk), capabilities=_capabilities(desk)
        )
        return Reply.of(DefinitionSummary.of(done))

    return await _publishing(desk, work)


@router.post(
    "/{definition_id}/rollback",
    response_model=PublicationBody,
    summary="Bring an earlier version back",
    responses=documented(404, 409, 413, 422),
)
async def roll_definition_back(desk: Write, definition_id: UUID) -> Response:
    """For holders of `definitions:publish`. It is compiled anew, and the current version is archived."""

    async def work(session: Transaction) -> Reply:
        done = await rollback(
            session.connection, desk.org_id, definition_id, *_by(desk), capabilities=_capabilities(desk)
        )
        return Reply.of(PublicationBody.of(done))

    return await _publishing(desk, work)


def _read(body: Sources) -> list[Source]:
    return [source for given in body.sources for source in read_sources(given.text, given.name)]


def _refuse_contracts(sources: list[Source]) -> None:
    """What is everybody's is not one org's to change."""
    found = [source for source in sources if kind_of(source) is DeclarationKind.CONTRACT]
    if found:
        message = f"`{found[0].name}` declares a contract, which is everybody's"
        hint = "`assent definitions publish` publishes contracts, for whoever runs the server"
        raise Refused(Rejection("POLICY_DENIED", message, ("sources",), hint=hint))


def _check(sources: list[Source], contracts: list[Source]) -> CheckedBody:
    found = check_sources(sources, contracts)
    return CheckedBody(
        problems=PlacedProblem.first_of(found.problems),
        workflows=[WorkflowBody.of(workflow) for workflow in found.workflows],
    )


async def _publishing(desk: RequestContext, work: Callable[[Transaction], Awaitable[Reply]]) -> Response:
    async def allowed(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, PUBLISH)
        with reporting_problems():
            return await work(session)

    return await desk.write(allowed)


def _capabilities(desk: RequestContext) -> Mapping[str, str]:
    """What the application says its operations, services and tasks take."""
    return desk.house.app.capabilities


def _by(desk: RequestContext) -> tuple[Any, Any]:
    return desk.caller.actor, desk.house.database.clock.now()
