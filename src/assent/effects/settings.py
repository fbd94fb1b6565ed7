"""How effects are sent: timeouts, limits, what is allowed, and the mail server; all by environment variable."""

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import SettingsConfigDict

from assent.effects.addresses import Allowed
from assent.model.job import Channel
from assent.model.parse import shown
from assent.store.environment import EnvironmentSettings, number, read_secret, split_list

CHANNELS: Final[tuple[str, ...]] = get_args(Channel)

_HOUR_MS: Final = 3_600_000
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


def _read_allowed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    allowed = Allowed.read(split_list(value))
    if bad := sorted(host for host in allowed.hosts if not _HOST.fullmatch(host)):
        raise ValueError(f"expected networks, addresses and names of hosts, found {shown(bad[0])}")
    return allowed


def _read_channels(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    words = split_list(value)
    if unknown := [word for word in words if word not in (*CHANNELS, "all")]:
        raise ValueError(f"expected {', '.join(CHANNELS)} or all, found {shown(unknown[0])}")
    return frozenset(CHANNELS if "all" in words else words)


class EffectSettings(EnvironmentSettings):
    """Settings of sending; the field `connect_timeout_ms` is the variable `ASSENT_EFFECTS_CONNECT_TIMEOUT_MS`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_EFFECTS_")

    allow: Annotated[Allowed, BeforeValidator(_read_allowed)] = Field(default_factory=Allowed)
    """Networks and hosts that are not public and may be reached all the same, with commas between them."""
    log: Annotated[frozenset[str], BeforeValidator(_read_channels)] = frozenset()
    """Channels whose messages are written to the log instead of being sent, or `all`; for development."""
    connect_timeout_ms: int = number(5_000, 10, _HOUR_MS)
    read_timeout_ms: int = number(15_000, 10, _HOUR_MS)
    """How long a receiver may be silent."""
    total_timeout_ms: int = number(20_000, 10, _HOUR_MS)
    """How long an attempt may take in all, redirects included; shorter than the worker's grace period, so that it can
    finish what is under way when it has to stop, and much shorter than a worker's lease."""
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


class SmtpSettings(EnvironmentSettings):
    """The mail server; without a host there is none."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_SMTP_")

    host: str = ""
    port: int = number(587, 1, 65_535)
    tls: Literal["none", "starttls", "tls"] = "starttls"
    """`starttls` (port 587), `tls` from the first byte (port 465), or `none`."""
    user: str = ""
    password: Annotated[str, AfterValidator(read_secret)] = Field(default="", repr=False)
    sender: str = ""
    """The address that mails come from: `ASSENT_SMTP_SENDER`."""
