"""Settings of the store, by environment variable; the unit of each number is in its name."""

from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number, read_secret


def _check_url(url: str) -> str:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = ""
    if scheme not in ("postgresql", "postgres"):
        # The value is not shown: it may hold a password.
        raise ValueError("expected postgresql://user:password@host:port/database, found something else")
    return url


class Settings(EnvironmentSettings):
    """Settings of the store; the field `lock_timeout_ms` is the variable `ASSENT_LOCK_TIMEOUT_MS`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_")

    database_url: Annotated[str, AfterValidator(read_secret), AfterValidator(_check_url)] | None = Field(
        default=None, repr=False
    )
    """A PostgreSQL server from 15 on, or the file with its URL; without it we start our own."""
    direct_database_url: Annotated[str, AfterValidator(read_secret), AfterValidator(_check_url)] | None = (
        Field(default=None, repr=False)
    )
    """The same database without a pooler, where `database_url` goes through one in transaction mode: for notifications
    and migrations, which need a session of their own."""
    data_dir: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    """Where our own server keeps its data; without it, the user's data folder."""
    pool_connections_min: int = number(1, 1, 1_000)
    pool_connections_max: int = number(10, 1, 1_000)
    pool_wait_timeout_ms: int = number(30_000, 1, 600_000)
    pool_task_transactions_max: int = number(0, 0, 1_000)
    """How many tasks may have a transaction of their own at a time; zero means a third of the pool."""
    connect_timeout_ms: int = number(10_000, 1, 600_000)
    """How long it may take to connect and to prepare the connection."""
    connection_lifetime_max_ms: int = number(1_800_000, 0, 86_400_000)
    """How long a connection of the pool is used before it is replaced, up to a fifth less; zero means for ever."""
    idle_check_after_ms: int = number(10_000, 0, 86_400_000)
    """How long a connection may be idle and be used without a check whether the server still answers on it."""
    check_timeout_ms: int = number(2_000, 1, 600_000)
    """How long the server may take to answer a check."""
    listen_check_interval_ms: int = number(15_000, 10, 86_400_000)
    """How often the connection that listens for notifications is checked."""
    tcp_keepalive_ms: int = number(30_000, 1_000, 7_200_000)
    """How long a connection over TCP is quiet before the kernel probes it; three probes without an answer end it."""
    tcp_user_timeout_ms: int = number(30_000, 0, 7_200_000)
    """How long sent data may stay unacknowledged before the kernel ends the connection; zero: its own limit."""
    statement_timeout_ms: int = number(30_000, 0, 86_400_000)
    """Zero, here and below, means no limit."""
    statement_slack_ms: int = number(5_000, 1, 600_000)
    """How much longer than `statement_timeout_ms` a client waits for an answer before it drops the connection."""
    cancel_timeout_ms: int = number(2_000, 1, 600_000)
    """How long the server may take to confirm a cancelled statement, or a goodbye, before the connection is dropped."""
    lock_timeout_ms: int = number(10_000, 0, 86_400_000)
    migration_lock_timeout_ms: int = number(2_000, 1, 600_000)
    """How long a migration holds up others while it waits for a lock; then it lets them go first and tries again."""
    migration_wait_max_ms: int = number(600_000, 0, 86_400_000)
    """For how long a migration tries to get its locks; zero gives it one attempt."""
    idle_in_transaction_timeout_ms: int = number(60_000, 0, 86_400_000)
    prepared_statements_max: int = number(500, 0, 10_000)
    """Kept per connection; zero where a pooler sits between that does not keep them, as PgBouncer before 1.21."""
    plans_kept_ms: int = number(5_000, 0, 86_400_000)
    """How long commands go by the same plans; a plan that was made while a table was small is soon a bad one."""
    transaction_attempts_max: int = number(5, 1, 100)
    """How often a transaction that loses against others is run, the first time included."""
    outcome_lookup_timeout_ms: int = number(5_000, 1, 600_000)
    """How long the outcome of a COMMIT without an answer is looked up before it is reported as unknown."""
    payload_bytes_max: int = number(1_048_576, 1_024, 268_435_456)
    """The largest payload of a mutation, an event or an effect, as JSON text."""

    @model_validator(mode="before")
    @classmethod
    def _keep_nothing_in_a_pooler(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Through a pooler no statement is kept prepared, unless a number is given: not every pooler can."""
        return {"prepared_statements_max": 0} | given if given.get("direct_database_url") else given

    @model_validator(mode="after")
    def _check_pool(self) -> Self:
        if self.pool_connections_min > self.pool_connections_max:
            most = f"{self.variable('pool_connections_max')}={self.pool_connections_max}"
            message = f"expected at most {most}, found {self.pool_connections_min}"
            raise Invalid([self.bad("pool_connections_min", message)])
        return self

    def direct_url(self, url: str) -> str:
        """Return the URL for what needs a session of its own, of a database that is used by way of `url`."""
        return self.direct_database_url or url

    def is_pooled(self, url: str) -> bool:
        """Return whether connections to `url` go through a pooler in transaction mode."""
        return self.direct_database_url is not None and url != self.direct_database_url

    def prepares_by_name(self, url: str) -> bool:
        """Return whether PREPARE may be used on connections to `url`: a pooler knows nothing of what it prepares."""
        return self.prepared_statements_max > 0 and not self.is_pooled(url)

    @property
    def statement_deadline_s(self) -> float | None:
        """How long a client waits for the answer to a statement; None where the server has no limit either."""
        if not self.statement_timeout_ms:
            return None
        return (self.statement_timeout_ms + self.statement_slack_ms) / 1000

    @property
    def task_transactions_max(self) -> int:
        """How many tasks may have a transaction of their own at a time: the rest of the pool is for the duties."""
        return self.pool_task_transactions_max or max(1, self.pool_connections_max // 3)
