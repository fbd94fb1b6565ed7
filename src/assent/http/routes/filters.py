"""Saved filters: the caller's own and those of the org, of entities and of the inbox. `/api/filters`"""

from typing import Final

from pydantic import Field

from assent.bodies.administration import FilterBody
from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.http.context import Transaction
from assent.http.fields import NamePath, NameQuery, RequestModel
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.kernel.saved_filters import filter_position_in
from assent.model.cursor import position_of

router = Router(prefix="/api/filters", tags=["filters"])

_FILTER: Final = {"state": ["draft"], "created_by": "alice", "sort": "-updated_at"}


class FilterToSave(RequestModel):
    filter: Data = Field(description="The parameters of the list, by name.", examples=[_FILTER])
    shared: bool = Field(False, description="For all of the org; takes `filters:share`.")


@router.query("", scope="entities:read", summary="List saved filters, by what they are of and name")
async def list_filters_of_caller(
    tx: Transaction,
    filter_of: NameQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[FilterBody]]:
    """The caller's own and those of the org, of the inbox and of entity types that the caller may read."""
    after = position_of(cursor, filter_position_in)
    found = await tx.runtime.filters.list(filter_of, after=after, limit=limit + 1)
    return page_of(found, limit, FilterBody.of, lambda each: each.position(tx.actor.id))


@router.query("/{filter_of}/{name}", scope="entities:read", errors=(404,), summary="Read a saved filter")
async def show_filter(tx: Transaction, filter_of: NamePath, name: NamePath) -> FilterBody:
    """The caller's own before the org's."""
    return FilterBody.of(await tx.runtime.filters.get(filter_of, name))


@router.command(
    "/{filter_of}/{name}",
    method="PUT",
    scope="entities:write",
    rate="entities",
    errors=(404,),
    summary="Save a filter",
)
async def save_filter_of_caller(
    tx: Transaction, filter_of: NamePath, name: NamePath, body: FilterToSave
) -> FilterBody:
    """In place of the one of this name. It is checked now, and when it is used."""
    with reporting_problems("filter"):
        saved = await tx.runtime.filters.save(filter_of, name, body.filter, shared=body.shared)
    return FilterBody.of(saved)


@router.command(
    "/{filter_of}/{name}",
    method="DELETE",
    scope="entities:write",
    rate="entities",
    errors=(404,),
    summary="Delete a saved filter",
)
async def delete_filter_of_caller(
    tx: Transaction, filter_of: NamePath, name: NamePath, shared: bool = False
) -> FilterBody:
    """The caller's own; with `shared` the org's, for holders of `filters:share`."""
    return FilterBody.of(await tx.runtime.filters.delete(filter_of, name, shared=shared))
