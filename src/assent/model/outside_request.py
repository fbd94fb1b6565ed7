"""A request: work asked of an outside party by a step, which rests until results have decided it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

OutsideStatus = Literal["pending", "partial", "completed", "failed", "expired", "cancelled"]

OPEN: Final = frozenset({"pending", "partial"})

EXPECTED_MAX: Final = 500

REQUEST_KEY: Final = "request"
"""Where the payload of a webhook names the request whose results are awaited."""

ON_RESULT: Final = "on_result"
"""The results of a request have decided it, or its time is over."""


@dataclass(frozen=True, slots=True)
class OutsideRequest:
    """What a step asks, as it is written once."""

    org_id: str
    id: UUID
    instance_id: UUID
    step_id: UUID
    node_id: str
    token_id: str
    name: str
    """What is asked: the workflow and the node, such as `kyc.onboarding.screening`."""
    created_at: datetime
    arguments: Mapping[str, Any]
    """What goes out, as it was when it was asked."""
    expected: int = 1
    """How many items make it complete."""
    expires_at: datetime | None = None
    partition_id: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step that asked something has ended: whatever is still open of it ends too (D24)."""

    org_id: str
    step_id: UUID
    status: OutsideStatus
    reason: str | None
    ended_at: datetime
