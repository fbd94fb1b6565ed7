"""Bundles that cannot be taken: alone, later again, and in the end given up; the others go on."""

from uuid import UUID, uuid4

import pytest

from assent.jobs.queue import JobQueue
from assent.model.mutation import Refused
from assent.operations.dead_letters import page_of_dead_letters
from assent.operations.queues import look_at_queues
from assent.requests.deliveries import RESULT_RETRIES
from tests.requests.asking import Desk, publish_vendor
from tests.requests.bundles import item
from tests.rows import insert_delivery, insert_history, insert_outside_request
from tests.runtime.flows import ORG

ATTEMPTS_MAX = 5
RETRY_MAX = RESULT_RETRIES.longest

POISONED = """
CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.cargo ~ 'poison' THEN RAISE EXCEPTION 'this cannot be kept'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER poison BEFORE INSERT ON assent.outside_request_items FOR EACH ROW EXECUTE FUNCTION public.poison();
"""


async def ask(desk: Desk, number: int = 1) -> list[UUID]:
    await publish_vendor(desk.database, expects=2)
    for _ in range(number):
        await desk.start()
    return [row["id"] for row in await desk.requests()]


async def as_owner(desk: Desk, sql: str) -> None:
    async with desk.database.transaction(None) as connection:
        await connection.execute(sql)


async def test_a_poisoned_bundle_holds_nobody_back_and_ends_as_a_dead_letter(desk: Desk) -> None:
    first, second = await ask(desk, 2)
    await as_owner(desk, POISONED)
    await desk.push(first, "a", item("poison"))
    await desk.push(first, "b", item(1))
    await desk.push(second, "c", item(2))
    assert await desk.work() == {"processed": 2, "retrying": 1}
    assert {row["received"] for row in await desk.requests()} == {1}
    for _ in range(ATTEMPTS_MAX - 1):
        assert await desk.work() == {}  # not before its time
        desk.clock.advance(RETRY_MAX * 2)
        await desk.work()
    poisoned, *_ = await desk.deliveries()
    assert (poisoned["status"], poisoned["attempts"]) == ("dead", ATTEMPTS_MAX)
    assert "this cannot be kept" in poisoned["error"]
    assert [found["cargo"] for found in await desk.items()] == ["external://vault/1", "external://vault/2"]


async def test_errors_with_any_text_can_be_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL keeps no NUL and no half of a surrogate pair; the attempt is recorded all the same."""

    async def odd(*_: object) -> None:
        raise RuntimeError("\0 and \ud800" + "x" * 5_000)

    (request_id,) = await ask(desk)
    await desk.push(request_id, "a", item(1))
    monkeypatch.setattr("assent.worker.results.process_deliveries", odd)
    assert await desk.work() == {"retrying": 1}
    (delivery,) = await desk.deliveries()
    assert (delivery["attempts"], len(delivery["error"])) == (1, 2_000)


async def test_a_dead_letter_is_seen_and_taken_when_its_cause_is_gone(desk: Desk) -> None:
    (request_id,) = await ask(desk)
    await as_owner(desk, POISONED)
    await desk.push(request_id, "a", item("poison"))
    for _ in range(ATTEMPTS_MAX):
        await desk.work()
        desk.clock.advance(RETRY_MAX * 2)
    (letter,) = await desk.runtime.org(ORG).dead_letters.list("result")
    assert (letter.what, letter.attempts) == ("kyc.vendor", ATTEMPTS_MAX)
    async with desk.database.transaction(ORG) as connection:
        (shown,) = await page_of_dead_letters(connection, ORG, None, None, 10)
        queues = {queue.name: queue for queue in await look_at_queues(connection, desk.clock.now())}
    assert (shown.kind, shown.id, shown.what) == ("result", letter.id, "kyc.vendor")
    assert (queues["results"].dead, queues["results"].pending) == (1, 0)
    await as_owner(desk, "DROP TRIGGER poison ON assent.outside_request_items")
    with pytest.raises(Refused, match="NOT_FOUND"):
        await desk.runtime.org("globex").dead_letters.retry(letter.id, "result")
    await desk.runtime.org(ORG).dead_letters.retry(letter.id, "result")
    assert await desk.work() == {"processed": 1}
    assert (await desk.request())["received"] == 1
    assert await desk.runtime.org(ORG).dead_letters.retry_all("result") == 0


async def test_what_nobody_can_read_is_given_up_at_once(desk: Desk) -> None:
    """Somebody wrote into the tables by hand: the worker reads a bundle as every door does."""
    (request_id,) = await ask(desk)
    async with desk.database.transaction(None) as connection:
        for body in ({"key": "x", "items": [{"cargo": "passport.pdf"}]}, None):
            delivery = await insert_delivery(connection, request_id=request_id)
            if body is not None:
                entry = {"id": delivery["id"], "request_id": request_id, "what": "delivered", "body": body}
                await insert_history(connection, **entry)
    await desk.push(request_id, "good", item(1))
    assert await desk.work() == {"processed": 1, "dead": 2}
    errors = [row["error"] for row in await desk.deliveries() if row["status"] == "dead"]
    assert ["BAD_CARGO" in error for error in errors] == [True, False]
    assert all(error.startswith("UNREADABLE") for error in errors)


async def test_a_long_queue_of_one_org_does_not_keep_others_waiting(desk: Desk) -> None:
    async with desk.database.transaction(None) as connection:
        for org_id, number in (("acme", 30), ("globex", 1), ("hooli", 1)):
            request = await insert_outside_request(connection, org_id=org_id)
            for _ in range(number):
                await insert_delivery(connection, org_id=org_id, request_id=request["id"])
        claimed = await JobQueue("result", uuid4()).claim(connection, 4)
    assert sorted(one["org_id"] for one in claimed) == ["acme", "acme", "globex", "hooli"]
