"""An effect that a worker has claimed, with everything that is needed to send it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from assent.jobs.job import ClaimedJob
from assent.model.job import EffectType
from assent.model.outside_request import REQUEST_KEY


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A secret that headers name, with where it may be sent."""

    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedEffect(ClaimedJob):
    instance_id: UUID
    step_id: UUID
    type: EffectType
    payload: Mapping[str, Any]
    key: str
    """WF-11: what the receiver sees as `Idempotency-Key`, the same at every attempt."""
    awaited: bool
    trace_id: str | None = None
    member_email: str | None = None
    """Where `to` names a member: their address."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the org's webhooks are signed with, the newest first."""
    named_secrets: Mapping[str, NamedSecret] = field(default_factory=dict, repr=False)
    """The secrets that its headers name, as far as they exist."""

    @property
    def destination(self) -> str:
        return self.lane

    @property
    def request_id(self) -> UUID | None:
        """The request that it takes to an outside party, whose results are awaited instead of an answer."""
        found = self.payload.get(REQUEST_KEY) if self.type == "webhook" else None
        return UUID(found) if found else None

    @property
    def awaits_answer(self) -> bool:
        """Whether the receiver's answer is the step's result."""
        return self.awaited and self.request_id is None
