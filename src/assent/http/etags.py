"""Entity versions as entity tags: `ETag: "7"` says which version was read, `If-Match: "7"` which one is meant."""

import re
from typing import Annotated, Final

from fastapi import Header

from assent.model.mutation import Refused, Rejection

_TAG: Final = re.compile(r'"([1-9][0-9]{0,8})"')
ANY: Final = "*"

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=100,
        description="The `ETag` of the version that is meant; `*` for whichever there is.",
        examples=['"7"'],
    ),
]


def etag(version: int) -> str:
    return f'"{version}"'


def version_meant(if_match: str | None, *, required: bool = False) -> int | None:
    """The version that a request is about; nothing when any will do."""
    if if_match is None and required:
        hint = 'send the ETag that you read, such as If-Match: "7", or *'
        raise Refused(
            Rejection("IF_MATCH_REQUIRED", "the request does not say which version it is about", hint=hint)
        )
    if if_match is None or if_match.strip() == ANY:
        return None
    if (found := _TAG.fullmatch(if_match.strip())) is None:
        raise Refused(Rejection("BAD_VALUE", 'expected If-Match: "<version>" or *', ("header", "If-Match")))
    return int(found[1])
