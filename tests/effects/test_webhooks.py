"""Webhooks, end to end: enqueued with their step, sent by the worker, signed, tried again, and proved."""


from tests.effects.receiver import Receiver, reply_json
from tests.effects.sending import Office, publish_webhook


async def test_step_is_done_when_the_webhook_is_enqueued_and_evidence_follows(
    office: Office, receiver: Receiver
) -> None:
    await publish_webhook(office.database)
    view = await office.start("telling", url=f"{receiver.url}/orders", order=7)
    assert view.status == "completed"
    assert receiver.received == []
    before = (await office.step(view.id, "tell"))["output_json"]

    receiver.will(reply_json({"thanks": True}))
    assert await office.send() == {"completed": 1}
    (received,) = receiver.received
    assert (received.method, received.path, received.json) == ("POST", "/orders", {"order": 7})
    effect = await office.effect()
    assert received.key == effect["event_idempotency_key"]
    assert (effect["status"], effect["attempts"], effect["completed_at"]) == (
        "completed",
        1,
        office.database.clock.now(),
    )
    evidence = effect["response_json"]
    assert (evidence["status"], evidence["attempt"], evidence["body"]) == (200, 1, '{"thanks": true}')
    assert evidence["headers"]["content-type"] == "application/json"
    assert evidence["took_ms"] >= 0
    after = (await office.step(view.id, "tell"))["output_json"]
    assert after == {**before, "evidence": {str(effect["id"]): evidence}}
