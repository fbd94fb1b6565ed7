"""A form that somebody is asked to fill in: who is asked, who has taken it on, and what they have written so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.model.approval import Seat, Seated
from assent.model.problems import Problem

ASSIGNEES: Final = "assignees"
"""The one group of those who are asked."""

DRAFT_BYTES_MAX: Final = 65_536
"""How much of an unfinished form is kept, as canonical JSON."""


@dataclass(frozen=True, slots=True)
class FormDraft:
    """What somebody has written so far. It helps them and nothing else: what is answered is what is sent."""

    data: Mapping[str, Any]
    by: str
    at: datetime
    problems: tuple[Problem, ...] = ()
    """What would be wrong with it if it were sent."""


@dataclass(slots=True)
class FormRequest(Seated):
    """A form that rests at a step. It ends with the step, and its row is closed with it."""

    org_id: str
    id: UUID
    """Of the step."""
    instance_id: UUID
    node_id: str
    node_name: str
    requested_by: str
    created_at: datetime
    label: str | None = None
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = 0
    partition_id: str | None = None
    title: str | None = None
    figure: Any = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of what is to be filled in; written once, and not read again."""
    answers: tuple[str, ...] = ()
    """The events with which it can be sent."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """Whom its author named; nobody means whoever started the workflow."""
    skipped: tuple[Mapping[str, str], ...] = ()
    due_at: datetime | None = None
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    seats: tuple[Seat, ...] = ()
    draft: FormDraft | None = None
    """One that is to be kept now; older ones stay in their row."""
    is_new: bool = False
    changed: bool = False
    """Whether the claim has to be written again."""
    touched_seats: dict[UUID, Seat] = field(default_factory=dict)

    def claim(self, user_id: str, now: datetime) -> None:
        self.claimed_by, self.claimed_at, self.changed = user_id, now, True
