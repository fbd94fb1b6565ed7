"""The org of the caller: its name and settings. `/api/org`"""

from typing import Annotated, Any, Final

from fastapi import Body as JsonBody

from assent.bodies.administration import AlertBody, OrgBody, PartitionBody
from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.http.context import Transaction
from assent.http.fields import OptionalTag, RequiredTag, etag
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.problems import reporting_problems
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.people.orgs import Org

router = Router(takes_documents=True, prefix="/api/org", tags=["org"])

_ETAG: Final[dict[str, Any]] = {
    "headers": {"ETag": {"schema": {"type": "string"}, "description": "The tag of the settings."}}
}
_SETTINGS: Final = {"budget": 500_000, "retention_days": 365}


@router.query("", scope="org:read", responses={200: _ETAG}, summary="Read the org and its settings")
async def show_org(tx: Transaction) -> Reply[OrgBody]:
    """For holders of `org:manage`. Expressions read a setting as `org.<name>`."""
    return _reply(await tx.runtime.settings.read())


@router.query("/partitions", scope="org:read", summary="List the partitions of the org, by name")
async def list_partitions_of_org(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[PartitionBody]]:
    """For holders of `org:manage`: those in which something is. A caller of one partition is shown that one."""
    page = await tx.reads.partitions.list(cursor=cursor, limit=limit)
    return reply_with_page(page, PartitionBody.of_name)


@router.command(
    "/settings",
    method="PUT",
    scope="org:write",
    rate="entities",
    errors=(412, 428),
    responses={200: _ETAG},
    summary="Replace the settings of the org",
)
async def save_settings_of_org(
    tx: Transaction, data: Annotated[Data, JsonBody(examples=[_SETTINGS])], tag: RequiredTag
) -> Reply[OrgBody]:
    """For holders of `org:manage`. A setting that the application declares must have its type.

    `publish` says whether one person publishes alone; only holders of `*` change it.
    """
    with reporting_problems():
        return _reply(await tx.runtime.settings.save(data, tag=tag))


@router.command(
    "/settings",
    method="PATCH",
    scope="org:write",
    rate="entities",
    errors=(412,),
    responses={200: _ETAG},
    summary="Change some settings of the org",
)
async def change_settings_of_org(
    tx: Transaction, data: Annotated[Data, JsonBody(examples=[_SETTINGS])], tag: OptionalTag
) -> Reply[OrgBody]:
    """For holders of `org:manage`. Null removes a setting; settings that are not named stay."""
    with reporting_problems():
        return _reply(await tx.runtime.settings.change(data, tag=tag))


@router.command(
    "/test-alert", scope="org:write", rate="workflows", status=202, errors=(404,), summary="Post a test alert"
)
async def post_test_alert(tx: Transaction) -> AlertBody:
    """For holders of `org:manage`: to the setting `alert_url`, signed with the org's signing secrets."""
    return AlertBody(id=await tx.runtime.settings.test_alert())


def _reply(org: Org) -> Reply[OrgBody]:
    return reply_with(OrgBody.of(org), headers={"etag": etag(org.tag)})
