"""A form that a person is asked to fill in: the seats, the claim and the draft."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from assent.model.approval import Seat, SeatedRequest, changed_seats
from assent.model.problems import Problem

ASSIGNEES: Final = "assignees"
"""The name of the one group of people who are asked."""

DRAFT_BYTES_MAX: Final = 65_536
"""The size limit of a draft, as canonical JSON."""


@dataclass(frozen=True, slots=True)
class FormDraft:
    """What a person has written so far, kept for that person only: the answer is what is sent."""

    data: Mapping[str, Any]
    by: str
    at: datetime
    problems: tuple[Problem, ...] = ()
    """The problems that sending it would have."""


@dataclass(frozen=True)
class FormRequest(SeatedRequest):
    """A form that rests at a step. It ends with the step, and its row is closed with it; its id is that of the step."""

    label: str | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the fields; written once, and not read again."""
    answers: tuple[str, ...] = ()
    """The events with which it can be sent."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """The assignee that its author named; without one, the person who started the workflow."""
    draft: FormDraft | None = None
    """A draft to be kept now; an older one stays in its row, unread."""


@dataclass(frozen=True, slots=True)
class FormChanges:
    """The difference between a form and its rows."""

    form: FormRequest
    is_new: bool
    is_claimed: bool
    """Whether the claim differs from the row."""
    seats: tuple[Seat, ...]
    has_draft: bool

    @classmethod
    def between(cls, stored: FormRequest | None, form: FormRequest) -> "FormChanges":
        if stored is None:
            return cls(form, True, False, form.seats, form.draft is not None)
        is_claimed = (form.claimed_by, form.claimed_at) != (stored.claimed_by, stored.claimed_at)
        has_draft = form.draft is not None and form.draft is not stored.draft
        return cls(form, False, is_claimed, changed_seats(stored, form), has_draft)
