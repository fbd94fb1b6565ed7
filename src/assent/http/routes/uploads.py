"""What outside parties do without an account: the link that a request for documents goes out with. `/uploads/{token}`

A link is limited to its request, expires and can be revoked. Everything is checked before a byte of a file is read, and
again in the transaction that adds the file.
"""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response

from assent.bodies.documents import AskedUploadsBody, HandedInBody
from assent.http.auth.admission import count_request
from assent.http.context import services_of
from assent.http.links import TokenPath, admit_link, counting_bad_links, place_of
from assent.http.replies import reply_with
from assent.http.request_bodies import closing_refused, file_of, file_parts
from assent.http.routing import FILE_CONTENT, Admission, Router
from assent.http.web import upload_page, wants_page
from assent.runtime.file_commands import receive_file
from assent.runtime.upload_commands import OutsideParty, outside_party_of

router = Router(tags=["uploads"])

DocTypePath = Annotated[str, Path(max_length=100, examples=["passport"])]
FileName = Annotated[str | None, Query(max_length=1_000, examples=["passport.pdf"])]


async def _admit(request: Request) -> None:
    """Check the link, before a byte of the body is read. Bad links and files are counted by address and by link."""
    if wants_page(request):
        return  # it holds nothing of the request: its script asks for that under the same link
    with closing_refused():
        await admit_link(request)
        services = services_of(request)
        with counting_bad_links(request):
            party = await outside_party_of(
                services.runtime.core, request.path_params["token"], place_of(request)
            )
        count_request(services, party.link.org_id, f"link:{party.link.id}", "uploads")
    request.state.party = party


_ADMISSION = Admission(_admit, takes_file=True)
_CREATED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": HandedInBody, "description": "These bytes have come before."},
    201: {"model": HandedInBody},
}


@router.unsigned(
    "/uploads/{token}",
    method="GET",
    admission=_ADMISSION,
    errors=(404, 410, 422, 429, 503),
    response_model=AskedUploadsBody,
    summary="See what documents are asked for",
)
async def show_asked_uploads(request: Request, token: TokenPath) -> Response:
    """For the holder of the link: each document, what was wrong with the last one, and whether it has come.

    A browser that asks for HTML gets the page that shows it.
    """
    if wants_page(request):
        return upload_page(request)
    party: OutsideParty = request.state.party
    return reply_with(AskedUploadsBody.of_uploads(await party.look())).response()


@router.unsigned(
    "/uploads/{token}/{doc_type}",
    admission=_ADMISSION,
    errors=(400, 404, 409, 410, 413, 422, 429, 503),
    responses=_CREATED,
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": FILE_CONTENT}},
    summary="Hand in a document that is asked for",
)
async def hand_in_document(
    request: Request, token: TokenPath, doc_type: DocTypePath, name: FileName = None
) -> Response:
    """For the holder of the link. The body is the file; the same file again changes nothing."""
    party: OutsideParty = request.state.party
    with closing_refused():
        party.link.asked_for(doc_type)
        parts, said = file_parts(request, party.bytes_max), file_of(request, name)
        async with receive_file(party.scope, parts, said, party.bytes_max) as file:
            version, is_new = await party.hand_in(doc_type, file)
    body = HandedInBody(doc_type=doc_type, name=version.file_name, handed_in_at=version.created_at)
    return reply_with(body, 201 if is_new else 200).response()
