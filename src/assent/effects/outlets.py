"""The ways out that an application registers: adapters for channels, services over HTTP, functions of its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from assent.effects.openapi import Service
from assent.model.job import OutsideWork


@dataclass(frozen=True, slots=True)
class Message:
    """A message that an adapter is to deliver."""

    org_id: str
    channel: str
    to: str
    """A member's id, an address or a number: as the author wrote it."""
    subject: str
    text: str
    key: str
    """The same at every attempt: pass it on where the provider takes an idempotency key."""


Adapter = Callable[[Message], Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None]
"""Sends a message, and returns evidence, if there is some. After an error it is tried again; see the errors here."""

OutsideOperation = Callable[..., Any]
"""A function for `system` steps that leaves the transaction: (arguments, key) → result, plain or async."""


class CannotBeSent(Exception):
    """Raised by adapters and operations: trying again cannot help."""


class NotAnswered(Exception):
    """Raised by adapters and operations: it was sent, and it is not known whether it arrived."""


class TryLater(Exception):
    """Raised by adapters and operations: not now, and not before a while."""

    def __init__(self, message: str, after: timedelta) -> None:
        super().__init__(message)
        self.after = after


@dataclass
class Outlets:
    adapters: dict[str, Adapter] = field(default_factory=dict)
    operations: dict[str, OutsideOperation] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)


def leaving(name: str) -> Callable[..., OutsideWork]:
    """Return an operation, as steps see it, that the effects worker is to run."""

    def say_so(_: object, arguments: Mapping[str, Any]) -> OutsideWork:
        return OutsideWork({"operation": name, "arguments": dict(arguments)})

    return say_so
