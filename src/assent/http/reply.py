"""What goes back: a status, a body and a few headers. The same whether it was made now or kept from before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"


About = tuple[str, str]
"""A noun and what names it: an object whose content an answer shows."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, ready to be sent or kept."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON
    about: tuple[About, ...] = ()
    """What must be readable for the answer to be shown again."""
    again: "Reply | None" = None
    """What a repeat gets instead, where the answer itself is shown once: it holds a secret."""

    @classmethod
    def of(
        cls, body: BaseModel, status: int = 200, *, about: tuple[About, ...] = (), **headers: str
    ) -> "Reply":
        """Headers are given as names of Python: `etag`, `location`."""
        return cls(status, body.model_dump_json(), headers, about=about)

    def response(self) -> Response:
        return Response(self.body, self.status, dict(self.headers), media_type=self.media_type)

    def to_json(self) -> dict[str, Any]:
        return {"headers": dict(self.headers), "media_type": self.media_type}
