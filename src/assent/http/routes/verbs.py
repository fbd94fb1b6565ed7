"""Verbs: commands in the form `(domain.verb :key value)`. `/api/verbs`"""

from typing import Annotated, Final

from pydantic import Field

from assent.bodies.body import Data
from assent.bodies.documents import VerbBody, VerbList, VerbResult
from assent.http.context import Transaction
from assent.http.fields import RequestModel, Text
from assent.http.routing import Router

router = Router(takes_documents=True, prefix="/api/verbs", tags=["verbs"])

CALL_LENGTH_MAX: Final = 2_000


class VerbCallBody(RequestModel):
    """A verb to run."""

    call: Annotated[Text, Field(min_length=1, max_length=CALL_LENGTH_MAX)] = Field(
        examples=["(document.create :document-type passport :subject-entity-id $client)"]
    )
    variables: Data = Field(
        {}, description="What the call names as `$name`.", examples=[{"client": "client-17"}]
    )


@router.query("", scope="verbs:read", summary="List verbs with their arguments")
async def list_verbs(tx: Transaction) -> VerbList:
    """Those of the product and those of the application, by name."""
    return VerbList(items=[VerbBody.of_verb(one) for one in await tx.reads.verbs.list()])


@router.command("/run", scope="verbs:write", rate="workflows", errors=(404, 409), summary="Run a verb")
async def run_verb(tx: Transaction, body: VerbCallBody) -> VerbResult:
    """For holders of the capability of the verb; it does what the route of the same work does."""
    return VerbResult(result=await tx.runtime.verbs.run(body.call, body.variables))
