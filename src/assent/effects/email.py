"""E-mail over SMTP: one message to one person, under an id that stays the same at every attempt."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Final

import aiosmtplib

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.settings import SmtpSettings
from assent.jobs.job import Failed, JobOutcome, Succeeded

ADDRESS_CHARACTERS_MAX: Final = 254
SUBJECT_CHARACTERS_MAX: Final = 200
GOODBYE_S: Final = 1.0


class MailServer:
    """The server that takes our mails. Each has a connection of its own: what fails is its own failure."""

    def __init__(self, settings: SmtpSettings, timeout_ms: int) -> None:
        self._settings = settings
        self._timeout_s = timeout_ms / 1000

    @property
    def is_there(self) -> bool:
        return bool(self._settings.host and self._settings.sender)

    async def send(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        message = message_of(effect, self._settings.sender, now)
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
    """Say goodbye; whatever comes of that, the mail was taken or not."""
    with suppress(aiosmtplib.SMTPException, TimeoutError, OSError):
        async with asyncio.timeout(GOODBYE_S):
            await client.quit()
    client.close()


class _Progress:
    """Whether the message has begun to leave."""

    sent = False


def message_of(effect: ClaimedEffect, sender: str, now: datetime) -> EmailMessage | Failed:
    """The mail that an effect asks for. Headers are one line each, whatever an author's template was filled with."""
    to = address_of(effect.payload, effect.member_email)
    if isinstance(to, Failed):
        return to
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = to
    message["Subject"] = _one_line(str(effect.payload.get("subject") or ""))
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{effect.key}@{parseaddr(sender)[1].rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(str(effect.payload.get("text") or ""))
    return message


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


def _one_line(text: str) -> str:
    return " ".join(text.split())[:SUBJECT_CHARACTERS_MAX]
