"""Digests: one mail a day at the member's own hour, over changes of the clock, restarts and two workers."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.people.directory import MembersDirectory
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.digests import Digests
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.authored import END, arrows
from tests.effects.mailbox import mail_server
from tests.effects.test_questions import URL
from tests.workers import LOCAL, EffectsWorker, run_until_done, second_worker
from tests.world import ORG, WorldMember, actor, effects, found_acme, hire, insert_org, publish_steps, rows

pytestmark = pytest.mark.usefixtures("clock")


@pytest.fixture
def place(app: App, database: Database) -> WorkerContext:
    return WorkerContext(database, runtime=app.runtime(database), sending=SendingSettings(LOCAL))


@pytest.fixture
async def questions(database: Database, runtime: Runtime) -> Runtime:
    """An org in which bea is asked by every flow that ann starts."""
    await found_acme(database, {"ann": [], "bea": [], "cid": []})
    step = {
        "id": "ask",
        "type": "approval",
        "label": "Check",
        "assignee": {"user": "bea"},
        "notify": "email",
        "remind": "20h",
        "escalate": {"after": "30h", "to": {"user": "cid"}},
        "due": "9d",
    }
    ways = [*arrows("ask", "end", event="approved"), *arrows("ask", "end", event="rejected")]
    await publish_steps(database, "asking", [step, END], ways)
    return runtime


async def start(runtime: Runtime, times: int = 1) -> None:
    for _ in range(times):
        await runtime.org(ORG, actor("ann")).instances.start("asking", {})


async def prefer(runtime: Runtime, who: str = "bea", **changes: Any) -> None:
    await runtime.org(ORG, actor(who)).preferences.change({"mails": "daily", **changes})


async def digests_of(database: Database) -> list[tuple[str, int]]:
    """The digests in the outbox: to whom, and how many questions each names."""
    found = [effect["payload"] for effect in await effects(database)]
    return [(one["user"], one["mail"]["facts"]["count"]) for one in found if one["mail"]["kind"] == "digest"]


async def run(place: WorkerContext) -> int:
    return (await run_until_done(Digests(place))).count


async def test_questions_come_in_one_mail_at_the_hour_and_not_each_by_itself(
    place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    await prefer(questions, digest_hour=16, time_zone="Europe/Berlin")
    await start(questions, 2)
    assert await run(place) == 0  # nine o'clock in UTC, ten in Berlin
    with mail_server() as mailbox:
        worker = EffectsWorker(place).sending(mailbox.settings, public_url=URL)
        assert await worker.send() == {"done": 2}
        assert mailbox.mails == []
        clock.advance("6h")
        assert await run(place) == 1
        await worker.send()
        (mail,) = mailbox.mails
        await worker.close()
    plain, html = (part.get_content() for part in mail.iter_parts())
    assert (mail["to"], mail["subject"]) == ("bea@acme.example", "2 questions wait for you")
    assert plain.count("- ask: asking (requested by ann, due 2026-03-11 10:00 CET)") == 2
    assert plain.count(f"{URL}/app/acme/approvals/") == 2
    assert html.count(f'<li><a href="{URL}/app/acme/approvals/') == 2
    assert f"{URL}/app/acme/inbox" in plain
    skipped = [effect["output"] for effect in await effects(place.database) if effect["output"].get("code")]
    assert [one["code"] for one in skipped] == ["IN_DIGEST", "IN_DIGEST"]


async def test_escalation_comes_at_once(place: WorkerContext, questions: Runtime, clock: MovedClock) -> None:
    await prefer(questions)
    await prefer(questions, "cid", mails="none")
    await start(questions)
    clock.advance("31h")
    from tests.world import drain

    await run_until_done(Timers(place))
    await drain(questions)
    with mail_server() as mailbox:
        worker = EffectsWorker(place).sending(mailbox.settings)
        await worker.send()
        await worker.close()
        assert [mail["to"] for mail in mailbox.mails] == ["cid@acme.example"]


async def test_nothing_comes_when_nothing_waits(
    place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    await prefer(questions)
    clock.advance("1d")
    assert await run(place) == 0
    await start(questions)
    assert await run(place) == 0, "the day's hour is over; its digest had nothing to say"
    clock.advance("1d")
    assert await run(place) == 1
    assert await digests_of(place.database) == [("bea", 1)]


async def test_each_day_has_one_over_two_workers_and_restarts(
    place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    await prefer(questions)
    await start(questions)
    async with second_worker(place) as other:
        for day in range(1, 4):
            clock.advance("1d")
            counts = await asyncio.gather(*(run(worker) for worker in (place, other, place, other)))
            assert sum(counts) == 1, counts
            assert len(await digests_of(place.database)) == day


async def test_day_that_could_not_be_written_is_not_lost(
    place: WorkerContext, questions: Runtime, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim of the day and its mail are one transaction."""
    await prefer(questions)
    await start(questions)
    clock.advance("1d")

    async def fail(*_: object) -> int:
        raise RuntimeError("the worker dies here")

    with monkeypatch.context() as patched:
        patched.setattr("assent.worker.digests.send_notices", fail)
        with pytest.raises(RuntimeError):
            await Digests(place).run_once()
    assert await run(place) == 1


@pytest.mark.parametrize(
    "case",
    [
        # Two o'clock does not exist: it is due when the clock is put forward.
        ("2026-03-28T12:00:00+00:00", 2, "2026-03-29T01:00:00+00:00"),
        # Two o'clock comes twice: it is due the first time.
        ("2026-10-24T12:00:00+00:00", 2, "2026-10-25T00:00:00+00:00"),
        ("2026-03-28T12:00:00+00:00", 8, "2026-03-29T06:00:00+00:00"),
        ("2026-03-27T12:00:00+00:00", 8, "2026-03-28T07:00:00+00:00"),
    ],
)
async def test_hour_is_that_of_the_member_over_changes_of_the_clock(
    place: WorkerContext, questions: Runtime, clock: MovedClock, case: tuple[str, int, str]
) -> None:
    before, hour, due_at = case

    def move_to(moment: datetime) -> None:
        clock.advance(f"{int((moment - clock.now()).total_seconds())}s")

    due = datetime.fromisoformat(due_at).astimezone(UTC)
    move_to(datetime.fromisoformat(before))
    await prefer(questions, time_zone="Europe/Berlin", digest_hour=hour)
    await start(questions)
    move_to(due - timedelta(seconds=1))
    assert await run(place) == 0
    move_to(due)
    assert await run(place) == 1
    for _ in range(22):
        clock.advance("1h")
        assert await run(place) == 0, clock.now()
    clock.advance("3h")
    assert await run(place) == 1


async def test_change_of_the_hour_or_the_zone_brings_no_second_one_that_day(
    place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    await prefer(questions, digest_hour=8)
    await start(questions)
    assert await run(place) == 0, "eight o'clock is over today"
    clock.advance("1d")
    assert await run(place) == 1
    await prefer(questions, digest_hour=12)
    clock.advance("5h")
    assert await run(place) == 0
    await prefer(questions, digest_hour=0, time_zone="Pacific/Kiritimati")
    await prefer(questions, digest_hour=0, time_zone="Pacific/Pago_Pago")
    assert await run(place) == 0


async def test_digest_holds_what_the_inbox_shows_and_nothing_of_another_org(
    place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    """What another has claimed, what was decided, and those who left."""
    await prefer(questions)
    await prefer(questions, "cid")
    database = place.database
    async with database.transaction(None) as connection:
        await insert_org(connection, "globex")
        await hire(
            connection, {"bea": WorldMember([], email="bea@globex.example"), "ann": WorldMember()}, "globex"
        )
    await questions.org("globex", actor("bea")).preferences.change({"mails": "daily"})
    await start(questions, 3)
    bea = questions.org(ORG, actor("bea"))
    first, second, _ = (await bea.approvals.inbox()).items
    await bea.approvals.decide(first.request_id, "approved")
    await bea.approvals.claim(second.request_id)
    clock.advance("1d")
    assert await run(place) == 1
    assert await digests_of(database) == [("bea", 2)]
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.members SET active = false WHERE org_id = 'acme' AND user_id = 'bea'"
        )
    clock.advance("1d")
    assert await run(place) == 0


async def test_delegate_finds_the_questions_of_the_absent(
    place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    await prefer(questions, "cid")
    await start(questions)
    async with place.database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.approval_delegations (org_id, id, from_user, to_user, starts_at, created_by) "
            "VALUES ('acme', gen_random_uuid(), 'bea', 'cid', assent.now(), 'bea')"
        )
    clock.advance("1d")
    assert await run(place) == 1
    assert await digests_of(place.database) == [("cid", 1)]


async def test_directory_of_the_application_is_asked(
    app: App, place: WorkerContext, questions: Runtime, clock: MovedClock
) -> None:
    class OtherDirectory(MembersDirectory):
        pass

    await prefer(questions)
    await start(questions)
    clock.advance("1d")
    duty = Digests(place)
    duty._directory = OtherDirectory()
    assert (await duty.run_once()).count == 1
    assert await digests_of(place.database) == [("bea", 1)]
    assert len(await rows(place.database, "member_preferences")) == 1
