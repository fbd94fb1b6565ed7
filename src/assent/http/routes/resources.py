"""Resources that tasks use. `/api/resources`"""

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.operations import ResourceBody
from assent.http.context import Transaction
from assent.http.fields import NamePath
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply
from assent.http.routing import Router

router = Router(prefix="/api/resources", tags=["tasks"])


@router.query("", scope="tasks:read", summary="List the resources that tasks use, by name")
async def list_task_resources(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[ResourceBody]]:
    """For holders of `tasks:read`: how many tasks may run with each, how many do, and how many of the org wait."""
    page = await tx.reads.resources.list(cursor=cursor, limit=limit)
    return reply_with_page(page, ResourceBody.of)


@router.query("/{name}", scope="tasks:read", errors=(404,), summary="Read a resource that tasks use")
async def show_task_resource(tx: Transaction, name: NamePath) -> ResourceBody:
    """For holders of `tasks:read`: one that a worker has declared."""
    return ResourceBody.of(await tx.reads.resources.get(name))
