"""Settings of the HTTP API, by environment variable: the field `jwt_issuer` is `ASSENT_HTTP_JWT_ISSUER`."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from assent.model.problems import Invalid, Problem
from assent.store.environment import EnvironmentSettings, number, read_secret, split_list

OnOff = Literal["on", "off"]
SECRET_BYTES_MIN: Final = 32
"""A shorter secret of HS256 can be guessed from one token."""


def _split(value: Any) -> Any:
    return split_list(value) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]


class HttpSettings(EnvironmentSettings):
    """Settings of the HTTP API. Without a key or a key set, tokens are refused; API keys always work."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_HTTP_")

    jwt_key: Annotated[str, AfterValidator(read_secret)] | None = Field(default=None, repr=False)
    """The secret of HS256, or the public key of RS256 or ES256 in PEM."""
    jwt_algorithm: Literal["HS256", "RS256", "ES256"] = "HS256"
    """The one algorithm that tokens under `jwt_key` may have."""
    jwks: str | None = None
    """Instead of a key: where a key set is, an https URL or a file."""
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_leeway_s: int = number(30, 0, 600)
    """By how much another machine's clock may differ from ours."""
    jwks_keep_s: int = number(600, 1, 86_400)
    jwks_retry_s: int = number(30, 1, 3_600)
    """The shortest time between two reads of the set because of an unknown key."""

    claim_org: str = "org_id"
    claim_user: str = "sub"
    claim_roles: str = "roles"
    claim_partition: str = "partition_id"
    roles_from: Literal["members", "token", "both"] = "members"
    """The source of a caller's roles: our `members`, the `token`, or `both` together."""

    keys_of_member_max: int = number(20, 1, 10_000)
    """How many valid API keys a member may have."""
    key_days_max_by_token: int = number(0, 0, 3_650)
    """The longest life of an API key that was made by token, in days; zero means no longer than the token."""

    session_idle_minutes: int = number(60, 5, 10_080)
    """How long a session of a browser lasts without being renewed; its pages renew it while they are open."""
    session_hours_max: int = number(12, 1, 8_760)
    """The longest life of a session."""

    request_bytes_max: int = number(2_097_152, 1_024, 268_435_456)
    """The size of a request with a document: entities, definitions, forms, tasks, events, results."""
    small_request_bytes_max: int = number(65_536, 1_024, 268_435_456)
    """The size of every other request."""
    request_elements_max: int = number(30_000, 100, 10_000_000)
    """The number of values in a body, all levels together; parsing blocks the event loop."""
    rate_workflows_per_minute: int = number(600, 0, 1_000_000)
    """Commands to workflows and approvals, by one member; zero, here and below, means no limit."""
    rate_entities_per_minute: int = number(1_200, 0, 1_000_000)
    rate_reads_per_minute: int = number(6_000, 0, 1_000_000)
    rate_checks_per_minute: int = number(60, 0, 1_000_000)
    """Checks of definitions, which compile their sources."""
    rate_uploads_per_minute: int = number(120, 0, 1_000_000)
    """Files that are handed in and links that are opened by one link, and by one address."""
    rate_failed_sign_ins_per_minute: int = number(60, 0, 1_000_000)
    """By one address, requests without credentials too; beyond it, credentials are not checked."""
    idempotency_keep_hours: int = number(24, 1, 8_760)
    stream_heartbeat_s: int = number(15, 1, 300)
    """The interval at which a stream sends a comment and checks the rights of its caller."""
    stream_s_max: int = number(900, 1, 86_400)
    """The longest life of a stream; clients reconnect and sign in again."""
    metrics: Literal["off", "operators", "everybody"] = "off"
    """The readers of `/metrics`, which counts all orgs: `off`, `operators` with `operations:metrics`, `everybody`."""
    docs: OnOff = "on"
    """Whether `/docs` exists: `on` or `off`. It shows no more than `/openapi.json`."""
    web: OnOff = "on"
    """Whether the pages for people exist, under `/`: `on` or `off`."""
    cors_origins: Texts = ()
    """The origins of pages that may call from a browser, separated by commas; none by default."""
    trusted_proxies: Texts = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is trusted, separated by commas."""
    allowed_hosts: Texts = ()
    """The names of the server in `Host`, separated by commas: names, `*.example.com`, or `*` for any.

    Without it: loopback names for a server on loopback, and any name elsewhere or behind a proxy.
    """
    head_timeout_s: int = number(10, 1, 3_600)
    """The time limit for the head of a request."""
    body_timeout_s: int = number(60, 1, 86_400)
    connections_max: int = number(2_000, 1, 1_000_000)
    """At one time, bounded by the file descriptors of the process. Idle connections are closed for new ones."""
    access_log: OnOff = "on"
    """Whether each request is a line in the log: `on` or `off`."""
    grace_period_s: int = number(25, 0, 3_600)
    """How long running requests may take after a signal to stop; orchestrators kill after 30 s."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if problems := list(_contradictions(self)):
            raise Invalid(problems)
        return self

    @property
    def takes_tokens(self) -> bool:
        return self.jwt_key is not None or self.jwks is not None


def _contradictions(settings: HttpSettings) -> Iterator[Problem]:
    if settings.jwks is not None and not is_safe_place(settings.jwks):
        message = "expected an https URL or a file, for keys that come by http are anybody's; found http"
        yield HttpSettings.bad("jwks", message)
    if settings.jwt_key is not None and settings.jwks is not None:
        yield HttpSettings.bad("jwks", "expected a key or a key set, found both")
    if settings.takes_tokens:
        for name in ("jwt_issuer", "jwt_audience"):
            if getattr(settings, name) is None:
                yield HttpSettings.bad(name, "expected who tokens are from and for, found nothing")
    if settings.jwt_key is not None:
        yield from _key_problems(settings.jwt_key, settings.jwt_algorithm)


def is_safe_place(place: str) -> bool:
    """Return whether a key set cannot be changed on its way: https, a file, or this machine."""
    url = urlsplit(place)
    if "://" not in place or url.scheme == "https":
        return True
    return url.scheme == "http" and url.hostname in ("localhost", "127.0.0.1", "::1")


def _key_problems(key: str, algorithm: str) -> Iterator[Problem]:
    """Yield the problems of a key; the key itself is never shown."""
    is_pem = key.lstrip().startswith("-----BEGIN")
    if algorithm == "HS256" and is_pem:
        # A public key is known to all: anyone could sign with it as a secret.
        yield HttpSettings.bad("jwt_key", "expected a secret for HS256, found a key in PEM")
    elif algorithm == "HS256" and len(key.encode()) < SECRET_BYTES_MIN:
        yield HttpSettings.bad(
            "jwt_key", f"expected at least {SECRET_BYTES_MIN} bytes for HS256, found fewer"
        )
    elif algorithm != "HS256" and not is_pem:
        yield HttpSettings.bad(
            "jwt_key", f"expected a public key in PEM for {algorithm}, found something else"
        )


RateClass = Literal["workflows", "entities", "reads", "checks", "uploads", "sign_ins"]
