"""Links that are their own credential: admitted by the rate of their address, before anything is looked up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from fastapi import Path, Request

from assent.http.auth.admission import count_request
from assent.http.context import services_of
from assent.http.refusals import count_refusal
from assent.model.mutation import Refused

TOKEN_LENGTH_MAX: Final = 1_000
TokenPath = Annotated[str, Path(max_length=TOKEN_LENGTH_MAX, description="The token of the link.")]


async def admit_link(request: Request) -> None:
    """Count a request by its address; refuse it beyond the rate, or where the address has sent too many bad links."""
    services, place = services_of(request), place_of(request)
    if wait_s := services.sign_in_throttle.wait_s(place, None):
        count_refusal("rate", "sign_ins")
        raise services.rates.refusal("sign_ins", wait_s)
    count_request(services, "", f"place:{place}", "uploads")


@contextmanager
def counting_bad_links(request: Request) -> Iterator[None]:
    """Count a link that is none of ours as a failed sign-in of its address."""
    try:
        yield
    except Refused as refused:
        if refused.rejection.code == "NOT_FOUND":
            services_of(request).sign_in_throttle.note_failed(place_of(request))
        raise


def place_of(request: Request) -> str | None:
    return request.client.host if request.client else None
