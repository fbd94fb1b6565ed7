"""Deliveries: the bundles that came for requests, folded together with the events for steps that wait.

However many bundles, items and requests there are, the number of statements is the same. `fold` is pure: which items
are new, how many the request has now, and whether that decides it.

enough completed items                    → completed
the sender says that nothing more comes   → failed or expired
some completed items                      → partial
as many failed as were expected           → failed
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.documents.documents import CompletedCargo, receive_results
from assent.jobs.job import (
    JOB_COLUMNS,
    AttemptResult,
    ClaimedJob,
    Failed,
    RetryPolicy,
    Succeeded,
    next_state,
)
from assent.jobs.queue import JobRow, hold_if_claimed, settle_if_claimed
from assent.model.ids import RequestKey, new_id
from assent.model.outside_request import OPEN, Bundle, BundleItem, OutsideStatus, ResultStatus, parse_bundle
from assent.model.problems import typed_error_text
from assent.requests.messages import StreamMessage, StreamSource, keep_again
from assent.requests.outside_requests import notify_steps
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.requests", "requests.sql")


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
    """Deliveries that came when it had ended: they do not count for it."""

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
    """Return where a request stands with so many items, and with what its sender says of the whole."""
    if received >= expected:
        return "completed"
    if said != "completed":
        return said
    if received:
        return "partial"
    return "failed" if failed >= expected else "pending"


RESULT_RETRIES: Final = RetryPolicy(timedelta(seconds=5), timedelta(hours=1), factor=4)
UNREADABLE: Final = "UNREADABLE"
FAILED: Final = "RESULT_FAILED"


@dataclass(frozen=True, slots=True)
class ClaimedDelivery(ClaimedJob):
    """A bundle that a worker has claimed, as it was sent."""

    request_id: UUID | None
    """None of a message of a stream, which no request was found for."""
    body: Any
    source: StreamSource | None = None
    message: StreamMessage | None = None
    """A dead message of a stream, which a person retries."""

    @property
    def place(self) -> RequestKey:
        assert self.request_id is not None
        return self.org_id, self.request_id


DeliveryResult = AttemptResult[ClaimedDelivery]
Readable = Sequence[tuple[ClaimedDelivery, Bundle]]


async def load_deliveries(connection: Connection, jobs: Sequence[JobRow]) -> list[ClaimedDelivery]:
    """Return claimed jobs with their bundles, in the order in which these came."""
    if not jobs:
        return []
    claimed = {job["id"]: job for job in jobs}
    rows = await connection.fetch(_SQL.read_deliveries, [job["org_id"] for job in jobs], list(claimed))
    return [_loaded(claimed[row["id"]], row) for row in rows]


def _loaded(job: JobRow, row: Row) -> ClaimedDelivery:
    delivery = ClaimedDelivery(*(*job[:JOB_COLUMNS], row["request_id"], row["body"]))
    if row["message"] is None:
        return delivery
    source = StreamSource(row["transport"], row["stream"], job["org_id"], row["names"])
    message = StreamMessage(row["message"], row["position"], row["size"])
    return replace(delivery, source=source, message=message)


@dataclass(frozen=True, slots=True)
class Fold:
    """A request as it was locked, and with what has come."""

    row: Row
    folded: Folded
    took_in: bool
    """Whether anything came in time."""

    @property
    def has_news(self) -> bool:
        """Whether its step is to be notified: it is decided, or partial with more than before."""
        before = self.row["received"], self.row["failed"]
        is_more = (self.folded.received, self.folded.failed) != before
        return not self.folded.is_open or (self.folded.status == "partial" and is_more)

    @property
    def after(self) -> dict[str, Any]:
        standing = ("status", "received", "failed", "error")
        return {**self.row, **{name: getattr(self.folded, name) for name in standing}}


async def process_deliveries(
    connection: Connection, worker_id: UUID, claimed: Sequence[ClaimedDelivery]
) -> dict[str, int]:
    """Fold what a worker has claimed; return how many bundles were processed, came late, or are dead.

    A message of a stream that a person retries is `kept` as a result, which is folded next.
    """
    now = await transaction_time(connection)
    held = await hold_if_claimed(connection, worker_id, [delivery.job for delivery in claimed])
    mine = [delivery for delivery in claimed if delivery.id in held]
    readable, unreadable = _read([delivery for delivery in mine if delivery.message is None])
    again = await _keep_again(connection, [delivery for delivery in mine if delivery.message is not None])
    late: set[UUID] = set()
    if readable:
        folds = await _fold_all(connection, readable)
        fresh = [one for one in folds if one.took_in]
        await _write(connection, fresh, now)
        late = {delivery for one in folds for delivery in one.folded.late}
        await receive_results(connection, [*_completed(fresh), *_late(readable, late)], now)
        await notify_steps(connection, [one.after for one in fresh if one.has_news], now)
        await _mark_late(connection, [delivery for delivery, _ in readable if delivery.id in late])
    done = [next_state(delivery, Succeeded(), RESULT_RETRIES) for delivery, _ in readable]
    await settle_if_claimed(connection, worker_id, [*done, *unreadable, *again])
    kept = sum(result.status == "done" for result in again)
    return {
        "processed": len(readable) - len(late),
        "kept": kept,
        "late": len(late),
        "dead": len(unreadable) + len(again) - kept,
    }


async def _keep_again(connection: Connection, retried: Sequence[ClaimedDelivery]) -> list[DeliveryResult]:
    """Keep messages that a person retries, stream by stream; what they bring is folded as what comes from there."""
    by_source: dict[StreamSource, list[tuple[ClaimedDelivery, StreamMessage]]] = {}
    for delivery in retried:
        if delivery.source is not None and delivery.message is not None:
            by_source.setdefault(delivery.source, []).append((delivery, delivery.message))
    results = []
    for source, given in by_source.items():
        reasons = await keep_again(connection, source, [message for _, message in given])
        for (delivery, _), why in zip(given, reasons, strict=True):
            failed = why and Failed(why.code, f"{why.code}: {why.error}", permanent=True)
            results.append(next_state(delivery, failed or Succeeded(), RESULT_RETRIES))
    return results


def failure_of(delivery: ClaimedDelivery, error: Exception) -> DeliveryResult:
    """Return what is to be written about an attempt that failed."""
    return next_state(delivery, Failed(FAILED, typed_error_text(error)), RESULT_RETRIES)


def _read(
    claimed: Sequence[ClaimedDelivery],
) -> tuple[list[tuple[ClaimedDelivery, Bundle]], list[DeliveryResult]]:
    readable, unreadable = [], []
    for delivery in claimed:
        bundle, problems = parse_bundle(delivery.body)
        if bundle is not None:
            readable.append((delivery, bundle))
        else:
            failed = Failed(UNREADABLE, f"{UNREADABLE}: {'; '.join(map(str, problems))}", permanent=True)
            unreadable.append(next_state(delivery, failed, RESULT_RETRIES))
    return readable, unreadable


async def _fold_all(connection: Connection, readable: Readable) -> list[Fold]:
    """Lock, then read: the items of requests are read when no other transaction can add to them."""
    deliveries: dict[RequestKey, list[Delivery]] = {}
    for claimed, bundle in readable:
        deliveries.setdefault(claimed.place, []).append(Delivery(claimed.id, bundle))
    orgs, ids = map(list, zip(*sorted(deliveries), strict=True))
    rows = await connection.fetch(_SQL.lock_requests, orgs, ids)
    known = await _known_cargo(connection, readable)
    places = [(row["org_id"], row["id"]) for row in rows]
    return [
        _fold(dict(row), deliveries[place], known.get(place, ()))
        for row, place in zip(rows, places, strict=True)
    ]


async def _known_cargo(connection: Connection, readable: Readable) -> dict[RequestKey, set[str]]:
    wanted = [
        (*delivery.place, item.cargo) for delivery, bundle in readable for item in bundle.items if item.cargo
    ]
    columns = map(list, zip(*wanted, strict=True)) if wanted else ([], [], [])
    found: dict[RequestKey, set[str]] = {}
    for row in await connection.fetch(_SQL.find_known_cargo, *columns):
        found.setdefault((row["org_id"], row["request_id"]), set()).add(row["cargo"])
    return found


def _fold(row: Row, deliveries: Sequence[Delivery], known: Iterable[str]) -> Fold:
    request = Folded(row["expected"], row["status"], row["received"], row["failed"], row["error"])
    folded = fold(request, deliveries, known)
    return Fold(row, folded, len(folded.late) < len(deliveries))


async def _write(connection: Connection, folds: Sequence[Fold], now: datetime) -> None:
    if not folds:
        return
    items = [_item_row(one.row, new, now) for one in folds for new in one.folded.items]
    await connection.execute(_SQL.insert_items, items)
    await connection.execute(_SQL.write_folded_requests, [_request_row(one, now) for one in folds])


def _completed(folds: Sequence[Fold]) -> list[CompletedCargo]:
    return [
        CompletedCargo(one.row["org_id"], one.row["id"], new.item.cargo)
        for one in folds
        for new in one.folded.items
        if new.item.status == "completed" and new.item.cargo is not None
    ]


def _late(readable: Readable, late: Collection[UUID]) -> list[CompletedCargo]:
    """Return what came when its request had ended: it counts for the documents that are still missing."""
    return [
        CompletedCargo(*delivery.place, item.cargo, is_late=True)
        for delivery, bundle in readable
        for item in bundle.items
        if delivery.id in late and item.status == "completed" and item.cargo is not None
    ]


def _item_row(request: Row, new: NewItem, now: datetime) -> dict[str, Any]:
    item = new.item
    return {
        "org_id": request["org_id"],
        "id": new_id(now),
        "request_id": request["id"],
        "delivery_id": new.delivery_id,
        "cargo": item.cargo,
        "kind": item.kind,
        "status": item.status,
        "error": item.error,
        "received_at": now,
    }


def _request_row(one: Fold, now: datetime) -> dict[str, Any]:
    names = ("org_id", "id", "status", "received", "failed", "error")
    return {name: one.after[name] for name in names} | {"ended_at": None if one.folded.is_open else now}


async def _mark_late(connection: Connection, late: Sequence[ClaimedDelivery]) -> None:
    if late:
        columns = [delivery.org_id for delivery in late], [delivery.id for delivery in late]
        await connection.execute(_SQL.mark_late, *columns)
