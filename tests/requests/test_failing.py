"""Bundles that cannot be taken: alone, later again, and in the end given up; the others go on."""

from uuid import UUID, uuid4

import pytest

from assent.jobs.queue import JobQueue
from assent.model.mutation import Refused
from assent.operations.queues import look_at_queues, page_of_dead_letters
from assent.requests.deliveries import RESULT_RETRIES
from tests.requests.bundles import item
from tests.rows import insert_delivery, insert_history, insert_outside_request
from tests.workers import ResultsWorker
from tests.world import ORG, publish_vendor

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


async def ask(results_worker: ResultsWorker, number: int = 1) -> list[UUID]:
    await publish_vendor(results_worker.database, expects=2)
    for _ in range(number):
        await results_worker.start()
    return [row["id"] for row in await results_worker.requests()]


async def as_owner(results_worker: ResultsWorker, sql: str) -> None:
    async with results_worker.database.transaction(None) as connection:
        await connection.execute(sql)


async def test_a_poisoned_bundle_holds_nobody_back_and_ends_as_a_dead_letter(
    results_worker: ResultsWorker,
) -> None:
    first, second = await ask(results_worker, 2)
    await as_owner(results_worker, POISONED)
    await results_worker.push(first, "a", item("poison"))
    await results_worker.push(first, "b", item(1))
    await results_worker.push(second, "c", item(2))
    assert await results_worker.work() == {"processed": 2, "retrying": 1}
    assert {row["received"] for row in await results_worker.requests()} == {1}
    for _ in range(ATTEMPTS_MAX - 1):
        assert await results_worker.work() == {}  # not before its time
        results_worker.clock.advance(RETRY_MAX * 2)
        await results_worker.work()
    poisoned, *_ = await results_worker.deliveries()
    assert (poisoned["status"], poisoned["attempts"]) == ("dead", ATTEMPTS_MAX)
    assert "this cannot be kept" in poisoned["error"]
    assert [found["cargo"] for found in await results_worker.items()] == [
        "external://vault/1",
        "external://vault/2",
    ]


async def test_errors_with_any_text_can_be_kept(
    results_worker: ResultsWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL keeps no NUL and no half of a surrogate pair; the attempt is recorded all the same."""

    async def odd(*_: object) -> None:
        raise RuntimeError("\0 and \ud800" + "x" * 5_000)

    (request_id,) = await ask(results_worker)
    await results_worker.push(request_id, "a", item(1))
    monkeypatch.setattr("assent.worker.results.process_deliveries", odd)
    assert await results_worker.work() == {"retrying": 1}
    (delivery,) = await results_worker.deliveries()
    assert (delivery["attempts"], len(delivery["error"])) == (1, 2_000)


async def test_a_dead_letter_is_seen_and_taken_when_its_cause_is_gone(results_worker: ResultsWorker) -> None:
    (request_id,) = await ask(results_worker)
    await as_owner(results_worker, POISONED)
    await results_worker.push(request_id, "a", item("poison"))
    for _ in range(ATTEMPTS_MAX):
        await results_worker.work()
        results_worker.clock.advance(RETRY_MAX * 2)
    (letter,) = await results_worker.runtime.org(ORG).dead_letters.list("result")
    assert (letter.what, letter.attempts) == ("kyc.vendor", ATTEMPTS_MAX)
    async with results_worker.database.transaction(ORG) as connection:
        (shown,) = await page_of_dead_letters(connection, ORG, None, None, 10)
        queues = {queue.name: queue for queue in await look_at_queues(connection, results_worker.clock.now())}
    assert (shown.kind, shown.id, shown.what) == ("result", letter.id, "kyc.vendor")
    assert (queues["results"].dead, queues["results"].pending) == (1, 0)
    await as_owner(results_worker, "DROP TRIGGER poison ON assent.outside_request_items")
    with pytest.raises(Refused, match="NOT_FOUND"):
        await results_worker.runtime.org("globex").dead_letters.retry(letter.id, "result")
    await results_worker.runtime.org(ORG).dead_letters.retry(letter.id, "result")
    assert await results_worker.work() == {"processed": 1}
    assert (await results_worker.request())["received"] == 1
    assert await results_worker.runtime.org(ORG).dead_letters.retry_all("result") == 0


async def test_what_nobody_can_read_is_given_up_at_once(results_worker: ResultsWorker) -> None:
    """Somebody wrote into the tables by hand: the worker reads a bundle as every door does."""
    (request_id,) = await ask(results_worker)
    async with results_worker.database.transaction(None) as connection:
        for body in ({"key": "x", "items": [{"cargo": "passport.pdf"}]}, None):
            delivery = await insert_delivery(connection, request_id=request_id)
            if body is not None:
                entry = {"id": delivery["id"], "request_id": request_id, "what": "delivered", "body": body}
                await insert_history(connection, **entry)
    await results_worker.push(request_id, "good", item(1))
    assert await results_worker.work() == {"processed": 1, "dead": 2}
    errors = [row["error"] for row in await results_worker.deliveries() if row["status"] == "dead"]
    assert ["BAD_CARGO" in error for error in errors] == [True, False]
    assert all(error.startswith("UNREADABLE") for error in errors)


async def test_a_long_queue_of_one_org_does_not_keep_others_waiting(results_worker: ResultsWorker) -> None:
    async with results_worker.database.transaction(None) as connection:
        for org_id, number in (("acme", 30), ("globex", 1), ("hooli", 1)):
            request = await insert_outside_request(connection, org_id=org_id)
            for _ in range(number):
                await insert_delivery(connection, org_id=org_id, request_id=request["id"])
        claimed = await JobQueue("result", uuid4()).claim(connection, 4)
    assert sorted(one["org_id"] for one in claimed) == ["acme", "acme", "globex", "hooli"]
