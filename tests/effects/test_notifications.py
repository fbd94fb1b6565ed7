"""Notifications: they never block, go by adapters that an application registers, and say who was not told."""

import asyncio
import logging
from typing import Any

import pytest

from assent.app import App
from assent.effects.outlets import CannotBeSent, Message
from assent.store.database import Database
from tests.workers import EffectsWorker, open_effects_worker
from tests.world import insert_org, publish_step

CHANNELS = ("sms", "in_app", "chat", "email")


def notification(channel: str, to: str | list[str] = "{workflow.to}", **rest: Any) -> dict[str, Any]:
    return {"id": "tell", "type": "notification", "channel": channel, "to": to, "text": "Hello", **rest}


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("form", ["plain", "async"])
async def test_adapter_of_the_application_sends(
    app: App, database: Database, channel: Any, form: str
) -> None:
    sent: list[Message] = []

    def send(message: Message) -> dict[str, str]:
        sent.append(message)
        return {"provider_id": "p-1"}

    async def send_async(message: Message) -> dict[str, str]:
        return send(message)

    app.adapter(channel, send if form == "plain" else send_async)
    effects_worker = open_effects_worker(app, database)
    await publish_step(database, notification(channel, subject="Hi", label="Tell them"))
    view = await effects_worker.start("telling", to="bea")
    assert view.status == "completed"
    assert await effects_worker.send() == {"done": 1}
    effect = await effects_worker.effect()
    assert sent == [Message("acme", channel, "bea", "Hi", "Hello", effect["key"])]
    assert effect["output"]["adapter"] == {"provider_id": "p-1"}


@pytest.mark.parametrize("channel", CHANNELS)
async def test_without_an_adapter_it_is_a_dead_letter_that_says_what_is_missing(
    effects_worker: EffectsWorker, channel: str
) -> None:
    await publish_step(effects_worker.database, notification(channel))
    view = await effects_worker.start("telling", to="bea@acme.example")
    assert await effects_worker.send() == {"dead": 1}
    effect = await effects_worker.effect()
    assert effect["error"].startswith(f"NO_ADAPTER: there is no adapter for {channel}")
    assert f"app.adapter('{channel}', send)" in effect["error"]
    assert await effects_worker.status(view.id) == "completed", "notifications never block"


async def test_log_takes_the_place_of_the_adapter_only_where_the_setting_says_so(
    app: App, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Message] = []
    app.adapter("sms", sent.append)
    effects_worker = open_effects_worker(app, database).sending(log=frozenset({"sms"}))
    await publish_step(database, notification("sms", subject="Hi"))
    await effects_worker.start("telling", to="+49 30 1")
    with caplog.at_level(logging.INFO, "assent.effects.deliver"):
        assert await effects_worker.send() == {"done": 1}
    assert sent == []
    (record,) = [record for record in caplog.records if record.message == "message not sent"]
    assert (record.to, record.text) == ("+49 30 1", "Hello")  # type: ignore[attr-defined]
    assert (await effects_worker.effect())["output"]["logged"] is True


@pytest.mark.parametrize("to", ["", "   ", None, []])
async def test_nobody_to_tell_completes_and_says_so(effects_worker: EffectsWorker, to: Any) -> None:
    await publish_step(effects_worker.database, notification("email"))
    view = await effects_worker.start("telling", to=to)
    assert view.status == "completed"
    output = (await effects_worker.step(view.id, "tell"))["output_json"]
    assert (output["recipients"], output["reason"]) == ([], "`to` of `tell` has no recipients")
    assert await effects_worker.effects() == []


async def test_several_people_are_told_each_by_an_effect_of_their_own(app: App, database: Database) -> None:
    def send(message: Message) -> None:
        if message.to == "bob":
            raise CannotBeSent("no phone")

    app.adapter("sms", send)
    effects_worker = open_effects_worker(app, database)
    await publish_step(database, notification("sms"))
    view = await effects_worker.start("telling", to=["ann", "bob", "ann", "", "cy"])
    assert (await effects_worker.step(view.id, "tell"))["output_json"]["recipients"] == ["ann", "bob", "cy"]
    assert await effects_worker.send() == {"done": 2, "dead": 1}
    evidence = (await effects_worker.step(view.id, "tell"))["output_json"]["evidence"]
    assert sorted(found["outcome"] for found in evidence.values()) == [
        "dead",
        "done",
        "done",
    ]


async def test_author_may_list_several_recipients(effects_worker: EffectsWorker) -> None:
    await publish_step(effects_worker.database, notification("sms", ["ann", "{workflow.to}", "ann"]))
    view = await effects_worker.start("telling", to=["bob", "", "cy"])
    assert (await effects_worker.step(view.id, "tell"))["output_json"]["recipients"] == ["ann", "bob", "cy"]
    view = await effects_worker.start("telling", to=[f"p{number}" for number in range(50)])
    error = (await effects_worker.step(view.id, "tell"))["output_json"]["error"]
    assert error["code"] == "TOO_MANY_RECIPIENTS", "the limit counts all of them"


async def test_errors_with_any_text_can_be_kept(app: App, database: Database) -> None:
    """PostgreSQL keeps no NUL and no half of a surrogate pair; the attempt is recorded all the same."""

    async def send(message: Message) -> None:
        raise RuntimeError("\0 and \ud800" + "x" * 5_000)

    app.adapter("chat", send)
    effects_worker = open_effects_worker(app, database)
    await publish_step(database, notification("chat"))
    await effects_worker.start("telling", to="#orders")
    assert await effects_worker.send() == {"retrying": 1}
    assert len((await effects_worker.effect())["error"]) <= 2_100


async def test_adapter_that_never_ends_is_cut_off_and_ambiguous(app: App, database: Database) -> None:
    async def send(message: Message) -> None:
        await asyncio.sleep(60)

    app.adapter("chat", send)
    effects_worker = open_effects_worker(app, database).sending(total_timeout_ms=50)
    await publish_step(database, notification("chat"))
    await effects_worker.start("telling", to="#orders")
    assert await effects_worker.send() == {"retrying": 1}
    effect = await effects_worker.effect()
    assert (effect["ambiguous"], effect["error"].partition(":")[0]) == (True, "NO_ANSWER")


async def test_message_without_a_subject_is_named_after_its_step(app: App, database: Database) -> None:
    sent: list[Message] = []
    app.adapter("in_app", sent.append)
    effects_worker = open_effects_worker(app, database)
    await publish_step(database, notification("in_app", label="Order confirmed"))
    await effects_worker.start("telling", to="bea")
    await effects_worker.send()
    assert sent[0].subject == "Order confirmed"


async def _set_org(database: Database, **settings: Any) -> None:
    async with database.transaction(None) as connection:
        await insert_org(connection, settings=settings)


async def test_more_than_fifty_recipients_fail_the_step_and_nobody_is_told(
    effects_worker: EffectsWorker,
) -> None:
    await publish_step(effects_worker.database, notification("email"))
    many = [f"p{number}@acme.example" for number in range(51)]
    view = await effects_worker.start("telling", to=many)
    assert view.status == "paused"
    error = (await effects_worker.step(view.id, "tell"))["output_json"]["error"]
    assert error["code"] == "TOO_MANY_RECIPIENTS"
    assert "51" in error["message"]
    assert await effects_worker.effects() == []

    assert (await effects_worker.start("telling", to=many[:50])).status == "completed"
    assert len(await effects_worker.effects()) == 50


async def test_setting_of_the_org_says_how_many_recipients_there_may_be(
    effects_worker: EffectsWorker,
) -> None:
    await _set_org(effects_worker.database, recipients_max=2)
    await publish_step(effects_worker.database, notification("email"))
    assert (
        await effects_worker.start("telling", to=["a@x.example", "b@x.example", "c@x.example"])
    ).status == "paused"
    assert (await effects_worker.start("telling", to=["a@x.example", "b@x.example"])).status == "completed"


@pytest.mark.parametrize("setting", [0, -1, 1_001, "many", True, None])
async def test_setting_that_is_no_number_of_recipients_counts_as_unset(
    effects_worker: EffectsWorker, setting: Any
) -> None:
    await _set_org(effects_worker.database, recipients_max=setting)
    await publish_step(effects_worker.database, notification("email"))
    people = [f"p{number}@acme.example" for number in range(51)]
    assert (await effects_worker.start("telling", to=people)).status == "paused"
    assert (await effects_worker.start("telling", to=people[1:])).status == "completed"
