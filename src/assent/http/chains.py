"""Approval chains: an org's own templates of who is asked after whom. `/api/approval-chains`"""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Body as JsonBody
from fastapi import Depends, Response
from pydantic import BaseModel, Field

from assent.approvals.chains import Chain, keep_chain, list_chains, read_chain
from assent.http.declared import reporting_problems
from assent.http.desk import RequestContext, Transaction
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import Data, NamePath
from assent.model.canonical import require_canonical
from assent.model.cursor import position_of, text_in
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(takes_much=True, prefix="/api/approval-chains", tags=["approval chains"])

Look = Annotated[RequestContext, Depends(Reading("approvals:read"))]
Write = Annotated[RequestContext, Depends(Writing("approvals:write", "entities"))]

MANAGE_CHAINS: Final = "approvals:chains"
"""The capability to say who is asked after whom."""

_CHAIN: Final = {
    "entity_type": "invoice",
    "steps": [
        {"name": "finance", "approvers": {"role": "finance_manager"}, "mode": "quorum", "quorum": 2},
        {"name": "head", "approvers": {"manager": True, "levels": 2}, "due": "24h"},
    ],
}


class ChainStepBody(BaseModel):
    """Who is asked at one step."""

    name: str = Field(examples=["finance"])
    approvers: dict[str, Any] = Field(examples=[{"role": "finance_manager"}])
    mode: str = Field(examples=["any"])
    quorum: int | None
    due_seconds: int | None


class ChainBody(BaseModel):
    """Who is asked after whom."""

    id: UUID
    name: str = Field(examples=["large purchases"])
    entity_type: str | None
    active: bool
    steps: list[ChainStepBody]

    @classmethod
    def of(cls, chain: Chain) -> "ChainBody":
        steps = [
            ChainStepBody(**{name: getattr(step, name) for name in ChainStepBody.model_fields})
            for step in chain.steps
        ]
        return cls(
            id=chain.id, name=chain.name, entity_type=chain.entity_type, active=chain.active, steps=steps
        )


@router.get(
    "", response_model=Page[ChainBody], summary="List approval chains, by name", responses=documented(422)
)
async def list_approval_chains(
    desk: Look, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Any:
    """Those that are not in use as well."""
    after = position_of(cursor, text_in)

    async def work(connection: Connection) -> Sequence[Chain]:
        return await list_chains(connection, desk.org_id, after=after, limit=limit + 1)

    return page_of(await desk.read(work), limit, ChainBody.of, lambda chain: chain.name)


@router.get(
    "/{name}", response_model=ChainBody, summary="Read an approval chain", responses=documented(404, 422)
)
async def show_approval_chain(desk: Look, name: NamePath) -> Any:
    """With its steps in their order, also where it is out of use."""

    async def work(connection: Connection) -> ChainBody:
        chain = await read_chain(connection, desk.org_id, name)
        if chain is None:
            raise Refused(Rejection("NOT_FOUND", f"no approval chain `{name}`", ("name",)))
        return ChainBody.of(chain)

    return await desk.read(work)


@router.put(
    "/{name}",
    response_model=ChainBody,
    summary="Keep an approval chain",
    responses=documented(400, 413, 422),
)
async def keep_approval_chain(
    desk: Write, name: NamePath, data: Annotated[Data, JsonBody(examples=[_CHAIN])]
) -> Response:
    """As it is written in files, for holders of `approvals:chains`. Whoever was asked by it stays asked."""

    async def work(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, MANAGE_CHAINS)
        now = desk.house.database.clock.now()
        with reporting_problems():
            require_canonical(data)
            kept = await keep_chain(session.connection, desk.org_id, {**data, "chain": name}, now)
            if isinstance(kept, list):
                raise Invalid(kept)
        return Reply.of(ChainBody.of(kept))

    return await desk.write(work)
