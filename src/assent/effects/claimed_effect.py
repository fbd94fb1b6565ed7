"""An effect that a worker has claimed, with everything that is needed to send it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from assent.effects.file_links import upload_url
from assent.effects.mail_words import words_of
from assent.jobs.job import ClaimedJob
from assent.language.mails import MailWords
from assent.model.job import EffectType
from assent.model.outside_request import REQUEST_KEY


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A secret that headers name, with where it may be sent."""

    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedEffect(ClaimedJob):
    instance_id: UUID | None
    """None for a message of ours that no step wants."""
    step_id: UUID | None
    type: EffectType
    payload: Mapping[str, Any]
    key: str
    """WF-11: what the receiver sees as `Idempotency-Key`, the same at every attempt."""
    awaited: bool
    trace_id: str | None = None
    member_email: str | None = None
    """Where `to` names a member: their address."""
    mail: Mapping[str, Any] | None = None
    """For a message of ours: the person's name and preferences, and the templates of the org."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the org's webhooks are signed with, the newest first."""
    named_secrets: Mapping[str, NamedSecret] = field(default_factory=dict, repr=False)
    """The secrets that its headers name, as far as they exist."""
    upload: Mapping[str, Any] | None = field(default=None, repr=False)
    """What signs the link by which documents that it asks for can be handed in."""

    @property
    def destination(self) -> str:
        return self.lane

    @property
    def is_ours(self) -> bool:
        """Whether it is a message that Assent writes, and no author: what it is about is also in the inbox."""
        return "mail" in self.payload

    @property
    def link_url(self) -> str | None:
        """Return the path of the page where the person goes on; None for a message of an author."""
        page, item = self.payload.get("page"), self.payload.get("request")
        if not (self.is_ours and page):
            return None
        parts = ("app", quote(self.org_id, safe=""), page, quote(item or ""))
        return "/".join(part for part in parts if part)

    def link(self, public_url: str) -> str | None:
        """Return where the person goes on; None where no public URL is set."""
        path = self.link_url
        return f"{public_url}/{path}" if public_url and path else None

    def words(self, public_url: str, decide_link: str | None = None) -> MailWords:
        """Return the words of a message: the author's, or ours in the person's language with the link.

        A link is stored nowhere: it is made when the message is sent.
        """
        if self.is_ours:
            return words_of(self, public_url, decide_link)
        subject, text = (str(self.payload.get(name) or "") for name in ("subject", "text"))
        if (link := self.upload_url(public_url)) is not None:
            text = f"{text}\n\n{link}"
        return MailWords(subject, text, html="")

    def upload_url(self, public_url: str) -> str | None:
        """Return where the receiver hands in the documents that are asked for; None where no public URL is set."""
        if self.upload is None or not public_url:
            return None
        ends = datetime.fromisoformat(self.upload["expires_at"])
        return upload_url(public_url, self.org_id, UUID(self.upload["id"]), self.upload["key"], ends)

    @property
    def request_id(self) -> UUID | None:
        """The request that it takes to an outside party, whose results are awaited instead of an answer."""
        found = self.payload.get(REQUEST_KEY) if self.type == "webhook" else None
        return UUID(found) if found else None

    @property
    def awaits_answer(self) -> bool:
        """Whether the receiver's answer is the step's result."""
        return self.awaited and self.request_id is None
