"""Folding deliveries into a request: which items are new, how many it has now, and whether that decides it. Pure.

enough completed items                    → completed
the sender says that nothing more comes   → failed or expired
some completed items                      → partial
as many failed as were expected           → failed
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from assent.model.outside_request import OPEN, Bundle, BundleItem, OutsideStatus, ResultStatus


@dataclass(frozen=True, slots=True)
class Delivery:
    """A bundle that came for a request."""

    id: UUID
    bundle: Bundle


@dataclass(frozen=True, slots=True)
class NewItem:
    delivery_id: UUID
    item: BundleItem


@dataclass(slots=True)
class Folded:
    """A request with what has come so far."""

    expected: int
    status: OutsideStatus = "pending"
    received: int = 0
    failed: int = 0
    error: str | None = None
    items: list[NewItem] = field(default_factory=list)
    """What is new."""
    late: list[UUID] = field(default_factory=list)
    """Deliveries that came when it had ended: they count for nothing."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


def fold(request: Folded, deliveries: Sequence[Delivery], known: Iterable[str]) -> Folded:
    """Take deliveries in, one after the other; `known` is the cargo that the request has already."""
    taken = set(known)
    for delivery in deliveries:
        if request.is_open:
            _take_in(request, delivery, taken)
        else:
            request.late.append(delivery.id)
    return request


def _take_in(request: Folded, delivery: Delivery, taken: set[str]) -> None:
    bundle = delivery.bundle
    for item in bundle.items:
        if item.cargo is None or item.cargo not in taken:
            taken |= {item.cargo} if item.cargo is not None else set()
            _count(request, NewItem(delivery.id, item))
    request.error = bundle.error or request.error
    request.status = decided(request.expected, request.received, request.failed, bundle.status)


def _count(request: Folded, new: NewItem) -> None:
    """Only completed items are received; whatever failed or expired is counted apart."""
    request.items.append(new)
    if new.item.status == "completed":
        request.received += 1
    else:
        request.failed += 1
        request.error = new.item.error or request.error


def decided(expected: int, received: int, failed: int, said: ResultStatus) -> OutsideStatus:
    """Where a request stands with so many items, and with what its sender says of the whole."""
    if received >= expected:
        return "completed"
    if said != "completed":
        return said
    if received:
        return "partial"
    return "failed" if failed >= expected else "pending"
