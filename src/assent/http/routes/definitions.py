"""Definitions: versions, differences, diagrams, publishing and archiving. `/api/definitions`"""

from typing import Annotated, Any, Final, Self
from uuid import UUID

from fastapi import Response
from fastapi.responses import PlainTextResponse
from pydantic import Field, model_validator

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.definitions import (
    CheckedBody,
    DefinitionBody,
    DefinitionDiff,
    DefinitionSummary,
    PublicationBody,
    PublicationsBody,
)
from assent.compiler.declarations import CompiledSources, DeclarationKind, kind_of
from assent.compiler.source import Source, read_sources
from assent.definitions.compile_thread import aside
from assent.definitions.definition import Kind, Status
from assent.http.context import RequestContext, Transaction
from assent.http.fields import NameQuery, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.mutation import Refused, Rejection
from assent.model.problems import first_problems
from assent.model.terms import refuse
from assent.runtime.rights import PUBLISH

router = Router(takes_documents=True, prefix="/api/definitions", tags=["definitions"])

MERMAID: Final = "text/vnd.mermaid"


SOURCES_MAX: Final = 50
SOURCES_LENGTH_MAX: Final = 262_144
"""The number of characters in all texts of a request."""


class SourceText(RequestModel):
    name: ShortText = Field(description="The name of the text in problems.", examples=["leave.flow.yaml"])
    text: str = Field(description="YAML; several documents are separated by `---`.", examples=["flow: leave"])


class Sources(RequestModel):
    """Contracts, patches and flows that are compiled together."""

    sources: Annotated[list[SourceText], Field(min_length=1, max_length=SOURCES_MAX)] = Field(
        examples=[[{"name": "leave.flow.yaml", "text": "flow: leave.request\nversion: 1\n"}]]
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        """Raise if the texts are too long: compiling the maximum takes about a second."""
        if (length := sum(len(source.text) for source in self.sources)) > SOURCES_LENGTH_MAX:
            message = f"expected at most {SOURCES_LENGTH_MAX:,} characters of sources, found {length:,}"
            raise refuse("TOO_LONG", message, hint="send fewer at a time")
        return self


class MermaidResponse(PlainTextResponse):
    media_type = MERMAID


_DIAGRAM: dict[str, Any] = {
    "content": {MERMAID: {"schema": {"type": "string"}, "example": "flowchart TD\n"}},
    "description": "A flowchart in Mermaid.",
}


@router.query("", scope="definitions:read", summary="List versions of definitions, newest first")
async def list_definitions(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    kind: Kind | None = None,
    key: NameQuery = None,
    status: Status | None = None,
    entity_type: NameQuery = None,
    own: bool = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[DefinitionSummary]]:
    """Names and versions of the org's own and of all orgs', drafts too; `own` leaves those of all orgs out."""
    page = await tx.reads.definitions.list(
        kind=kind, key=key, status=status, entity_type=entity_type, own=own, cursor=cursor, limit=limit
    )
    return reply_with_page(page, DefinitionSummary.of)


@router.query(
    "/check", method="POST", scope="definitions:read", rate="checks", summary="Check sources of definitions"
)
async def check_definitions(context: RequestContext, body: Sources) -> CheckedBody:
    """Every problem with its line and column, and the compiled result of the rest. Nothing is stored.

    Published contracts need not be sent. Checks have their own rate, because compiling costs more than a write.
    """
    found = await context.org_runtime().definitions.check(*await aside(_read, body))
    return await aside(_checked, found)


@router.command(
    "/publish", scope="definitions:write", rate="entities", summary="Publish patches and flows together"
)
async def publish_definitions(tx: Transaction, body: Sources) -> PublicationsBody:
    """For holders of `definitions:publish`, and of what their steps use and run as: all sources, or none.

    Contracts belong to all orgs, and the operator of the server publishes them. Problems name their text.
    """
    sources = await aside(_read, body)
    tx.require(PUBLISH)
    with reporting_problems():
        _refuse_contracts(sources)
        done = await tx.runtime.definitions.publish(*sources)
    return PublicationsBody.of_publications(done.publications)


@router.query(
    "/{definition_id}", scope="definitions:read", errors=(404,), summary="Read a version of a definition"
)
async def show_definition(tx: Transaction, definition_id: UUID) -> DefinitionBody:
    """For holders of `definitions:read`: the org's own or one of all orgs, with its source."""
    return DefinitionBody.of_content(await tx.reads.definitions.get(definition_id))


@router.query(
    "/{definition_id}/diagram",
    scope="definitions:read",
    errors=(404, 409),
    responses={200: _DIAGRAM},
    response_class=MermaidResponse,
    summary="Draw a definition",
)
async def draw_definition(tx: Transaction, definition_id: UUID) -> Response:
    """As a flowchart in Mermaid, with steps, edges and slots, for holders of `definitions:read`."""
    return MermaidResponse(await tx.reads.definitions.draw(definition_id))


@router.query(
    "/{definition_id}/diff/{other_id}",
    scope="definitions:read",
    errors=(404, 409),
    summary="Compare two definitions",
)
async def compare_definitions(tx: Transaction, definition_id: UUID, other_id: UUID) -> DefinitionDiff:
    """The differences of the other one, for holders of `definitions:read`: nodes, edges, windows and settings."""
    return DefinitionDiff.between(*await tx.reads.definitions.workflows(definition_id, other_id))


@router.command(
    "/{definition_id}/archive",
    scope="definitions:write",
    rate="entities",
    errors=(404, 409),
    summary="Archive a definition",
)
async def archive_definition(tx: Transaction, definition_id: UUID) -> DefinitionSummary:
    """For holders of `definitions:publish`. No new instance starts from it; running ones continue."""
    tx.require(PUBLISH)
    with reporting_problems():
        return DefinitionSummary.of(await tx.runtime.definitions.archive(definition_id))


@router.command(
    "/{definition_id}/rollback",
    scope="definitions:write",
    rate="entities",
    errors=(404, 409),
    summary="Roll back to an earlier version",
)
async def roll_definition_back(tx: Transaction, definition_id: UUID) -> PublicationBody:
    """For holders of `definitions:publish`. It is compiled again, and the current version is archived."""
    tx.require(PUBLISH)
    with reporting_problems():
        return PublicationBody.of_publication(await tx.runtime.definitions.roll_back(definition_id))


def _read(body: Sources) -> list[Source]:
    return [source for given in body.sources for source in read_sources(given.text, given.name)]


def _refuse_contracts(sources: list[Source]) -> None:
    """Raise `Refused` for a contract: contracts belong to all orgs, and one org cannot change them."""
    found = [source for source in sources if kind_of(source) is DeclarationKind.CONTRACT]
    if found:
        message = f"`{found[0].name}` declares a contract, which belongs to all orgs"
        hint = "the operator of the server publishes contracts with `assent definitions publish`"
        raise Refused(Rejection("POLICY_DENIED", message, ("sources",), hint=hint))


def _checked(found: CompiledSources) -> CheckedBody:
    return CheckedBody.of_check(first_problems(found.problems), found.workflows)
