"""Services that the application registers for steps to call. `/api/services`"""

from assent.bodies.administration import ServiceBody
from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.http.context import Transaction
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router

router = Router(prefix="/api/services", tags=["services"])


@router.query("", scope="definitions:read", summary="List services, by name")
async def list_services(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[ServiceBody]]:
    """Those of the application that this server runs, without their credentials."""
    page = await tx.reads.services.list(cursor=cursor, limit=limit)
    return reply_with_page(page, ServiceBody.of)
