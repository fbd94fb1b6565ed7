"""The fleet: processes of workers and servers. `/api/nodes`"""

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.operations import FleetNodeBody
from assent.http.context import Transaction
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router

router = Router(prefix="/api/nodes", tags=["operations"])


@router.query("", scope="operations:read", summary="List the processes of the fleet, by host")
async def list_nodes_of_fleet(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[FleetNodeBody]]:
    """For holders of `operations:read`: workers and servers, of all orgs, and for a day those that were lost."""
    return reply_with_page(await tx.reads.operations.nodes(cursor=cursor, limit=limit), FleetNodeBody.of)
