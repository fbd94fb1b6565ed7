"""How effects are sent: timeouts, limits, what is allowed, and the mail server; all by environment variable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self, get_args

from assent.effects.addresses import Allowed
from assent.model.effect import Channel
from assent.model.parse import shown
from assent.model.problems import Problem
from assent.store.environment import bad_setting, number, read_environment

PREFIX: Final = "ASSENT_EFFECTS_"
SMTP_PREFIX: Final = "ASSENT_SMTP_"

CHANNELS: Final[tuple[str, ...]] = get_args(Channel)
TLS_MODES: Final = ("none", "starttls", "tls")

_HOUR_MS: Final = 3_600_000
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSettings:
    """Settings of sending; the field `connect_timeout_ms` is the variable `ASSENT_EFFECTS_CONNECT_TIMEOUT_MS`."""

    allow: Allowed = field(default_factory=Allowed)
    """Networks and hosts that are not public and may be reached all the same, with commas between them."""
    log: frozenset[str] = frozenset()
    """Channels whose messages are written to the log instead of being sent, or `all`; for development."""
    connect_timeout_ms: int = number(5_000, 10, _HOUR_MS)
    read_timeout_ms: int = number(15_000, 10, _HOUR_MS)
    """How long a receiver may be silent."""
    total_timeout_ms: int = number(20_000, 10, _HOUR_MS)
    """How long an attempt may take in all, redirects included; shorter than the worker's grace period, so that it can
    finish what is under way when it is told to stop, and much shorter than a worker's lease."""
    redirects_max: int = number(5, 0, 20)
    evidence_bytes_max: int = number(4_096, 0, 1_048_576)
    """How much of an answer's body is kept as evidence."""
    answer_bytes_max: int = number(1_048_576, 1_024, 67_108_864)
    """The largest answer that an awaited call may give."""
    backoff_min_ms: int = number(5_000, 1, _HOUR_MS)
    backoff_max_ms: int = number(_HOUR_MS, 1, 24 * _HOUR_MS)
    """How long to wait after a failed attempt: three times longer each time, from the one to the other."""
    retry_after_max_ms: int = number(6 * _HOUR_MS, 0, 168 * _HOUR_MS)
    """The longest that a receiver's `Retry-After` is obeyed."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """The settings that the environment holds; `Invalid` lists every variable that is wrong."""
        return read_environment(cls, PREFIX, {"allow": _read_allowed, "log": _read_channels}, environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """The mail server; without a host there is none."""

    host: str = ""
    port: int = number(587, 1, 65_535)
    tls: str = "starttls"
    """`starttls` (port 587), `tls` from the first byte (port 465), or `none`."""
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
    """The address that mails come from: `ASSENT_SMTP_SENDER`."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        texts = dict.fromkeys(("host", "user", "password", "sender"), _read_text)
        return read_environment(cls, SMTP_PREFIX, {**texts, "tls": _read_tls}, environment)


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _read_allowed(name: str, text: str) -> Allowed | Problem:
    allowed = Allowed.read(_words(text))
    if bad := sorted(host for host in allowed.hosts if not _HOST.fullmatch(host)):
        return bad_setting(name, f"expected networks, addresses and names of hosts, found {shown(bad[0])}")
    return allowed


def _read_channels(name: str, text: str) -> frozenset[str] | Problem:
    words = _words(text)
    if unknown := [word for word in words if word not in (*CHANNELS, "all")]:
        return bad_setting(name, f"expected {', '.join(CHANNELS)} or all, found {shown(unknown[0])}")
    return frozenset(CHANNELS if "all" in words else words)


def _read_tls(name: str, text: str) -> str | Problem:
    return (
        text
        if text in TLS_MODES
        else bad_setting(name, f"expected none, starttls or tls, found {shown(text)}")
    )


def _read_text(_: str, text: str) -> str:
    return text
