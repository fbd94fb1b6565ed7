"""Dead letters: what was given up stays to be seen, and one call tries it again."""

from typing import Any

import pytest

from assent.model.mutation import Refused
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call
from tests.world import ANN, OPS, ORG, drain, publish_steps, rows


async def given_up(runtime: Runtime, database: Database, clock: MovedClock) -> Any:
    """The one dead letter of a flow whose shop was closed for too long."""

    def closed(connection: Any, arguments: Any) -> Any:
        raise RuntimeError("the shop is closed")

    runtime.core.advancing.operations["shop.confirm"] = closed
    await publish_steps(database, "a.b", [call("confirm", "shop.confirm"), END], arrows("confirm", "end"))
    await runtime.org(ORG, ANN).instances.start_many("a.b", [{}])
    for _ in range(5):
        await drain(runtime)
        clock.advance("10m")
    (letter,) = await runtime.org(ORG).dead_letters.list("event")
    return letter


async def test_what_is_given_up_pauses_its_instance_and_says_why(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    letter = await given_up(runtime, database, clock)
    assert (letter.attempts, "the shop is closed" in letter.error) == (5, True)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["incident"]["code"]) == ("paused", "ATTEMPTS_USED_UP")


async def test_a_revived_letter_lets_its_instance_go_on(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    letter = await given_up(runtime, database, clock)
    runtime.core.advancing.operations["shop.confirm"] = lambda connection, arguments: {"ok": True}
    await runtime.org(ORG, OPS).dead_letters.retry(letter.id, "event")
    (instance,) = await rows(database, "workflow_instances")
    assert instance["status"] == "completed"
    assert await runtime.org(ORG).dead_letters.list("event") == []
    assert {row["status"] for row in await rows(database, "workflow_events_outbox")} == {"completed"}


async def test_only_a_dead_letter_of_ones_own_org_is_revived(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    letter = await given_up(runtime, database, clock)
    with pytest.raises(Refused, match="NOT_FOUND"):
        await runtime.org("other", OPS).dead_letters.retry(letter.id, "event")
