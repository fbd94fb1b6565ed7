"""An engine and an effects worker side by side, and flows that send something."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from assent.effects.addresses import Allowed
from assent.effects.settings import EffectSettings, SmtpSettings
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from assent.worker.duty import RunResult, WorkerContext
from assent.worker.effects import Effects
from assent.worker.timers import Timers
from tests.runtime.flows import ANN, END, ORG, arrows, drain, effects, publish, rows, steps_of
from tests.worker.queues import run_until_done, with_options

LOCAL = EffectSettings(
    allow=Allowed.read(["127.0.0.0/8"]), connect_timeout_ms=2_000, read_timeout_ms=300, total_timeout_ms=1_000
)
"""Receivers on this machine, and not much patience with them."""


class Office:
    """What a worker process does for effects, one thing after the other."""

    def __init__(self, place: WorkerContext) -> None:
        assert place.runtime is not None
        self.place = place
        self.runtime: Runtime = place.runtime
        self.database: Database = place.database
        self.duty = Effects(place)

    def sending(self, smtp: SmtpSettings | None = None, **settings: Any) -> "Office":
        """The same office with other settings for sending."""
        sending = self.place.sending
        changed = replace(sending, effects=sending.effects.replace(**settings), smtp=smtp or sending.smtp)
        return Office(replace(self.place, sending=changed))

    def with_options(self, **options: Any) -> "Office":
        return Office(with_options(self.place, **options))

    async def close(self) -> None:
        await self.duty.finish()

    async def send(self) -> dict[str, int]:
        """Send what is due; how many attempts ended how."""
        done: RunResult = await run_until_done(self.duty)
        return dict(done.parts)

    async def work(self) -> None:
        """Send what is due, and let the engine hear of it."""
        await self.send()
        await drain(self.runtime)

    async def timers(self) -> None:
        await run_until_done(Timers(self.place))
        await drain(self.runtime)

    async def start(self, flow: str, **data: Any) -> InstanceView:
        return await self.runtime.org(ORG, ANN).instances.start(flow, data)

    async def effects(self) -> list[dict[str, Any]]:
        return sorted(await effects(self.database), key=lambda row: row["id"])

    async def effect(self) -> dict[str, Any]:
        (found,) = await self.effects()
        return found

    async def step(self, instance_id: UUID, node: str) -> dict[str, Any]:
        found = [step for step in await steps_of(self.database, instance_id) if step["node_id"] == node]
        return found[-1]

    async def status(self, instance_id: UUID) -> str:
        (found,) = [
            row for row in await rows(self.database, "workflow_instances") if row["id"] == instance_id
        ]
        status: str = found["status"]
        return status

    async def context(self, instance_id: UUID) -> dict[str, Any]:
        (found,) = [
            row for row in await rows(self.database, "workflow_instances") if row["id"] == instance_id
        ]
        context: dict[str, Any] = found["context_json"]
        return context


def webhook(url: str = "{workflow.url}", **rest: Any) -> dict[str, Any]:
    return {"id": "tell", "type": "webhook_out", "url": url, "body": {"order": "{workflow.order}"}, **rest}


async def publish_webhook(database: Database, key: str = "telling", **rest: Any) -> None:
    """A flow that tells `workflow.url` of an order; where that fails, it ends elsewhere."""
    await publish_step(database, webhook(**rest), key)


async def publish_step(database: Database, step: dict[str, Any], key: str = "telling", **rest: Any) -> None:
    """A flow of one step: on completion it ends at `end`, on error and after its time at places of their own."""
    ends = [END]
    transitions = arrows(step["id"], "end")
    if step.get("await") or step["type"] == "system":
        ends += [{"id": "failed", "type": "terminal"}, {"id": "late", "type": "terminal"}]
        transitions += arrows(step["id"], "failed", event="error")
    if "timeout" in step:
        transitions += arrows(step["id"], "late", event="timeout")
    else:
        ends = [end for end in ends if end["id"] != "late"]
    await publish(database, key, [step, *ends], transitions, **rest)
