"""Links in mails by which a person decides without signing in; the token in the address says what about, and who."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.effects.link_tokens import LinkTokenKind, LinkTokens
from assent.effects.settings import DecisionLinkSettings
from assent.model.mutation import Rejection

AUDIENCE: Final = "assent:decision"
TYPE: Final = "assent-decision+jwt"
PATH: Final = "/decide/"

_KIND: Final = LinkTokenKind("link", PATH, AUDIENCE, TYPE, b"assent decision links, version 1")


@dataclass(frozen=True, slots=True)
class DecisionLink:
    """What a token allows: one decision on this request about this content, by this person."""

    org_id: str
    request_id: UUID
    user_id: str
    content: str
    """What the mail was about: a hash of the content, or the version where there is no entity."""


class DecisionLinks:
    """Signs and reads the links of one installation."""

    def __init__(self, settings: DecisionLinkSettings) -> None:
        self._tokens = LinkTokens(_KIND, settings)

    def url(self, link: DecisionLink, now: datetime) -> str:
        return self._tokens.link(self.token(link, now))

    def token(self, link: DecisionLink, now: datetime) -> str:
        about = {"org": link.org_id, "request": str(link.request_id), "user": link.user_id}
        return self._tokens.sign({**about, "content": link.content}, now)

    def read(self, token: str, now: datetime) -> DecisionLink | Rejection:
        """Return what a token allows, or why it is refused."""
        claims = self._tokens.verify(token, ("org", "request", "user", "content"), now)
        if isinstance(claims, Rejection):
            return claims
        try:
            request_id = UUID(claims["request"])
        except ValueError:
            return self._tokens.refusal()
        return DecisionLink(claims["org"], request_id, claims["user"], claims["content"])


def decision_links_of(settings: DecisionLinkSettings) -> DecisionLinks | None:
    """Return what signs and reads links; None if no URL is configured for them."""
    return DecisionLinks(settings) if settings.url else None
