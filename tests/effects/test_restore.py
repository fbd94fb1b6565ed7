"""A database that goes back to an earlier state sends again what it sent since, under the keys that receivers know."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from assent.app import App
from assent.effects.settings import CallbackSettings, SendingSettings
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.authored import END, arrows
from tests.effects.dumps import dump, restored
from tests.effects.mailbox import Mailbox
from tests.postgres import SETTINGS, START, Databases
from tests.receiver import Receiver
from tests.workers import LOCAL, EffectsWorker
from tests.world import found_acme, publish_steps

WAIT = {"id": "wait", "type": "wait", "for": "1h"}


def steps(url: str) -> list[dict[str, Any]]:
    """One of each kind that sends: a webhook, a mail, a webhook that is awaited, one that waits for results."""
    return [
        WAIT,
        {"id": "tell", "type": "webhook_out", "url": f"{url}/tell", "body": {"order": 7}},
        {
            "id": "mail",
            "type": "notification",
            "channel": "email",
            "to": "ann@acme.example",
            "text": "Order 7",
        },
        {"id": "call", "type": "webhook_out", "url": f"{url}/call", "await": True},
        {"id": "ask", "type": "webhook_out", "url": f"{url}/ask", "await": "result", "timeout": "9d"},
        END,
        {"id": "late", "type": "terminal"},
    ]


ARROWS = [
    *arrows("wait", "tell", "mail", "call", "ask", "end"),
    *arrows("call", "late", event="error"),
    *arrows("ask", "late", event="error"),
    *arrows("ask", "late", event="timeout"),
]
CALLBACKS = CallbackSettings(url="https://assent.example", key="x" * 40)
DECIDE = {"id": "decide", "type": "approval", "assignee": {"user": "fin"}, "notify": "email", "remind": "1d"}


@asynccontextmanager
async def office_at(url: str, when: str, mailbox: Mailbox) -> AsyncIterator[EffectsWorker]:
    """A worker on a database, at this time after the start."""
    clock = MovedClock(START)
    clock.advance(when)
    database = await Database.open(url, settings=SETTINGS, clock=clock)
    sending = SendingSettings(LOCAL, mailbox.settings, CALLBACKS)
    effects_worker = EffectsWorker(WorkerContext(database, runtime=App().runtime(database), sending=sending))
    try:
        yield effects_worker
    finally:
        await effects_worker.close()
        await database.close()


async def carry_on(effects_worker: EffectsWorker) -> None:
    """Let the timer and two rounds of reminders come, and send everything on the way."""
    for when in ("2h", "1d", "1d"):
        effects_worker.database.clock.advance(when)  # type: ignore[attr-defined]
        await effects_worker.timers()
        for _ in range(3):  # the answer of `call` moves its token to `ask`
            await effects_worker.work()


def sent(receiver: Receiver, mailbox: Mailbox) -> list[tuple[str, str]]:
    """What arrived, each with the key that its receiver knows it by; forgotten by the next call."""
    found = [(received.path, received.key) for received in receiver.received]
    found += [(mail["To"], mail["Message-ID"]) for mail in mailbox.mails]
    receiver.received.clear()
    mailbox.envelopes.clear()
    return sorted(found)


async def test_what_was_sent_after_the_dump_is_sent_again_under_the_same_keys(
    database: Database, databases: Databases, receiver: Receiver, mailbox: Mailbox, tmp_path: Path
) -> None:
    await found_acme(database)
    await publish_steps(database, "sending", steps(receiver.url), ARROWS)
    ends = [END, {"id": "no", "type": "terminal"}]
    decided = [*arrows("decide", "end", event="approved"), *arrows("decide", "no", event="rejected")]
    await publish_steps(database, "asking", [WAIT, DECIDE, *ends], [*arrows("wait", "decide"), *decided])
    async with office_at(database.url, "1s", mailbox) as effects_worker:
        for _ in range(2):
            await effects_worker.start("sending")
            await effects_worker.start("asking")
    dump(database.url, tmp_path / "archive")
    async with office_at(database.url, "1m", mailbox) as effects_worker:
        await carry_on(effects_worker)
    before = sent(receiver, mailbox)
    # Twice: three calls, a mail; the question, and two reminders.
    assert len(before) == len(set(before)) == 2 * (3 + 1 + 3)
    async with (
        restored(databases, tmp_path / "archive") as url,
        office_at(url, "17m", mailbox) as effects_worker,
    ):
        await carry_on(effects_worker)
    assert sent(receiver, mailbox) == before
