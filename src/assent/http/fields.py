"""Parameters and fields that routes share: texts, times, `If-Match`, and the base class of request bodies.

Texts are never longer than the database stores, and never hold what PostgreSQL cannot store.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Depends, Header, Path, Query
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

from assent.model.mutation import Refused, Rejection
from assent.model.names import is_blank
from assent.model.parse import FewProblems

TEXT_LENGTH_MAX: Final = 2_000
NAME_LENGTH_MAX: Final = 200


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("expected a text without NUL")
    return text


def _visible(text: str) -> str:
    if is_blank(text):
        raise ValueError(f"expected a text with visible characters, found {text!r}")
    return _without_nul(text)


Text = Annotated[str, Field(max_length=TEXT_LENGTH_MAX), AfterValidator(_without_nul)]
ShortText = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX), AfterValidator(_visible)]

NamePath = Annotated[str, Path(max_length=NAME_LENGTH_MAX), AfterValidator(_visible)]
NameQuery = Annotated[
    str | None, Query(max_length=NAME_LENGTH_MAX), AfterValidator(lambda text: text and _without_nul(text))
]
SavedQuery = Annotated[
    str | None,
    Query(max_length=NAME_LENGTH_MAX, description="The name of a saved filter, in place of one."),
    AfterValidator(lambda text: text and _without_nul(text)),
]
NamesQuery = Annotated[list[ShortText] | None, Query(max_length=20)]

_FIRST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2999, 12, 31, tzinfo=UTC)


def _in_range(time: datetime) -> datetime:
    if not _FIRST <= time <= _LAST:
        raise ValueError(f"expected a time from {_FIRST.year} to {_LAST.year}")
    return time


Moment = Annotated[AwareDatetime, AfterValidator(_in_range)]
"""A time with its zone, in years that PostgreSQL and every calendar can represent."""


class RequestModel(FewProblems):
    """A body that a caller sends; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")


_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
_TAG: Final = re.compile(r'"([!#-~]{1,64})"')
ANY: Final = "*"

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=100,
        description="The `ETag` that was read; `*` for any version.",
        examples=['"7"'],
    ),
]


def etag(tag: int | str) -> str:
    """Return the value of the header `ETag`: the version of an entity, or the tag of a draft."""
    return f'"{tag}"'


async def _required_tag(if_match: IfMatch = None) -> str | None:
    return tag_meant(if_match, required=True)


async def _optional_tag(if_match: IfMatch = None) -> str | None:
    return tag_meant(if_match)


async def _required_version(if_match: IfMatch = None) -> int | None:
    return version_meant(if_match, required=True)


async def _optional_version(if_match: IfMatch = None) -> int | None:
    return version_meant(if_match)


RequiredTag = Annotated[str | None, Depends(_required_tag)]
OptionalTag = Annotated[str | None, Depends(_optional_tag)]
RequiredVersion = Annotated[int | None, Depends(_required_version)]
OptionalVersion = Annotated[int | None, Depends(_optional_version)]


def version_meant(if_match: str | None, *, required: bool = False) -> int | None:
    """Return the version that `If-Match` names; None for any version."""
    tag = tag_meant(if_match, required=required)
    if tag is not None and _VERSION.fullmatch(tag) is None:
        raise Refused(_bad_tag('expected If-Match: "<version>" or *'))
    return int(tag) if tag is not None else None


def tag_meant(if_match: str | None, *, required: bool = False) -> str | None:
    """Return the tag that `If-Match` names; None for any."""
    if if_match is None and required:
        hint = 'send the ETag that you read, such as If-Match: "7", or *'
        raise Refused(
            Rejection("IF_MATCH_REQUIRED", "the request does not say which version it changes", hint=hint)
        )
    if if_match is None or if_match.strip() == ANY:
        return None
    if (found := _TAG.fullmatch(if_match.strip())) is None:
        raise Refused(_bad_tag('expected If-Match: "<the ETag that was read>" or *'))
    return found[1]


def _bad_tag(message: str) -> Rejection:
    return Rejection("BAD_VALUE", message, ("header", "If-Match"))
