"""Telling people: e-mail by our own means, everything else by an application's adapters, or all of it to the log."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.email import MailServer
from assent.effects.outlets import Adapter, CannotBeSent, Message, NotAnswered, TryLater
from assent.effects.settings import EffectSettings
from assent.jobs.job import Failed, JobOutcome, Succeeded
from assent.language import as_json
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.mutation import Refused

_log = logging.getLogger(__name__)


class Channels:
    """Send messages to people, by every channel that there is."""

    def __init__(self, settings: EffectSettings, mail: MailServer, adapters: dict[str, Adapter]) -> None:
        self._settings = settings
        self._mail = mail
        self._adapters = adapters

    async def send(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        message = _message(effect)
        if effect.type in self._settings.log:
            return _write_to_log(message)
        if (adapter := self._adapters.get(effect.type)) is not None:
            timeout = timedelta(milliseconds=self._settings.total_timeout_ms)
            outcome = await called(adapter, message, timeout=timeout)
            return Succeeded(_evidence(outcome.result)) if isinstance(outcome, Succeeded) else outcome
        if effect.type == "email" and self._mail.is_there:
            return await self._mail.send(effect, now)
        return _no_way(effect.type)


def _message(effect: ClaimedEffect) -> Message:
    payload = effect.payload
    texts = {name: str(payload.get(name) or "") for name in ("to", "subject", "text")}
    to = texts["to"] or str(payload.get("user") or "")
    return Message(effect.org_id, effect.type, to, texts["subject"], texts["text"], effect.key)


def _write_to_log(message: Message) -> Succeeded:
    fields = {"org_id": message.org_id, "channel": message.channel, "to": message.to}
    _log.info("message not sent", extra={**fields, "subject": message.subject, "text": message.text})
    return Succeeded({"logged": True})


def _no_way(channel: str) -> Failed:
    ways = f"register one with app.adapter({channel!r}, send)"
    if channel == "email":
        ways += ", or name a mail server in ASSENT_SMTP_HOST and ASSENT_SMTP_SENDER"
    message = f"there is no adapter for {channel}: {ways}; ASSENT_EFFECTS_LOG={channel} writes it to the log"
    return Failed("NO_ADAPTER", message, permanent=True)


def _evidence(said: Any) -> dict[str, Any]:
    return {"adapter": said} if said is not None else {}


async def called(function: Callable[..., Any], *arguments: Any, timeout: timedelta) -> JobOutcome:  # noqa: ASYNC109
    """Return the outcome of a call of the application's own code; plain functions run in a thread."""
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            result = as_json(await _awaited(function, arguments))
        require_canonical(result)
    except Refused as refusal:
        return Failed(refusal.code, refusal.rejection.message, permanent=True)
    except (CannotBeSent, NotCanonical) as error:
        return Failed("CANNOT_BE_SENT", str(error), permanent=True)
    except TryLater as error:
        return Failed("TRY_LATER", str(error), retry_after=error.after)
    except (NotAnswered, TimeoutError) as error:
        return Failed("NO_ANSWER", str(error) or "it took too long", ambiguous=True)
    except Exception as error:
        return Failed("FAILED", f"{type(error).__name__}: {error}")
    return Succeeded(result=result)


async def _awaited(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    answer: Any | Awaitable[Any] = await asyncio.to_thread(function, *arguments)
    return await answer if inspect.isawaitable(answer) else answer
