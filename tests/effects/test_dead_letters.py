"""Dead letters: seen by their org, and sent again one by one or all together, under the keys that they had."""

from uuid import uuid4

import pytest

from assent.model.mutation import Refused
from assent.store.clock import MovedClock
from tests.receiver import Receiver, ReceiverReply, receiving
from tests.workers import EffectsWorker
from tests.world import ANN, ORG, publish_steps, publish_webhook


async def test_dead_letters_of_the_org_are_listed_newest_first_and_nobody_elses(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    await publish_webhook(effects_worker.database)
    receiver.otherwise = lambda _: ReceiverReply(404)
    for order in (1, 2):
        await effects_worker.start("telling", url=receiver.url, order=order)
        clock.advance("1m")
    await effects_worker.send()
    found = await effects_worker.runtime.org(ORG).dead_letters.list("effect")
    assert [(letter.kind, letter.attempts, letter.awaited) for letter in found] == [("effect", 1, False)] * 2
    assert found[0].created_at > found[1].created_at
    assert found[0].what == f"127.0.0.1:{receiver.port}"
    assert "404" in (found[0].error or "")
    assert await effects_worker.runtime.org("globex").dead_letters.list("effect") == []
    assert len(await effects_worker.runtime.org(ORG).dead_letters.list("effect", limit=1)) == 1
    assert await effects_worker.runtime.org(ORG).dead_letters.list("effect", what="elsewhere") == []


async def test_one_is_sent_again_with_all_its_attempts_under_its_key(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    view = await effects_worker.start("telling", url=receiver.url, order=7)
    receiver.will(ReceiverReply(404), ReceiverReply(200))
    await effects_worker.send()
    (dead,) = await effects_worker.runtime.org(ORG).dead_letters.list("effect")
    granted = (await effects_worker.effect())["attempts_max"]
    await effects_worker.runtime.org(ORG).dead_letters.retry(dead.id, "effect")
    revived = await effects_worker.effect()
    assert (revived["attempts"], revived["attempts_max"]) == (1, 1 + granted)
    assert await effects_worker.send() == {"done": 1}
    assert list(receiver.keys.values()) == [2]
    assert await effects_worker.runtime.org(ORG).dead_letters.list("effect") == []
    (evidence,) = (await effects_worker.step(view.id, "tell"))["output_json"]["evidence"].values()
    assert evidence["outcome"] == "done"


async def test_all_of_a_destination_are_sent_again(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await publish_webhook(effects_worker.database)
    with receiving() as other:
        for each in (receiver, receiver, other):
            each.will(ReceiverReply(404))
            await effects_worker.start("telling", url=each.url, order=7)
        await effects_worker.send()
        assert (
            await effects_worker.runtime.org(ORG).dead_letters.retry_all(
                "effect", what=f"127.0.0.1:{receiver.port}"
            )
            == 2
        )
        assert await effects_worker.send() == {"done": 2}
        assert await effects_worker.runtime.org("globex").dead_letters.retry_all("effect") == 0
        assert await effects_worker.runtime.org(ORG).dead_letters.retry_all("effect") == 1
        assert await effects_worker.send() == {"done": 1}


async def test_what_is_no_dead_letter_of_the_org_is_not_found(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    await effects_worker.start("telling", url=receiver.url, order=7)
    effect = await effects_worker.effect()
    receiver.will(ReceiverReply(404))
    for org, effect_id in ((ORG, uuid4()), (ORG, effect["id"]), ("globex", effect["id"])):
        with pytest.raises(Refused, match="NOT_FOUND"):
            await effects_worker.runtime.org(org).dead_letters.retry(effect_id, "effect")
    await effects_worker.send()
    with pytest.raises(Refused, match="NOT_FOUND"):
        await effects_worker.runtime.org("globex").dead_letters.retry(effect["id"], "effect")
    await effects_worker.runtime.org(ORG).dead_letters.retry(effect["id"], "effect")


async def test_effects_of_a_cancelled_instance_still_go_out(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """D24: what was enqueued was promised."""
    tell = {"id": "tell", "type": "webhook_out", "url": "{workflow.url}"}
    wait = {"id": "wait", "type": "wait", "key": "never"}
    arrows = [{"from": "tell", "to": "wait"}, {"from": "wait", "to": "end"}]
    await publish_steps(
        effects_worker.database, "long", [tell, wait, {"id": "end", "type": "terminal"}], arrows
    )
    view = await effects_worker.start("long", url=receiver.url)
    await effects_worker.runtime.org(ORG, ANN).instances.cancel(view.id, "no")
    assert await effects_worker.send() == {"done": 1}
