"""Callbacks: an address that lets its holder push the results of one request, and do nothing else."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.effects.link_tokens import LinkTokenKind, LinkTokens
from assent.effects.settings import CallbackSettings
from assent.model.mutation import Rejection

AUDIENCE: Final = "assent:callback"
TYPE: Final = "assent-callback+jwt"
PATH: Final = "/callbacks/"

_KIND: Final = LinkTokenKind("callback", PATH, AUDIENCE, TYPE, b"assent callback tokens, version 1")


@dataclass(frozen=True, slots=True)
class Callback:
    """What a token allows: results for this request of this org."""

    org_id: str
    request_id: UUID


class Callbacks:
    """Signs and reads the callbacks of one installation."""

    def __init__(self, settings: CallbackSettings) -> None:
        self._tokens = LinkTokens(_KIND, settings)

    def url(self, org_id: str, request_id: UUID, now: datetime) -> str:
        return self._tokens.link(self.token(org_id, request_id, now))

    def token(self, org_id: str, request_id: UUID, now: datetime) -> str:
        return self._tokens.sign({"org": org_id, "request": str(request_id)}, now)

    def read(self, token: str, now: datetime) -> Callback | Rejection:
        """Return what a token allows, or why it is refused."""
        claims = self._tokens.verify(token, ("org", "request"), now)
        if isinstance(claims, Rejection):
            return claims
        try:
            return Callback(claims["org"], UUID(claims["request"]))
        except ValueError:
            return self._tokens.refusal()


def callbacks_of(settings: CallbackSettings) -> Callbacks | None:
    """Return what signs and reads callbacks; None if no URL is configured for them."""
    return Callbacks(settings) if settings.url else None
