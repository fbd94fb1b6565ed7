"""Entity tags: `ETag: "7"` says what was read, `If-Match: "7"` what is meant: a version, or a draft as it was."""

import re
from typing import Annotated, Final

from fastapi import Header

from assent.model.mutation import Refused, Rejection

_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
_TAG: Final = re.compile(r'"([!#-~]{1,64})"')
ANY: Final = "*"

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=100,
        description="The `ETag` of what is meant, as it was read; `*` for however it is.",
        examples=['"7"'],
    ),
]


def etag(tag: int | str) -> str:
    return f'"{tag}"'


def version_meant(if_match: str | None, *, required: bool = False) -> int | None:
    """The version that a request is about; nothing when any will do."""
    tag = tag_meant(if_match, required=required)
    if tag is not None and _VERSION.fullmatch(tag) is None:
        raise Refused(_bad('expected If-Match: "<version>" or *'))
    return int(tag) if tag is not None else None


def tag_meant(if_match: str | None, *, required: bool = False) -> str | None:
    """The tag of what a request is about; nothing when it may be however it is."""
    if if_match is None and required:
        hint = 'send the ETag that you read, such as If-Match: "7", or *'
        raise Refused(
            Rejection("IF_MATCH_REQUIRED", "the request does not say which version it is about", hint=hint)
        )
    if if_match is None or if_match.strip() == ANY:
        return None
    if (found := _TAG.fullmatch(if_match.strip())) is None:
        raise Refused(_bad('expected If-Match: "<the ETag that was read>" or *'))
    return found[1]


def _bad(message: str) -> Rejection:
    return Rejection("BAD_VALUE", message, ("header", "If-Match"))
