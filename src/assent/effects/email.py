"""E-mail over SMTP: one message to one person, under an id that stays the same at every attempt."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Final
from uuid import UUID

import aiosmtplib

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.decision_links import DecisionLink, DecisionLinks
from assent.effects.settings import SmtpSettings
from assent.jobs.job import Failed, JobOutcome, Succeeded
from assent.language.mails import one_line

ADDRESS_CHARACTERS_MAX: Final = 254
GOODBYE_S: Final = 1.0


class MailServer:
    """The server that takes our mails. Each has a connection of its own: what fails is its own failure."""

    def __init__(
        self,
        settings: SmtpSettings,
        timeout_ms: int,
        public_url: str = "",
        links: DecisionLinks | None = None,
    ) -> None:
        self._settings = settings
        self._links = links
        self._public_url = public_url
        self._timeout_s = timeout_ms / 1000

    @property
    def is_there(self) -> bool:
        return self._settings.is_complete

    async def send(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        message = message_of(effect, self._settings.sender, now, self._public_url, self._links)
        if isinstance(message, Failed):
            return message
        client, progress = self._client(), _Progress()
        try:
            async with asyncio.timeout(self._timeout_s):
                said = await self._hand_over(client, message, progress)
        except aiosmtplib.SMTPResponseException as error:
            permanent = 500 <= error.code < 600 and not isinstance(error, aiosmtplib.SMTPAuthenticationError)
            return Failed(f"SMTP_{error.code}", error.message, permanent)
        except (aiosmtplib.SMTPException, TimeoutError, OSError) as error:
            why = str(error) or "it took too long"
            return Failed("MAIL_SERVER_FAILED", why, ambiguous=progress.sent)
        finally:
            await _leave(client)
        return Succeeded({"to": message["to"], "message_id": message["message-id"], "said": said})

    def _client(self) -> aiosmtplib.SMTP:
        settings = self._settings
        return aiosmtplib.SMTP(
            hostname=settings.host,
            port=settings.port,
            use_tls=settings.tls == "tls",
            start_tls=settings.tls == "starttls",
            username=settings.user or None,
            password=settings.password or None,
            timeout=self._timeout_s,
        )

    async def _hand_over(self, client: aiosmtplib.SMTP, message: EmailMessage, progress: "_Progress") -> str:
        await client.connect()
        await client.mail(parseaddr(self._settings.sender)[1])
        await client.rcpt(message["to"])
        progress.sent = True
        response = await client.data(message.as_bytes(policy=SMTP))
        return f"{response.code} {response.message}"


async def _leave(client: aiosmtplib.SMTP) -> None:
    """Say goodbye. Its result does not matter: the mail was taken or not."""
    with suppress(aiosmtplib.SMTPException, TimeoutError, OSError):
        async with asyncio.timeout(GOODBYE_S):
            await client.quit()
    client.close()


class _Progress:
    """Whether the message has begun to leave."""

    sent = False


def message_of(
    effect: ClaimedEffect,
    sender: str,
    now: datetime,
    public_url: str = "",
    links: DecisionLinks | None = None,
) -> EmailMessage | Failed:
    """Return the mail of an effect. Headers are one line each, whatever an author's template was filled with.

    A mail of ours is also HTML; one that an author wrote is the plain text of the author.
    """
    to = address_of(effect.payload, effect.member_email)
    if isinstance(to, Failed):
        return to
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = to
    words = effect.words(public_url, _decide_link(effect, links, to, now))
    message["Subject"] = one_line(words.subject)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{effect.key}@{parseaddr(sender)[1].rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(words.text)
    if words.html:
        message.add_alternative(words.html, subtype="html")
    return message


def _decide_link(effect: ClaimedEffect, links: DecisionLinks | None, to: str, now: datetime) -> str | None:
    """Return where the person decides without signing in; None unless org and person allow it at this address."""
    mail = effect.mail or {}
    settings = mail.get("settings") or {}
    content = effect.payload.get("content")
    if links is None or settings.get("mail_links") is not True or content is None:
        return None
    if to != mail.get("links_to"):
        return None
    request_id, user_id = UUID(effect.payload["request"]), effect.payload["user"]
    return links.url(DecisionLink(effect.org_id, request_id, user_id, content), now)


def address_of(payload: Mapping[str, object], member_email: str | None) -> str | Failed:
    """Return where it goes: the address itself, or that of the member that it names."""
    to = str(payload.get("to") or "").strip()
    named = to or str(payload.get("user") or "")
    address = to if "@" in to else (member_email or "").strip()
    if not address:
        return Failed(
            "NO_ADDRESS", f"{named or 'an empty recipient'} is no member with an address", permanent=True
        )
    local, _, domain = address.rpartition("@")
    plain = address.isascii() and address.isprintable() and not set(address) & set(' ,;:<>()[]"\\')
    if not (plain and local and domain and len(address) <= ADDRESS_CHARACTERS_MAX):
        return Failed("BAD_ADDRESS", f"expected one plain address, found {address!r}", permanent=True)
    return address
