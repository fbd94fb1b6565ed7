"""Approval chains: an org's templates of approvers in sequence. `/api/approval-chains`"""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Body as JsonBody
from pydantic import Field

from assent.approvals.chains import keep_chain, list_chains, read_chain
from assent.bodies.body import ITEMS_DEFAULT, Data, Page, ResponseModel
from assent.http.context import Transaction
from assent.http.fields import NamePath
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.canonical import require_canonical
from assent.model.cursor import position_of, text_in
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid

router = Router(takes_documents=True, prefix="/api/approval-chains", tags=["approval chains"])

MANAGE_CHAINS: Final = "approvals:chains"
"""The capability to define approval chains."""

_CHAIN: Final = {
    "entity_type": "invoice",
    "steps": [
        {"name": "finance", "approvers": {"role": "finance_manager"}, "mode": "quorum", "quorum": 2},
        {"name": "head", "approvers": {"manager": True, "levels": 2}, "due": "24h"},
    ],
}


class ChainStepBody(ResponseModel):
    """The approvers of one step."""

    name: str = Field(examples=["finance"])
    approvers: dict[str, Any] = Field(examples=[{"role": "finance_manager"}])
    mode: str = Field(examples=["any"])
    quorum: int | None
    due_seconds: int | None


class ChainBody(ResponseModel):
    """An approval chain."""

    id: UUID
    name: str = Field(examples=["large purchases"])
    entity_type: str | None
    active: bool
    steps: list[ChainStepBody]


@router.query("", scope="approvals:read", summary="List approval chains, by name")
async def list_approval_chains(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[ChainBody]]:
    """Also those that are not in use."""
    after = position_of(cursor, text_in)
    chains = await list_chains(tx.connection, tx.org_id, after=after, limit=limit + 1)
    return page_of(chains, limit, ChainBody.of, lambda chain: chain.name)


@router.query("/{name}", scope="approvals:read", errors=(404,), summary="Read an approval chain")
async def show_approval_chain(tx: Transaction, name: NamePath) -> ChainBody:
    """With its steps in their order, also if it is not in use."""
    chain = await read_chain(tx.connection, tx.org_id, name)
    if chain is None:
        raise Refused(Rejection("NOT_FOUND", f"no approval chain `{name}`", ("name",)))
    return ChainBody.of(chain)


@router.command(
    "/{name}", method="PUT", scope="approvals:write", rate="entities", summary="Save an approval chain"
)
async def keep_approval_chain(
    tx: Transaction, name: NamePath, data: Annotated[Data, JsonBody(examples=[_CHAIN])]
) -> ChainBody:
    """In the format of chain files, for holders of `approvals:chains`. Open requests keep their approvers."""
    tx.require(MANAGE_CHAINS)
    with reporting_problems():
        require_canonical(data)
        kept = await keep_chain(tx.connection, tx.org_id, {**data, "chain": name}, tx.now())
        if isinstance(kept, list):
            raise Invalid(kept)
    return ChainBody.of(kept)
