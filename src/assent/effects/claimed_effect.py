"""An effect that a worker has claimed, with everything that is needed to send it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.model.effect import EffectType
from assent.model.jobs import JobKey
from assent.model.outside_request import REQUEST_KEY


@dataclass(frozen=True, slots=True)
class NamedSecret:
    """A secret that headers name, with where it may be sent."""

    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedEffect:
    org_id: str
    created_at: datetime
    id: UUID
    instance_id: UUID
    step_id: UUID
    step_created_at: datetime
    type: EffectType
    payload: Mapping[str, Any]
    key: str
    """WF-11: what the receiver gets to see as `Idempotency-Key`, the same at every attempt."""
    destination: str
    awaited: bool
    retry_ambiguous: bool
    attempts: int
    """This one included."""
    max_attempts: int
    trace_id: str | None = None
    losses: int = 0
    """Of a suspect: how many workers were lost while they had it."""
    member_email: str | None = None
    """Where `to` names a member: their address."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What the org's webhooks are signed with, the newest first."""
    named_secrets: Mapping[str, NamedSecret] = field(default_factory=dict, repr=False)
    """The secrets that its headers name, as far as they are there."""

    @property
    def job(self) -> JobKey:
        return self.org_id, self.id, self.attempts

    @property
    def request_id(self) -> UUID | None:
        """The request that it takes to an outside party, whose results are awaited instead of an answer."""
        found = self.payload.get(REQUEST_KEY) if self.type == "webhook" else None
        return UUID(found) if found else None

    @property
    def awaits_answer(self) -> bool:
        """Whether what the receiver answers is the step's result."""
        return self.awaited and self.request_id is None
