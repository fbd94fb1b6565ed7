"""Texts in paths, queries and bodies: never longer than is kept, and never with what PostgreSQL cannot keep."""

from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import AfterValidator, ConfigDict, Field

from assent.model.names import is_blank
from assent.model.parse import FewProblems

TEXT_LENGTH_MAX: Final = 2_000
NAME_LENGTH_MAX: Final = 200


def _kept(text: str) -> str:
    if "\x00" in text:
        raise ValueError("expected a text without NUL")
    return text


def _named(text: str) -> str:
    if is_blank(text):
        raise ValueError(f"expected a text with something to see in it, found {text!r}")
    return _kept(text)


Text = Annotated[str, Field(max_length=TEXT_LENGTH_MAX), AfterValidator(_kept)]
ShortText = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX), AfterValidator(_named)]

NamePath = Annotated[str, Path(max_length=NAME_LENGTH_MAX), AfterValidator(_named)]
NameQuery = Annotated[str | None, Query(max_length=NAME_LENGTH_MAX), AfterValidator(lambda t: t and _kept(t))]
NamesQuery = Annotated[list[ShortText] | None, Query(max_length=20)]

Data = dict[str, Any]


class Body(FewProblems):
    """What somebody sends: an unknown key is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid")
