"""Incidents: what waits for an operator is grouped by error, listed with the commands that help, and logged once."""

from typing import Any
from uuid import UUID

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.operations.health import health
from assent.operations.incidents import IncidentFilter
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from tests.authored import END, arrows, call
from tests.receiver import Receiver, ReceiverReply
from tests.workers import EffectsWorker
from tests.world import ANN, ORG, actor, drain, fetch, publish_steps, publish_webhook

OLGA = actor("olga", "workflows:retry")
ADMIN = actor("ada", *(f"workflows:{name}" for name in ("retry", "cancel", "repair")))


async def pause_one(runtime: Runtime) -> UUID:
    """Return an instance of `telling` that has no address to send to."""
    view = await runtime.org(ORG, ANN).instances.start("telling", {"url": ""})
    assert view.status == "paused"
    return view.id


async def test_paused_instances_and_dead_letters_are_grouped_by_code_definition_and_node(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock
) -> None:
    runtime = effects_worker.runtime
    await publish_webhook(effects_worker.database)
    first = await pause_one(runtime)
    clock.advance("1m")
    second = await pause_one(runtime)
    clock.advance("1m")
    receiver.will(ReceiverReply(404))
    sent = await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.send()
    effect = await effects_worker.effect()

    dead, paused = await runtime.org(ORG, OLGA).operations.incidents()
    assert (paused.kind, paused.definition, paused.node, paused.number) == ("instance", "telling", "tell", 2)
    assert paused.examples == (second, first)
    assert (paused.last_at - paused.first_at).total_seconds() == 60
    assert (dead.kind, dead.code, dead.definition, dead.node) == ("effect", "HTTP_404", "telling", "tell")
    assert dead.examples == (effect["id"],)

    each = await runtime.org(ORG, OLGA).operations.list_incidents()
    assert [(one.id, one.instance_id, one.definition_version) for one in each] == [
        (effect["id"], sent.id, 1),
        (second, second, 1),
        (first, first, 1),
    ]
    assert each[0].ways_out[0].name == "retry"
    for wanted, ids in (
        (IncidentFilter(kind="effect"), [effect["id"]]),
        (IncidentFilter(code=paused.code), [second, first]),
        (IncidentFilter(definition="telling", node="tell"), [effect["id"], second, first]),
        (IncidentFilter(node="elsewhere"), []),
    ):
        found = await runtime.org(ORG, OLGA).operations.list_incidents(wanted)
        assert [one.id for one in found] == ids
    (newest,) = await runtime.org(ORG, OLGA).operations.list_incidents(limit=1)
    rest = await runtime.org(ORG, OLGA).operations.list_incidents(after=(newest.since, newest.id))
    assert [newest, *rest] == each


async def test_incidents_of_another_org_and_of_another_partition_are_not_seen(
    effects_worker: EffectsWorker,
) -> None:
    runtime = effects_worker.runtime
    await publish_webhook(effects_worker.database)
    await pause_one(runtime)
    north = runtime.org(ORG, ANN, "north")
    in_north = (await north.instances.start("telling", {"url": ""})).id
    assert await runtime.org("globex", OLGA).operations.incidents() == []
    assert await runtime.org("globex", OLGA).operations.list_incidents() == []
    (group,) = await runtime.org(ORG, OLGA, "north").operations.incidents()
    assert group.examples == (in_north,)
    (one,) = await runtime.org(ORG, OLGA, "north").operations.list_incidents()
    assert one.id == in_north


async def test_incidents_are_for_operators(effects_worker: EffectsWorker) -> None:
    operations = effects_worker.runtime.org(ORG, ANN).operations
    for ask in (operations.incidents, operations.list_incidents):
        with pytest.raises(Refused, match="workflows:retry"):
            await ask()


async def test_instance_that_an_operator_paused_is_no_incident(effects_worker: EffectsWorker) -> None:
    runtime = effects_worker.runtime
    await publish_steps(
        effects_worker.database,
        "waiting",
        [{"id": "wait", "type": "wait_timer", "for": "1h"}, END],
        arrows("wait", "end"),
    )
    view = await runtime.org(ORG, ANN).instances.start("waiting")
    await runtime.org(ORG, actor("olga", "workflows:pause")).instances.pause(view.id)
    assert await runtime.org(ORG, OLGA).operations.incidents() == []


async def test_dead_event_of_a_paused_instance_is_one_incident_and_one_line_each(
    effects_worker: EffectsWorker, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, database = effects_worker.runtime, effects_worker.database

    async def fail(*_: object) -> None:
        raise RuntimeError("the shop is closed")

    runtime.core.advancing.operations["shop.confirm"] = fail
    await publish_steps(
        database, "confirming", [call("confirm", "shop.confirm"), END], arrows("confirm", "end")
    )
    (instance_id,) = await runtime.org(ORG, ANN).instances.start_many("confirming", [{}])
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_events_outbox SET attempts_max = 1 WHERE org_id = 'acme' AND status = 'pending'"
        )
    await drain(runtime)
    (group,) = await runtime.org(ORG, OLGA).operations.incidents()
    assert (group.kind, group.node, group.examples) == ("instance", "confirm", (instance_id,))
    paused, dead = [record.__dict__ for record in caplog.records if record.name.startswith("assent")]
    assert (paused["message"], dead["message"]) == ("instance is paused by an incident", "job is dead")
    assert (paused["org_id"], paused["instance_id"]) == (ORG, str(instance_id))
    assert (paused["definition"], paused["definition_version"], paused["node"]) == (
        "confirming",
        1,
        "confirm",
    )
    assert paused["code"] == group.code
    assert (dead["kind"], dead["code"], dead["instance_id"]) == ("event", "EVENT_FAILED", str(instance_id))
    assert "the shop is closed" in dead["error"]


async def test_incident_of_a_command_is_logged_once_and_its_retry_once_more(
    effects_worker: EffectsWorker, caplog: pytest.LogCaptureFixture
) -> None:
    await publish_webhook(effects_worker.database)
    instance_id = await pause_one(effects_worker.runtime)
    (line,) = [record.__dict__ for record in caplog.records if record.name.startswith("assent")]
    assert (line["instance_id"], line["node"]) == (str(instance_id), "tell")
    await effects_worker.runtime.org(ORG, OLGA).instances.retry(instance_id)
    assert [record.getMessage() for record in caplog.records] == [line["message"]] * 2


async def test_effect_that_dies_is_logged_with_its_id_code_and_instance(
    effects_worker: EffectsWorker, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    await publish_webhook(effects_worker.database)
    receiver.will(ReceiverReply(404))
    view = await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.send()
    (line,) = [record.__dict__ for record in caplog.records if record.getMessage() == "job is dead"]
    effect = await effects_worker.effect()
    assert (line["job_id"], line["kind"], line["code"]) == (str(effect["id"]), "effect", "HTTP_404")
    assert (line["org_id"], line["instance_id"]) == (ORG, str(view.id))
    assert "404" in line["error"]


ERRAND = [
    {"id": "tell", "type": "webhook_out", "url": "{workflow.url}", "body": {"a": "1"}, "await": True},
    END,
    {"id": "repaired", "type": "end"},
]
WITH_ERROR_EDGE = [*arrows("tell", "end"), {"from": "tell", "to": "repaired", "event": "error"}]


async def fail_awaited(
    effects_worker: EffectsWorker, receiver: Receiver, edges: list[dict[str, Any]]
) -> UUID:
    """Return an instance whose awaited effect is dead."""
    await publish_steps(effects_worker.database, "errand", ERRAND[: len(edges) + 1], edges)
    receiver.will(ReceiverReply(404))
    view = await effects_worker.start("errand", url=receiver.url)
    await effects_worker.work()
    return view.id


async def test_effect_whose_step_took_its_error_edge_is_no_dead_letter(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    instance_id = await fail_awaited(effects_worker, receiver, WITH_ERROR_EDGE)
    assert await effects_worker.status(instance_id) == "completed"
    runtime, database = effects_worker.runtime, effects_worker.database
    assert (await effects_worker.effect())["status"] == "dead"
    assert await runtime.org(ORG, OLGA).dead_letters.list() == []
    assert await runtime.org(ORG, OLGA).operations.incidents() == []
    found = await health(database, ORG)
    assert (found.dead_letters, found.problems) == ((), ())
    assert {queue.dead for queue in found.queues} == {0}


@pytest.mark.parametrize("way", ["retry", "cancel", "force_fail"])
async def test_dead_letter_that_was_awaited_is_gone_once_its_instance_is_helped(
    effects_worker: EffectsWorker, receiver: Receiver, way: str
) -> None:
    instance_id = await fail_awaited(effects_worker, receiver, arrows("tell", "end"))
    org = effects_worker.runtime.org(ORG, ADMIN)
    (letter,) = await org.dead_letters.list()
    assert (letter.awaited, letter.code, letter.ambiguous) == (True, "HTTP_404", False)
    assert letter.evidence["status"] == 404
    (group,) = await org.operations.incidents()
    assert (group.kind, group.number) == ("instance", 1)
    command = getattr(org.instances, way)
    await (command(instance_id) if way == "retry" else command(instance_id, "enough"))
    await effects_worker.work()
    assert await org.dead_letters.list() == []
    assert await org.operations.incidents() == []
    ended = {"retry": "completed", "cancel": "cancelled", "force_fail": "failed"}
    assert await effects_worker.status(instance_id) == ended[way]


async def test_dead_letter_is_discarded_with_a_reason_that_the_audit_log_keeps(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    receiver.will(ReceiverReply(404))
    await effects_worker.start("telling", url=receiver.url, order=7)
    await effects_worker.send()
    effect = await effects_worker.effect()
    org = effects_worker.runtime.org(ORG, ADMIN)
    with pytest.raises(Refused, match="workflows:repair"):
        await effects_worker.runtime.org(ORG, OLGA).dead_letters.discard(effect["id"], "paid by hand")
    with pytest.raises(Refused, match="NOT_FOUND"):
        await effects_worker.runtime.org("globex", ADMIN).dead_letters.discard(effect["id"], "not ours")
    assert await org.dead_letters.discard(effect["id"], "paid by hand") == "effect"
    assert await org.dead_letters.list() == []
    assert await org.operations.incidents() == []
    assert await org.dead_letters.retry_all() == 0
    for again in (org.dead_letters.retry(effect["id"]), org.dead_letters.discard(effect["id"], "twice")):
        with pytest.raises(Refused, match="NOT_FOUND"):
            await again
    (entry,) = await fetch(
        effects_worker.database,
        "SELECT actor_id, subject_id, details FROM assent.audit_log"
        " WHERE org_id = 'acme' AND action = 'effect.discard'",
    )
    assert (entry["actor_id"], entry["subject_id"]) == ("ada", str(effect["id"]))
    assert entry["details"] == {"reason": "paid by hand"}


async def test_edited_variables_let_a_retry_succeed_and_make_the_editor_an_originator(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database)
    instance_id = await pause_one(effects_worker.runtime)
    org = effects_worker.runtime.org(ORG, ADMIN)
    view = await org.instances.edit_variables(
        instance_id, {"url": receiver.url, "order": 7}, "a typing error"
    )
    assert (view.status, view.context["url"]) == ("paused", receiver.url)
    row = await effects_worker.instance(instance_id)
    assert row["originators"]["ids"] == ["ann", "ada"]
    kept, folded = await org.operations.fold(instance_id)
    assert kept == folded
    assert (await org.instances.retry(instance_id)).status == "completed"
    await effects_worker.work()
    assert len(receiver.keys) == 1
    (entry,) = await fetch(
        effects_worker.database,
        "SELECT actor_id, reason, details FROM assent.audit_log"
        " WHERE org_id = 'acme' AND action = 'workflow.edit_variables'",
    )
    assert (entry["actor_id"], entry["reason"]) == ("ada", "a typing error")
    assert entry["details"] == {"names": ["order", "url"]}


@pytest.mark.parametrize(
    ("who", "variables", "code"),
    [
        (OLGA, {"url": "x"}, "POLICY_DENIED"),
        (ADMIN, {"url": 7}, "WRONG_TYPE"),
        (ADMIN, {"_last_error": "x"}, "RESERVED_NAME"),
        (ADMIN, {"approved_by": "bea"}, "RESERVED_NAME"),
    ],
)
async def test_edit_that_is_refused_changes_nothing(
    effects_worker: EffectsWorker, who: Actor, variables: dict[str, Any], code: str
) -> None:
    await publish_webhook(effects_worker.database)
    instance_id = await pause_one(effects_worker.runtime)
    before = await effects_worker.instance(instance_id)
    with pytest.raises(Refused, match=code):
        await effects_worker.runtime.org(ORG, who).instances.edit_variables(instance_id, variables)
    assert await effects_worker.instance(instance_id) == before


async def test_variables_of_an_instance_that_is_not_paused_are_not_edited(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_steps(
        effects_worker.database,
        "waiting",
        [{"id": "wait", "type": "wait_timer", "for": "1h"}, END],
        arrows("wait", "end"),
    )
    view = await effects_worker.start("waiting")
    with pytest.raises(Refused, match="WORKFLOW_NOT_PAUSED"):
        await effects_worker.runtime.org(ORG, ADMIN).instances.edit_variables(view.id, {"a": 1})


@pytest.mark.parametrize("way", ["edit_and_retry", "skip", "cancel", "force_fail"])
async def test_each_way_out_of_an_incident_leaves_neither_an_incident_nor_a_stuck_instance(
    effects_worker: EffectsWorker, receiver: Receiver, clock: MovedClock, way: str
) -> None:
    await publish_webhook(effects_worker.database)
    instance_id = await pause_one(effects_worker.runtime)
    org = effects_worker.runtime.org(ORG, ADMIN)
    (incident,) = await org.operations.list_incidents()
    offered = {way_out.name for way_out in incident.ways_out}
    assert offered == {"retry", "skip", "edit_variables", "cancel", "force_fail"}
    match way:
        case "edit_and_retry":
            await org.instances.edit_variables(instance_id, {"url": receiver.url, "order": 7})
            await org.instances.retry(instance_id)
        case "skip":
            await org.instances.skip(instance_id, "tell", "tell->end", "not needed")
        case "cancel":
            await org.instances.cancel(instance_id, "not needed")
        case _:
            await org.instances.force_fail(instance_id, "not needed")
    await effects_worker.work()
    clock.advance("1h")
    found = await health(effects_worker.database, ORG)
    assert (found.stuck, found.incidents) == ((), ())
    assert await org.operations.incidents() == []
    assert await effects_worker.status(instance_id) in ("completed", "cancelled", "failed")
