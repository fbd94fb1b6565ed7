"""Some forty documents at different stages: nine days of work at Northwind, on a clock that is moved."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from assent.demo.company import ORG, actor
from assent.model.mutation import Command
from assent.runtime import InstanceView, Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock

DAYS: Final = 9
VENDORS: Final = ("v-desk", "v-cloud", "v-lab", "v-paper", "v-power")

Stage = Callable[["Office", int], Awaitable[None]]


class Office:
    """What people do, one after the other."""

    def __init__(self, runtime: Runtime, clock: MovedClock) -> None:
        self._runtime = runtime
        self._clock = clock

    async def work(self, until: datetime, note: Callable[[int, int], None]) -> None:
        """Take every document to its stage, spread over the days before `until`.

        What people answer takes days of its own.
        """
        stages = list(_stages())
        began = self._clock.now()
        each = (until - began) / (len(stages) + 1)
        for number, stage in enumerate(stages, start=1):
            self._clock.move_to(began + number * each)
            await stage(self, number)
            processor = EventProcessor(self._runtime.core)
            while await processor.process_events(200):
                pass
            note(number, len(stages))

    async def write(self, number: int, total: int, who: str = "ann", **more: Any) -> UUID:
        vendor = VENDORS[number % len(VENDORS)]
        invoice = {
            "number": f"INV-{1000 + number}",
            "vendor_id": vendor,
            "grand_total": total,
            "currency": "EUR",
        }
        command = Command(
            ORG, "invoice.create", actor(who), {**invoice, "cost_center": "R&D", **more}, channel="demo"
        )
        return (await self._runtime.core.kernel.mutate(command)).entity.id

    async def submit(self, number: int, total: int, who: str = "ann", **more: Any) -> InstanceView:
        invoice = await self.write(number, total, who, **more)
        return await self._runtime.org(ORG, actor(who)).entities.transition(invoice, "submit")

    async def edit(self, view: InstanceView, who: str, **changes: Any) -> None:
        await self._runtime.core.kernel.mutate(
            Command(ORG, "invoice.update", actor(who), changes, view.entity_id, channel="demo")
        )

    async def answer(
        self, view: InstanceView, step: str, who: str, answer: str = "approved", reason: str | None = None
    ) -> InstanceView:
        (asked,) = [waiting.request_id for waiting in view.waiting if waiting.name == step]
        assert asked is not None
        self._clock.advance(timedelta(minutes=20))
        return await self._runtime.org(ORG, actor(who)).approvals.decide(asked, answer, reason=reason)

    async def cancel(self, view: InstanceView) -> None:
        assert view.entity_id is not None
        await self._runtime.org(ORG, actor("fin")).entities.transition(view.entity_id, "cancel")

    async def claim(self, amount: int, who: str = "ann") -> InstanceView:
        view = await self._runtime.org(ORG, actor(who)).instances.start("expenses.approval")
        day = self._clock.now().date().isoformat()
        spent = {"amount": amount, "category": "travel", "spent_on": day}
        return await self._runtime.org(ORG, actor(who)).instances.advance(view.id, "completed", spent)


async def _draft(office: Office, number: int) -> None:
    await office.write(number, 12_000 + number, "carl")


async def _small_and_trusted(office: Office, number: int) -> None:
    await office.submit(number, 4_900, vendor_id="v-paper")


async def _middle_waits(office: Office, number: int) -> None:
    await office.submit(number, 70_000 + 1_000 * number, "ann" if number % 2 else "carl")


async def _middle_posted(office: Office, number: int) -> None:
    await office.answer(await office.submit(number, 65_000), "one", "fin", reason="as ordered")


async def _middle_rejected(office: Office, number: int) -> None:
    await office.answer(
        await office.submit(number, 81_000), "one", "fay", "rejected", "the order says 18 chairs, not 81"
    )


async def _large_waits(office: Office, number: int) -> None:
    await office.submit(number, 2_000_000 + 10_000 * number)


async def _large_half_way(office: Office, number: int) -> None:
    await office.answer(await office.submit(number, 1_400_000), "finance", "fin")


async def _large_posted(office: Office, number: int) -> None:
    view = await office.answer(await office.submit(number, 1_900_000), "finance", "fay")
    await office.answer(view, "budget", "bea", reason="planned for this quarter")


async def _large_amended(office: Office, number: int) -> None:
    """Finance had approved; then the amount was changed."""
    view = await office.answer(await office.submit(number, 1_200_000), "finance", "fin")
    await office.edit(view, "carl", grand_total=1_350_000)


async def _cancelled(office: Office, number: int) -> None:
    await office.cancel(await office.submit(number, 90_000))


async def _claim_waits(office: Office, number: int) -> None:
    await office.claim(4_000 + 100 * number, "ann" if number % 2 else "bea")


async def _claim_paid(office: Office, number: int) -> None:
    await office.answer(await office.claim(9_000), "manager", "max")


async def _claim_at_finance(office: Office, number: int) -> None:
    await office.answer(await office.claim(88_000, "bea"), "manager", "max")


def _stages() -> Iterator[Stage]:
    """Yield the stages in an order that mixes them."""
    numbers: dict[Stage, int] = {
        _draft: 3,
        _small_and_trusted: 6,
        _middle_waits: 6,
        _middle_posted: 5,
        _middle_rejected: 2,
        _large_waits: 3,
        _large_half_way: 2,
        _large_posted: 3,
        _large_amended: 2,
        _cancelled: 1,
        _claim_waits: 4,
        _claim_paid: 2,
        _claim_at_finance: 2,
    }
    while numbers:
        for stage in list(numbers):
            yield stage
            numbers[stage] -= 1
            if not numbers[stage]:
                del numbers[stage]
