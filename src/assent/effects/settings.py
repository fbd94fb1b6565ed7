"""How effects are sent: timeouts, limits, what is allowed, the mail server, callbacks; all by environment variable.

A process that only reads these settings loads no HTTP client.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from assent.effects.addresses import Allowed
from assent.model.job import Channel
from assent.model.parse import shown
from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number, read_secret, split_list

if TYPE_CHECKING:
    from assent.effects.deliver import Deliverer
    from assent.effects.outlets import Outlets

CHANNELS: Final[tuple[str, ...]] = get_args(Channel)

KEY_BYTES_MIN: Final = 32
"""A shorter key of HS256 can be guessed from one token."""

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
    """The mail server; without a host and a sender there is none."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_SMTP_")

    host: str = ""
    port: int = number(587, 1, 65_535)
    tls: Literal["none", "starttls", "tls"] = "starttls"
    """`starttls` (port 587), `tls` from the first byte (port 465), or `none`."""
    user: str = ""
    password: Annotated[str, AfterValidator(read_secret)] = Field(default="", repr=False)
    sender: str = ""
    """The address that mails come from: `ASSENT_SMTP_SENDER`."""

    @property
    def is_complete(self) -> bool:
        return bool(self.host and self.sender)


def _check_url(url: str) -> str:
    if not url:
        return url
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError(f"expected a URL such as https://assent.example.com, found {shown(url)}")
    return url.rstrip("/")


class PublicSettings(EnvironmentSettings):
    """The field `url` is the variable `ASSENT_PUBLIC_URL`; without it messages to people carry no link."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_PUBLIC_")

    url: Annotated[str, AfterValidator(_check_url)] = ""
    """Where people reach the pages of this installation, such as `https://assent.example.com`."""


class CallbackSettings(EnvironmentSettings):
    """The field `url` is the variable `ASSENT_CALLBACKS_URL`; without both of them there are no callbacks."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_CALLBACKS_")

    url: Annotated[str, AfterValidator(_check_url)] = ""
    """Where the HTTP API can be reached from outside, such as `https://assent.example.com`."""
    key: Annotated[str, AfterValidator(read_secret)] = Field(default="", repr=False)
    """The key that signs callbacks; `@` and a file's name reads it from there."""
    days: int = number(90, 1, 3_650)
    """How many days a callback is valid after it was sent out."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Raise `Invalid` without showing the key."""
        problems = []
        if bool(self.url) != bool(self.key):
            missing = "key" if self.url else "url"
            problems.append(self.bad(missing, "expected a URL and a key together, found one alone"))
        if self.key and len(self.key.encode()) < KEY_BYTES_MIN:
            problems.append(
                self.bad("key", f"expected at least {KEY_BYTES_MIN} bytes for HS256, found fewer")
            )
        if problems:
            raise Invalid(problems)
        return self


class DecisionLinkSettings(CallbackSettings):
    """The field `url` is the variable `ASSENT_LINKS_URL`; without both of them no mail has a link that decides."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_LINKS_")

    days: int = number(7, 1, 90)
    """How many days a link holds after its mail was sent."""


@dataclass(frozen=True, slots=True)
class SendingSettings:
    """Settings of sending; those that are not passed come from the environment."""

    effects: EffectSettings = field(default_factory=EffectSettings)
    smtp: SmtpSettings = field(default_factory=SmtpSettings)
    callbacks: CallbackSettings = field(default_factory=CallbackSettings)
    public: PublicSettings = field(default_factory=PublicSettings)
    links: DecisionLinkSettings = field(default_factory=DecisionLinkSettings)

    @classmethod
    def defaults(cls, effects: EffectSettings | None = None) -> Self:
        """Return these settings, and defaults for the others, whatever the environment holds."""
        effects = effects or EffectSettings.defaults()
        smtp, callbacks = SmtpSettings.defaults(), CallbackSettings.defaults()
        return cls(effects, smtp, callbacks, PublicSettings.defaults(), DecisionLinkSettings.defaults())

    def deliverer(self, outlets: "Outlets") -> "Deliverer":
        # Imported here: a process that sends nothing needs no HTTP.
        from assent.effects.callbacks import callbacks_of  # noqa: PLC0415
        from assent.effects.decision_links import decision_links_of  # noqa: PLC0415
        from assent.effects.deliver import Deliverer  # noqa: PLC0415

        callbacks, links = callbacks_of(self.callbacks), decision_links_of(self.links)
        return Deliverer(outlets, self.effects, self.smtp, callbacks, public_url=self.public.url, links=links)
