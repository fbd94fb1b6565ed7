"""Alerts: a new incident is posted once to the org's own receiver, signed, a minute's together."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from assent.effects.signing_secrets import rotate_secret
from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from assent.store.clock import MovedClock
from assent.worker.alerts import Alerts
from tests.effects.test_incidents import ADMIN, pause_one
from tests.receiver import Received, Receiver, ReceiverReply
from tests.workers import EffectsWorker, run_until_done, second_worker
from tests.world import ORG, actor, insert_org, publish_webhook, rows

OWNER = actor("ora", "org:manage")


@pytest.fixture
async def alerting(effects_worker: EffectsWorker, receiver: Receiver) -> EffectsWorker:
    """An org that wants alerts, and a flow whose instances pause."""
    await want(effects_worker, ORG, receiver.url)
    await publish_webhook(effects_worker.database)
    return effects_worker


async def want(worker: EffectsWorker, org: str, url: str) -> None:
    await worker.runtime.org(org, OWNER).settings.change({"alert_url": url})
    async with worker.database.transaction(None) as connection:
        worker.secret = await rotate_secret(connection, org, worker.database.clock.now())  # type: ignore[attr-defined]


def linked(worker: EffectsWorker) -> EffectsWorker:
    """The same worker, where people reach pages."""
    changed = worker.sending(public_url="https://flows.acme.example")
    changed.secret = worker.secret  # type: ignore[attr-defined]
    return changed


async def alert(worker: EffectsWorker) -> int:
    """Post what is due; return how many incidents were named."""
    count = (await run_until_done(Alerts(worker.place))).count
    await worker.send()
    return count


def signed_body(worker: EffectsWorker, received: Received) -> Any:
    """The body, whose signature is that of the org's secret; its time is that of the test's clock."""
    at = datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), UTC)
    secret = Webhook(worker.secret)  # type: ignore[attr-defined]
    signature = secret.sign(received.headers["webhook-id"], at, received.body.decode())
    assert received.headers["webhook-signature"] == signature
    return received.json


def ids(receiver: Receiver) -> list[list[str]]:
    return [[one["id"] for one in received.json["incidents"]] for received in receiver.received]


async def test_incident_is_posted_once_and_signed(alerting: EffectsWorker, receiver: Receiver) -> None:
    assert await alert(alerting) == 0
    paused = await pause_one(alerting.runtime)
    alerting = linked(alerting)
    assert await alert(alerting) == 1
    (received,) = receiver.received
    body = signed_body(alerting, received)
    (incident,) = body["incidents"]
    assert (body["type"], body["org_id"]) == ("incidents", ORG)
    assert (incident["id"], incident["kind"], incident["code"]) == (str(paused), "instance", "URL_MISSING")
    assert (incident["definition"], incident["definition_version"], incident["node"]) == (
        "telling",
        1,
        "tell",
    )
    assert incident["link"] == f"https://flows.acme.example/app/acme/instances/{paused}"
    assert "message" not in incident
    assert await alert(alerting) == 0
    assert len(receiver.received) == 1


async def test_incidents_of_a_minute_come_together(
    alerting: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    first = await pause_one(alerting.runtime)
    await alert(alerting)
    later = []
    for _ in range(3):
        clock.advance("15s")
        later.append(await pause_one(alerting.runtime))
        assert await alert(alerting) == 0
    clock.advance("15s")
    assert await alert(alerting) == 3
    assert ids(receiver) == [[str(first)], [str(one) for one in later]]


async def test_two_workers_post_it_once(alerting: EffectsWorker, receiver: Receiver) -> None:
    for _ in range(3):
        await pause_one(alerting.runtime)
    async with second_worker(alerting.place) as other:
        runs = [run_until_done(Alerts(place)) for place in (alerting.place, other, alerting.place, other)]
        counts = [done.count for done in await asyncio.gather(*runs)]
    assert sum(counts) == 3
    await alerting.send()
    assert [len(found) for found in ids(receiver)] == [3]


async def test_dead_letter_is_posted_and_a_dead_alert_is_not(
    alerting: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    receiver.will(ReceiverReply(404))
    await alerting.start("telling", url=receiver.url, order=7)
    await alerting.send()
    receiver.will(ReceiverReply(410))
    assert await alert(alerting) == 1
    posted = receiver.received[-1].json["incidents"]
    assert [(one["kind"], one["code"], one["node"]) for one in posted] == [("effect", "HTTP_404", "tell")]
    dead = [row["lane"] for row in await rows(alerting.database, "jobs") if row["status"] == "dead"]
    assert len(dead) == 2
    number = len(receiver.received)
    for _ in range(5):
        clock.advance("5m")
        assert await alert(alerting) == 0
    assert len(receiver.received) == number


async def test_incident_that_comes_back_is_a_new_one(
    alerting: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    paused = await pause_one(alerting.runtime)
    await alert(alerting)
    operator = alerting.runtime.org(ORG, ADMIN)
    await operator.instances.edit_variables(paused, {"url": receiver.url, "order": 1}, "mistyped")
    await operator.instances.retry(paused)
    clock.advance("2m")
    await alert(alerting)
    assert await rows(alerting.database, "alerted_incidents") == []


async def test_org_without_the_setting_or_a_secret_posts_nothing(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_webhook(effects_worker.database)
    await pause_one(effects_worker.runtime)
    assert await alert(effects_worker) == 0
    await effects_worker.runtime.org(ORG, OWNER).settings.change({"alert_url": receiver.url})
    assert await alert(effects_worker) == 1
    assert receiver.received == []
    effect = await effects_worker.effect()
    assert (effect["status"], effect["error"][:14]) == ("dead", "SECRET_MISSING")


async def test_incidents_of_another_org_are_not_posted(alerting: EffectsWorker, receiver: Receiver) -> None:
    async with alerting.database.transaction(None) as connection:
        await insert_org(connection, "globex")
    await publish_webhook(alerting.database, "telling")
    mine = await pause_one(alerting.runtime)
    await want(alerting, "globex", receiver.url)
    assert await alert(alerting) == 1
    assert ids(receiver) == [[str(mine)]]


async def test_test_alert_is_posted_for_those_who_manage_the_org(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    acme = effects_worker.runtime.org(ORG, OWNER)
    with pytest.raises(Refused, match="NOT_FOUND"):
        await acme.settings.test_alert()
    await want(effects_worker, ORG, receiver.url)
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await effects_worker.runtime.org(ORG, Actor("ann")).settings.test_alert()
    alert_id: UUID = await acme.settings.test_alert()
    await effects_worker.send()
    (received,) = receiver.received
    body = signed_body(effects_worker, received)
    assert (body["id"], body["type"], body["incidents"]) == (str(alert_id), "test", [])
    entries = [
        row for row in await rows(effects_worker.database, "audit_log") if row["action"] == "alert.test"
    ]
    assert [(row["actor_id"], row["subject_id"]) for row in entries] == [("ora", str(alert_id))]


async def test_alerts_go_where_effects_may_go(alerting: EffectsWorker) -> None:
    await want(alerting, ORG, "http://10.0.0.1/hook")
    await alerting.runtime.org(ORG, OWNER).settings.test_alert()
    await alerting.send()
    effect = await alerting.effect()
    assert (
        effect["status"],
        "not an address" in str(effect["error"]) or "refused" in str(effect["error"]).lower(),
    ) == (
        "dead",
        True,
    )


@pytest.mark.parametrize("url", ["hooks.acme.example", "ftp://hooks.acme.example", "https://a b"])
async def test_url_that_is_none_is_no_setting(effects_worker: EffectsWorker, url: str) -> None:
    with pytest.raises(Invalid):
        await effects_worker.runtime.org(ORG, OWNER).settings.change({"alert_url": url})
