"""Which streams workers read, for which org, and where the brokers are: all by environment variable."""

import re
from typing import Final, get_args

from pydantic import field_validator
from pydantic_settings import SettingsConfigDict

from assent.model.problems import Invalid
from assent.requests.messages import StreamSource, TransportKind
from assent.store.environment import EnvironmentSettings, number, read_secret, split_list

_SOURCE: Final = re.compile(r"(redis|kafka|nats):([^,=\s/]{1,200})=([^,=\s/]{1,100})(?:/([^,=\s]{1,200}))?")
_EXAMPLE: Final = "kafka:workflow.task-results=acme, or kafka:workflow.task-results=acme/kyc."

BROKER_FIELDS: Final[dict[TransportKind, str]] = {
    "redis": "redis_url",
    "kafka": "kafka_servers",
    "nats": "nats_url",
}


class StreamSettings(EnvironmentSettings):
    """Settings of streams; the field `read` is the variable `ASSENT_STREAMS_READ`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_STREAMS_")

    read: str = ""
    """The streams, with commas between: `<broker>:<stream>=<org>`, and `/<beginning>` of the names of its requests."""
    group: str = "assent"
    """The consumer group, or durable consumer, that all workers share."""
    batch_max: int = number(200, 1, 10_000)
    """Messages that are kept in one transaction."""
    wait_ms: int = number(1_000, 10, 10_000)
    """How long a worker waits at the broker for the first message."""
    claim_after_ms: int = number(60_000, 100, 86_400_000)
    """When others get what a worker has read and not acknowledged; of Kafka, its session.timeout.ms says that."""
    look_interval_ms: int = number(15_000, 100, 3_600_000)
    """How often a worker asks how much is still to be read."""

    redis_url: str = ""
    """`redis://…`, or `rediss://…` with TLS; `@` and a path reads a file."""
    kafka_servers: str = ""
    """`host:port`, with commas between."""
    kafka_properties: str = ""
    """Properties of librdkafka, `name=value` with semicolons or lines between; `@` and a path reads a file."""
    nats_url: str = ""
    """`nats://…` or `tls://…`, with commas between; `@` and a path reads a file."""
    nats_credentials: str = ""
    """The path of a credentials file."""

    @field_validator("redis_url", "kafka_properties", "nats_url")
    @classmethod
    def _read_file(cls, text: str) -> str:
        return read_secret(text)

    @field_validator("read")
    @classmethod
    def _check_sources(cls, text: str) -> str:
        found = [_source(part) for part in split_list(text)]
        names = [str(source) for source in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"expected each stream once, for one org; found {', '.join(twice)} several times"
            )
        return text

    @field_validator("kafka_properties")
    @classmethod
    def _check_properties(cls, text: str) -> str:
        _properties(text)
        return text

    @property
    def sources(self) -> list[StreamSource]:
        """The streams in their order."""
        return [_source(part) for part in split_list(self.read)]

    @property
    def kafka_config(self) -> dict[str, str]:
        """The properties of librdkafka that an operator sets."""
        return _properties(self.kafka_properties)

    def require_brokers(self) -> None:
        """Raise `Invalid` where a stream is of a broker that no variable names."""
        kinds = {source.transport for source in self.sources}
        fields = [BROKER_FIELDS[kind] for kind in get_args(TransportKind) if kind in kinds]
        if problems := [
            self.bad(field, "expected where the broker is, for a stream of ASSENT_STREAMS_READ")
            for field in fields
            if not getattr(self, field)
        ]:
            raise Invalid(problems)


def _source(text: str) -> StreamSource:
    found = _SOURCE.fullmatch(text)
    if found is None:
        raise ValueError(f"expected {_EXAMPLE}; found {text!r}")
    kind, stream, org_id, names = found.groups()
    return StreamSource(kind, stream, org_id, names or "")  # type: ignore[arg-type]


def _properties(text: str) -> dict[str, str]:
    """Return properties by their names; no error shows a value, which may be a password."""
    found: dict[str, str] = {}
    for line in re.split(r"[;\n]", text):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise ValueError("expected name=value, with semicolons or lines between")
        if name.strip() in RESERVED:
            raise ValueError(f"expected other properties than {name.strip()}, which Assent sets itself")
        found[name.strip()] = value.strip()
    return found


RESERVED: Final = frozenset(
    {"bootstrap.servers", "group.id", "enable.auto.commit", "enable.auto.offset.store"}
)
"""An offset is committed when what came before it is, and never otherwise."""
