"""Templates of mails, `/api/mail-templates`, and how the caller is written to, `/api/preferences`."""

from typing import Annotated, Final

from fastapi import Body as JsonBody
from pydantic import Field

from assent.bodies.administration import MailPreviewBody, MailTemplateBody, PreferencesBody
from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.http.context import Transaction
from assent.http.fields import NamePath, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.cursor import position_of, texts_in
from assent.people.preferences import DIGEST_HOUR, Mails

router = Router(takes_documents=True, prefix="/api/mail-templates", tags=["mail templates"])
preferences = Router(prefix="/api/preferences", tags=["preferences"])

_TEMPLATE: Final = {"subject": "{what}, by {due}", "text": "Hello {name},\n\nplease decide {what}.\n\n{link}"}


class PreferenceChanges(RequestModel):
    """Fields that change; a missing field does not change."""

    # By factories, for a default in the document would be sent by programs that were generated from it.
    language: ShortText | None = Field(
        default_factory=lambda: None, description="Null: that of the org.", examples=["de"]
    )
    time_zone: ShortText = Field(default_factory=str, examples=["Europe/Berlin"])
    mails: Mails = Field(default_factory=lambda: "at_once", examples=["daily"])
    digest_hour: int = Field(default_factory=lambda: DIGEST_HOUR, ge=0, le=23, examples=[8])
    decides_by_mail: bool = Field(
        default_factory=bool,
        description="By links in mails to the present address, where the org allows them.",
    )


@router.query("", scope="org:read", summary="List mail templates, by kind and language")
async def list_mail_templates_of_org(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[MailTemplateBody]]:
    """For holders of `org:manage`: ours, and those with parts of the org's own."""
    after = position_of(cursor, texts_in)
    found = await tx.runtime.mail_templates.list()
    rest = [one for one in found if after is None or one.position > after]
    return page_of(rest[: limit + 1], limit, MailTemplateBody.of, lambda one: one.position)


@router.query("/{kind}/{language}", scope="org:read", errors=(404,), summary="Read a mail template")
async def show_mail_template(tx: Transaction, kind: NamePath, language: NamePath) -> MailTemplateBody:
    """For holders of `org:manage`, with the variables that it may name."""
    return MailTemplateBody.of(await tx.runtime.mail_templates.get(kind, language))


@router.command(
    "/{kind}/{language}",
    method="PUT",
    scope="org:write",
    rate="entities",
    errors=(404,),
    summary="Save a mail template",
)
async def save_mail_template_of_org(
    tx: Transaction, kind: NamePath, language: NamePath, data: Annotated[Data, JsonBody(examples=[_TEMPLATE])]
) -> MailTemplateBody:
    """For holders of `org:manage`. A part that is left out is ours; HTML is made from the text."""
    with reporting_problems():
        return MailTemplateBody.of(await tx.runtime.mail_templates.save(kind, language, data))


@router.command(
    "/{kind}/{language}",
    method="DELETE",
    scope="org:write",
    rate="entities",
    errors=(404,),
    summary="Delete a mail template",
)
async def delete_mail_template_of_org(
    tx: Transaction, kind: NamePath, language: NamePath
) -> MailTemplateBody:
    """For holders of `org:manage`. Our words are sent again; where there are none in the language, in another."""
    return MailTemplateBody.of(await tx.runtime.mail_templates.delete(kind, language))


@router.query(
    "/{kind}/{language}/preview",
    method="POST",
    scope="org:read",
    rate="checks",
    errors=(404,),
    summary="Preview a mail",
)
async def preview_mail_of_org(
    tx: Transaction, kind: NamePath, language: NamePath, data: Annotated[Data, JsonBody(examples=[_TEMPLATE])]
) -> MailPreviewBody:
    """For holders of `org:manage`, with example values. An empty object previews what is saved."""
    with reporting_problems():
        return MailPreviewBody.of(await tx.runtime.mail_templates.preview(kind, language, data or None))


@preferences.query("", scope="approvals:read", summary="Read the caller's preferences")
async def show_preferences(tx: Transaction) -> PreferencesBody:
    """How the caller is written to."""
    return PreferencesBody.of(await tx.runtime.preferences.get())


@preferences.command(
    "", method="PATCH", scope="approvals:write", rate="entities", summary="Change the caller's preferences"
)
async def change_preferences_of_caller(tx: Transaction, body: PreferenceChanges) -> PreferencesBody:
    """With `mails: daily` questions come together, at an hour of the caller's day; escalations come at once."""
    return PreferencesBody.of(await tx.runtime.preferences.change(body.model_dump(exclude_unset=True)))
