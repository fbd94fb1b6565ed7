"""Where the cluster is, by environment variable. TLS is configured with Dask's own variables, on both sides alike."""

from importlib.util import find_spec
from typing import Self

from pydantic import model_validator
from pydantic_settings import SettingsConfigDict

from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number


class ClusterSettings(EnvironmentSettings):
    """Settings of the cluster; the field `address` is the variable `ASSENT_CLUSTER_ADDRESS`."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_CLUSTER_")

    address: str = ""
    """Of the scheduler: `tcp://…:8786`, or `tls://…`; without it, tasks of the cluster are left to other workers."""
    connect_timeout_ms: int = number(5_000, 10, 300_000)
    """How long connecting to the scheduler, and each look at its nodes, may take."""

    @model_validator(mode="after")
    def _require_client(self) -> Self:
        if self.address and find_spec("distributed") is None:
            raise Invalid([self.bad("address", "expected assent[cluster] to be installed, for a cluster")])
        return self
