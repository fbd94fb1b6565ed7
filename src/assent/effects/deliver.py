"""One attempt to send one effect, whatever its type. It never raises: whatever happens is an outcome.

People are notified by the channels: e-mail by our own means, everything else by an application's adapters, or all of it
goes to the log.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import orjson

from assent.effects.callbacks import Callbacks
from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.decision_links import DecisionLinks
from assent.effects.email import MailServer
from assent.effects.guard import Resolve, resolve
from assent.effects.http import HttpSender
from assent.effects.named_secrets import Redaction
from assent.effects.openapi import Service
from assent.effects.outlets import Adapter, CannotBeSent, Message, NotAnswered, Outlets, TryLater
from assent.effects.requests import HttpRequest, outcome_of, own_headers
from assent.effects.settings import EffectSettings, SmtpSettings
from assent.effects.webhook import standard_headers, webhook_request
from assent.jobs.job import Failed, JobOutcome, Succeeded
from assent.language import as_json
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.mutation import Refused

_log = logging.getLogger(__name__)


WEBHOOKS: Final = ""
"""The name under which the connections of webhooks are kept beside those of services."""


NO_MAIL_SERVER: Final = "NO_MAIL_SERVER"
_MAIL_REMEDY: Final = "name a mail server in ASSENT_SMTP_HOST and ASSENT_SMTP_SENDER"


class Channels:
    """Send messages to people, by every channel that there is."""

    def __init__(
        self, settings: EffectSettings, mail: MailServer, adapters: dict[str, Adapter], public_url: str
    ) -> None:
        self._settings = settings
        self._mail = mail
        self._adapters = adapters
        self._public_url = public_url
        self._warned: set[str] = set()
        """The orgs of which the log says that there is no mail server."""

    async def send(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        if (skipped := _skipped_by_preference(effect)) is not None:
            return skipped
        message = _message(effect, self._public_url)
        if effect.type in self._settings.log:
            return _write_to_log(message)
        if (adapter := self._adapters.get(effect.type)) is not None:
            timeout = timedelta(milliseconds=self._settings.total_timeout_ms)
            outcome = await called(adapter, message, timeout=timeout)
            return Succeeded(_evidence(outcome.result)) if isinstance(outcome, Succeeded) else outcome
        if effect.type == "email" and self._mail.is_there:
            return await self._mail.send(effect, now)
        if effect.type == "email" and effect.is_ours:
            return self._skip(effect)
        return _no_way(effect.type)

    def _skip(self, effect: ClaimedEffect) -> Succeeded:
        """Return that a mail was skipped: the question is in the person's inbox, and nothing is lost."""
        if effect.org_id not in self._warned:
            self._warned.add(effect.org_id)
            fields = {"org_id": effect.org_id, "code": NO_MAIL_SERVER, "remedy": _MAIL_REMEDY}
            _log.warning("mails to people are skipped: there is no mail server", extra=fields)
        message = f"there is no mail server: {_MAIL_REMEDY}"
        return Succeeded({"outcome": "skipped", "code": NO_MAIL_SERVER, "message": message})


def _skipped_by_preference(effect: ClaimedEffect) -> Succeeded | None:
    """Return that a mail was skipped because its person has questions in a digest, or no mails; None to send it.

    An escalation goes at once, and other channels have no digest.
    """
    mails = (effect.mail or {}).get("mails")
    if effect.type != "email" or mails not in ("daily", "none"):
        return None
    if effect.payload["mail"]["kind"] not in ("asked", "reminded", "questioned"):
        return None
    code, where = (
        ("IN_DIGEST", "in their digest") if mails == "daily" else ("NO_MAILS_WANTED", "in their inbox only")
    )
    message = f"{effect.payload.get('user')} gets questions {where}"
    return Succeeded({"outcome": "skipped", "code": code, "message": message})


def _message(effect: ClaimedEffect, public_url: str) -> Message:
    to, user = (str(effect.payload.get(name) or "") for name in ("to", "user"))
    words = effect.words(public_url)
    return Message(effect.org_id, effect.type, to or user, words.subject, words.text, effect.key)


def _write_to_log(message: Message) -> Succeeded:
    fields = {"org_id": message.org_id, "channel": message.channel, "to": message.to}
    _log.info("message not sent", extra={**fields, "subject": message.subject, "text": message.text})
    return Succeeded({"logged": True})


def _no_way(channel: str) -> Failed:
    ways = f"register one with app.adapter({channel!r}, send)"
    if channel == "email":
        ways += f", or {_MAIL_REMEDY}"
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


class Deliverer:
    """Sends effects: over HTTP, by mail, by the application's adapters and functions."""

    def __init__(  # noqa: PLR0913
        self,
        outlets: Outlets,
        settings: EffectSettings,
        smtp: SmtpSettings,
        callbacks: Callbacks | None = None,
        *,
        public_url: str = "",
        links: DecisionLinks | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._outlets = outlets
        self._settings = settings
        self._callbacks = callbacks
        self._resolve = resolve
        mail = MailServer(smtp, settings.total_timeout_ms, public_url, links)
        self._channels = Channels(settings, mail, outlets.adapters, public_url)
        self._senders: dict[str, HttpSender] = {}

    async def close(self) -> None:
        """Leave every connection; the next attempt makes new ones."""
        senders = list(self._senders.values())
        self._senders.clear()
        for sender in senders:
            await sender.close()

    async def deliver(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        redaction = Redaction(effect.named_secrets.values())
        try:
            return redaction.outcome(await self._deliver(effect, now))
        except Exception as error:
            fields = {"org_id": effect.org_id, "effect_id": str(effect.id), "effect_type": effect.type}
            _log.exception("effect failed", extra=fields)
            return redaction.outcome(Failed("FAILED", f"{type(error).__name__}: {error}"))

    async def _deliver(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        if effect.type == "webhook":
            request = webhook_request(effect, now, self._callbacks)
            return await self._over_http(effect, request, now, self._sender(WEBHOOKS))
        if effect.type != "integration":
            return await self._channels.send(effect, now)
        if "service" in effect.payload:
            return await self._call_service(effect, now)
        return await self._call_operation(effect)

    async def _over_http(
        self, effect: ClaimedEffect, request: HttpRequest | Failed, now: datetime, sender: HttpSender
    ) -> JobOutcome:
        if isinstance(request, Failed):
            return request
        kept = self._settings.evidence_bytes_max
        bytes_max = self._settings.answer_bytes_max if effect.awaits_answer else kept
        answer = await sender.send(request, bytes_max=bytes_max, once=not effect.repeatable)
        if isinstance(answer, Failed):
            return answer
        answer = Redaction(effect.named_secrets.values()).answer(answer)
        return outcome_of(answer, now, evidence_bytes_max=kept, awaited=effect.awaits_answer)

    def _sender(self, name: str, service: Service | None = None) -> HttpSender:
        if name not in self._senders:
            # The application itself names the host of a service; where that redirects to is judged as always.
            allowed = (
                self._settings.allow if service is None else self._settings.allow.with_host(service.host)
            )
            self._senders[name] = HttpSender(self._settings, allowed=allowed, resolve=self._resolve)
        return self._senders[name]

    async def _call_service(self, effect: ClaimedEffect, now: datetime) -> JobOutcome:
        service = self._outlets.services.get(effect.payload["service"])
        if service is None:
            message = f"no service `{effect.payload['service']}` is registered"
            return Failed("UNKNOWN_SERVICE", message, permanent=True)
        request = service_request(effect, service, await _headers(service))
        return await self._over_http(effect, request, now, self._sender(service.name, service))

    async def _call_operation(self, effect: ClaimedEffect) -> JobOutcome:
        name = effect.payload["operation"]
        operation = self._outlets.operations.get(name)
        if operation is None:
            return Failed("UNKNOWN_OPERATION", f"no operation `{name}` is registered", permanent=True)
        timeout = timedelta(milliseconds=self._settings.total_timeout_ms)
        return await called(operation, effect.payload["arguments"], effect.key, timeout=timeout)


async def _headers(service: Service) -> Mapping[str, str]:
    if isinstance(service.headers, Mapping):
        return service.headers
    found = service.headers()
    return await found if inspect.isawaitable(found) else found


def service_request(effect: ClaimedEffect, service: Service, credentials: Mapping[str, str]) -> HttpRequest:
    payload = effect.payload
    url = httpx.URL(service.base_url + payload["path"])
    if payload["query"]:
        url = url.copy_merge_params([(name, value) for name, value in payload["query"]])
    body = orjson.dumps(payload["body"]) if "body" in payload else None
    ours = standard_headers(effect) | {"accept": "application/json"}
    ours |= {"content-type": "application/json"} if body is not None else {}
    ours |= {name.lower(): value for name, value in credentials.items()}
    return HttpRequest(payload["method"], url, own_headers(payload["headers"], ours, ("host",)), body)
