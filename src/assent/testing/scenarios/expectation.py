"""What can stand under `expect:` in a scenario: how a document must stand, in the words of its author."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import StringConstraints

from assent.model.parse import Declaration

Person = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Sent(Declaration):
    """Something that was put into the outbox: `{email: kim@acme.example, text: Overdue}`."""

    webhook: str | None = None
    email: str | None = None
    sms: str | None = None
    in_app: str | None = None
    chat: str | None = None
    integration: str | None = None
    subject: str | None = None
    text: str | None = None
    """What the subject or the text holds somewhere."""
    body: Mapping[str, Any] | None = None
    """What the body holds, at least."""

    @property
    def channel(self) -> str | None:
        return next((channel for channel in CHANNELS if getattr(self, channel) is not None), None)

    @property
    def to(self) -> str | None:
        return getattr(self, self.channel) if self.channel else None


CHANNELS: Final = ("webhook", "email", "sms", "in_app", "chat", "integration")


class Expected(Declaration):
    """How a document must stand; what is not named may be anything."""

    state: str | None = None
    edit: Literal["editable", "amend_only", "locked"] | None = None
    version: int | None = None
    data: Mapping[str, Any] | None = None
    """The entity's fields: those that are named must be so."""
    status: Literal["running", "paused", "completed", "failed", "cancelled"] | None = None
    waiting: tuple[str, ...] | None = None
    """The steps that wait for a person or an event: these, and no others."""
    asked: Mapping[str, tuple[Person, ...]] | None = None
    """Step → the people who can answer it now."""
    void: tuple[str, ...] | None = None
    """Steps whose approval an edit has made void; an empty list: none."""
    sent: tuple[Sent, ...] | None = None
    """What was put into the outbox, among other things; an empty list: nothing."""
    not_sent: tuple[Sent, ...] | None = None
    """What was not."""
    incident: Code | Literal["none"] | None = None
    """Why it stopped; `none`: it did not."""
    workflow: Mapping[str, Any] | None = None
    """Variables of the workflow: those that are named must be so."""
