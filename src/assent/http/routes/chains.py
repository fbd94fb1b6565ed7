"""Approval chains: an org's templates of approvers in sequence. `/api/approval-chains`"""

from typing import Annotated, Final

from fastapi import Body as JsonBody

from assent.bodies.administration import ChainBody
from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.http.context import Transaction
from assent.http.fields import NamePath
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.canonical import require_canonical
from assent.model.cursor import position_of, text_in

router = Router(takes_documents=True, prefix="/api/approval-chains", tags=["approval chains"])

_CHAIN: Final = {
    "entity_type": "invoice",
    "steps": [
        {"name": "finance", "approvers": {"role": "finance_manager"}, "mode": "quorum", "quorum": 2},
        {"name": "head", "approvers": {"manager": True, "levels": 2}, "due": "24h"},
    ],
}


@router.query("", scope="approvals:read", summary="List approval chains, by name")
async def list_approval_chains(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[ChainBody]]:
    """Also those that are not in use."""
    after = position_of(cursor, text_in)
    chains = await tx.runtime.chains.list(after=after, limit=limit + 1)
    return page_of(chains, limit, ChainBody.of, lambda chain: chain.name)


@router.query("/{name}", scope="approvals:read", errors=(404,), summary="Read an approval chain")
async def show_approval_chain(tx: Transaction, name: NamePath) -> ChainBody:
    """With its steps in their order, also if it is not in use."""
    return ChainBody.of(await tx.runtime.chains.get(name))


@router.command(
    "/{name}", method="PUT", scope="approvals:write", rate="entities", summary="Save an approval chain"
)
async def keep_approval_chain(
    tx: Transaction, name: NamePath, data: Annotated[Data, JsonBody(examples=[_CHAIN])]
) -> ChainBody:
    """In the format of chain files, for holders of `approvals:chains`. Open requests keep their approvers."""
    with reporting_problems():
        require_canonical(data)
        return ChainBody.of(await tx.runtime.chains.save({**data, "chain": name}))
