"""Secrets that definitions name: kept, listed without their values, and sent to the hosts that they are for.

They are written in transactions of the owner: the application's role has no right to them. The effects worker alone
reads values, with its claim, and puts them into headers when it sends. Whatever comes back has them taken out again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import asyncpg
import orjson

from assent.effects.claimed_effect import NamedSecret
from assent.effects.requests import HttpResponse
from assent.jobs.job import Failed, JobOutcome, Succeeded
from assent.language.templates import NAME_PATTERN
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries

if TYPE_CHECKING:
    import httpx  # not loaded: the runtime writes secrets, and never sends them (WF-10)

_SQL: Final = load_queries("assent.effects", "effects.sql")

MANAGE_SECRETS: Final = "secrets:manage"
"""The capability to write and delete secrets, and to list their names."""

VALUE_CHARACTERS_MIN: Final = 8
VALUE_CHARACTERS_MAX: Final = 8_192
HOSTS_MAX: Final = 20
ECHO_CHARACTERS_MIN: Final = 4
"""A shorter beginning of a secret at the end of an answer that was cut says nothing."""

_VALUE: Final = re.compile(r"[!-~][ -~]*[!-~]")
_HOST: Final = re.compile(
    r"(?P<scheme>https?://)?(?P<any>\*\.)?(?P<name>[a-z0-9_]([a-z0-9_.-]{0,250}[a-z0-9_])?)(:(?P<port>[0-9]{1,5}))?"
)
_UNSPEAKABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class SecretHost:
    """Where a secret may be sent: `erp.example`, `erp.example:8443`, `*.erp.example`; `http://…` where it must be."""

    scheme: str
    name: str
    port: int
    below: bool
    """Whether it is meant for the names below this one, and not for itself."""

    @classmethod
    def read(cls, text: str) -> Self | None:
        found = _HOST.fullmatch(text.lower())
        if found is None or (found["any"] and "." not in found["name"]):
            return None
        scheme = (found["scheme"] or "https://").removesuffix("://")
        port = int(found["port"] or (443 if scheme == "https" else 80))
        return cls(scheme, found["name"], port, bool(found["any"])) if 0 < port < 65_536 else None

    def fits(self, url: "httpx.URL") -> bool:
        host = url.raw_host.decode("ascii").lower().removesuffix(".")
        port = url.port or (443 if url.scheme == "https" else 80)
        same = host.endswith(f".{self.name}") if self.below else host == self.name
        return same and (url.scheme, port) == (self.scheme, self.port)


def is_for(secret: NamedSecret, url: "httpx.URL") -> bool:
    hosts = (SecretHost.read(text) for text in secret.hosts)
    return any(host is not None and host.fits(url) for host in hosts)


@dataclass(frozen=True, slots=True)
class SecretRecord:
    """A secret as people see it: without its value."""

    name: str
    hosts: tuple[str, ...]
    created_by: str
    created_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        return cls(**dict(row) | {"hosts": tuple(row["hosts"])})


async def put_secret(  # noqa: PLR0913, PLR0917
    connection: Connection,
    org_id: str,
    name: str,
    value: str,
    hosts: Sequence[str],
    by: str,
    now: datetime,
) -> SecretRecord:
    """Keep a secret, in place of the one of this name; raise `Refused` if its name, value or hosts are not valid.

    A caller who changes the hosts must send the value again: else its manager could have it sent to a host where they
    read it.
    """
    if refused := _problem_with(name, value, hosts):
        raise Refused(refused)
    kept = sorted({host.lower() for host in hosts})
    row = await connection.fetchrow(_SQL.put_secret, org_id, name, value, kept, by, now)
    assert row is not None
    return SecretRecord.of(row)


async def list_secrets(
    connection: Connection, org_id: str, after: str | None = None, limit: int | None = None
) -> list[SecretRecord]:
    """Return the secrets of an org by name, without their values."""
    rows = await connection.fetch(_SQL.list_secrets, org_id, after, limit)
    return [SecretRecord.of(row) for row in rows]


async def delete_secret(connection: Connection, org_id: str, name: str) -> SecretRecord:
    """Forget a secret; raises `Refused` where there is none. What would send it fails from now on."""
    row = await connection.fetchrow(_SQL.delete_secret, org_id, name)
    if row is None:
        raise Refused(Rejection("NOT_FOUND", f"no secret {name}", ("name",)))
    return SecretRecord.of(row)


def _problem_with(name: str, value: str, hosts: Sequence[str]) -> Rejection | None:
    """Return what is wrong with a secret; the value itself is never shown."""
    if not re.fullmatch(NAME_PATTERN, name):
        return Rejection(
            "BAD_NAME", "expected a name of small letters, digits and _, such as `erp`", ("name",)
        )
    long = VALUE_CHARACTERS_MIN <= len(value) <= VALUE_CHARACTERS_MAX
    if not long or not _VALUE.fullmatch(value):
        message = (
            f"expected {VALUE_CHARACTERS_MIN} to {VALUE_CHARACTERS_MAX:,} printable ASCII characters on one line, "
            f"found something else of {len(value):,}"
        )
        return Rejection("BAD_VALUE", message, ("value",))
    if not 1 <= len(hosts) <= HOSTS_MAX:
        return Rejection("BAD_VALUE", f"expected 1 to {HOSTS_MAX} hosts, found {len(hosts)}", ("hosts",))
    for index, host in enumerate(hosts):
        if SecretHost.read(host) is None:
            message = (
                f"expected a host such as erp.example, erp.example:8443 or *.erp.example, found {host!r}"
            )
            return Rejection("BAD_VALUE", message, ("hosts", index))
    return None


def fill_headers(
    wanted: Mapping[str, Sequence[Any]], secrets: Mapping[str, NamedSecret], url: "httpx.URL"
) -> dict[str, str] | Failed:
    """Headers with their secrets; refused where one is missing, or not for the receiver."""
    filled: dict[str, str] = {}
    for header, parts in wanted.items():
        texts = []
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            secret = secrets.get(part["secret"])
            if secret is None:
                return Failed("SECRET_MISSING", f"there is no secret `{part['secret']}`", permanent=True)
            if not is_for(secret, url):
                message = f"the secret `{secret.name}` is not for {url.scheme}://{url.netloc.decode()}"
                return Failed("SECRET_NOT_FOR_HOST", message, permanent=True)
            texts.append(secret.value)
        value = "".join(texts).strip()
        # Asked here, for the library's own complaint would show the whole of it.
        if _UNSPEAKABLE.search(value):
            message = f"the header `{header}` cannot be said over HTTP"
            return Failed("BAD_REQUEST", message, permanent=True)
        filled[header] = value
    return filled


class Redaction:
    """Takes secrets out of whatever came back: receivers may repeat what they were sent."""

    def __init__(self, secrets: Iterable[NamedSecret]) -> None:
        self._secrets = tuple(secrets)

    def answer(self, answer: HttpResponse) -> HttpResponse:
        """Before the body is cut for evidence: a part of a secret is not found any more."""
        body = answer.body
        for secret in self._secrets:
            for form in _forms(secret.value):
                body = body.replace(form.encode(), _mark(secret).encode())
                if answer.cut:
                    body = _without_beginning(body, form.encode())
        return replace(answer, body=body) if body is not answer.body else answer

    def outcome(self, outcome: JobOutcome) -> JobOutcome:
        if not self._secrets:
            return outcome
        if isinstance(outcome, Succeeded):
            return Succeeded(self._value(outcome.evidence), self._value(outcome.result))
        message, evidence = self._text(outcome.message), self._value(outcome.evidence)
        return replace(outcome, message=message, evidence=evidence)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(key): self._value(item) for key, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            for form in _forms(secret.value):
                text = text.replace(form, _mark(secret))
        return text


def _mark(secret: NamedSecret) -> str:
    return f"[secret {secret.name}]"


def _forms(value: str) -> list[str]:
    """Return a value as receivers repeat it: as it is, in JSON, in a URL."""
    return list(dict.fromkeys([value, orjson.dumps(value).decode()[1:-1], quote(value, safe="")]))


def _without_beginning(body: bytes, value: bytes) -> bytes:
    """Return a body that was cut within the secret, without the part of it that is there."""
    for length in range(min(len(value) - 1, len(body)), ECHO_CHARACTERS_MIN - 1, -1):
        if body.endswith(value[:length]):
            return body[:-length]
    return body
