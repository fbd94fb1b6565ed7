"""Number series: one counter per org, type, field and period, without gaps, and written by no caller."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.model.actor import SYSTEM
from assent.model.contract import parse_contract
from assent.model.ids import new_id
from assent.model.mutation import Command, Entity, Mutation, Refused, Rejection
from assent.model.problems import format_path
from assent.store.database import Connection, Database
from tests.kernel.commands import command
from tests.kernel.test_unique import LIFECYCLE
from tests.plain_sql import wait_until_blocked
from tests.world import rows

BILL: dict[str, Any] = {
    "contract": "bill",
    "version": 1,
    "workflow": "none",
    "fields": {
        "number": {"type": "text", "series": "B-{year}-{number:05}"},
        "serial": {"type": "text", "series": "{number}"},
        "total": {"type": "integer", "min": 1},
        "code": {"type": "text", "unique": True},
    },
    "lifecycle": LIFECYCLE,
}


@pytest.fixture
def app() -> App:
    app = App([BILL, {**BILL, "contract": "offer"}])

    @app.action("bill.renumber")
    def renumber(entity: Entity, payload: Any) -> dict[str, Any]:
        return {"number": "B-2026-00099"}

    return app


def creating(org_id: str = "acme", kind: str = "bill", **payload: Any) -> Command:
    return command(f"{kind}.create", SYSTEM, payload=payload, org_id=org_id)


async def create(kernel: Kernel, *args: str, **payload: Any) -> str:
    entity = (await kernel.mutate(creating(*args, **payload))).entity
    return f"{entity.data['number']} {entity.data['serial']}"


async def test_new_entities_are_numbered_per_org_and_type(kernel: Kernel, database: Database) -> None:
    year = database.clock.now().year
    assert await create(kernel) == f"B-{year}-00001 1"
    assert await create(kernel) == f"B-{year}-00002 2"
    assert await create(kernel, "acme", "offer") == f"B-{year}-00001 1"
    assert await create(kernel, "beta") == f"B-{year}-00001 1"
    stored = [row["data"]["serial"] for row in await rows(database, "entity_versions")]
    assert sorted(stored) == ["1", "1", "1", "2"]
    # The audit entry of the creation shows the number.
    assert all(row["changes"]["serial"][1] for row in await rows(database, "audit_log"))


async def test_refused_documents_leave_no_gap(kernel: Kernel, database: Database) -> None:
    await create(kernel, code="a")
    for refused in (creating(total=0), creating(code="a")):
        with pytest.raises(Refused):
            await kernel.mutate(refused)
    outcomes = await kernel.mutate_many(
        [creating(), creating(total=0), creating(code="a"), creating(code="b")]
    )
    found = [one.code if isinstance(one, Rejection) else one.entity.data["serial"] for one in outcomes]
    assert found == ["2", "OUT_OF_RANGE", "NOT_UNIQUE", "3"]


async def test_many_commands_draw_their_numbers_in_one_statement(kernel: Kernel, database: Database) -> None:
    outcomes = await kernel.mutate_many([creating() for _ in range(300)])
    serials = [one.entity.data["serial"] for one in outcomes if isinstance(one, Mutation)]
    assert serials == [str(number) for number in range(1, 301)]
    counters = [(row["field"], row["last_number"]) for row in await rows(database, "number_series")]
    assert sorted(counters) == [("number", 300), ("serial", 300)]


async def test_creates_that_come_together_are_numbered_without_gaps(kernel: Kernel) -> None:
    outcomes = await asyncio.gather(*(kernel.mutate(creating()) for _ in range(40)))
    serials = sorted(int(outcome.entity.data["serial"]) for outcome in outcomes)
    assert serials == list(range(1, 41))


async def test_entity_that_is_created_and_changed_in_one_call_keeps_its_number(
    kernel: Kernel, database: Database
) -> None:
    made, fresh = (await kernel.mutate(creating())).entity, new_id(database.clock.now())
    asked = [
        command("bill.create", SYSTEM, payload={}, entity_id=fresh),
        command("bill.update", SYSTEM, payload={"total": 5}, entity_id=fresh),
    ]
    outcomes = await kernel.mutate_many(asked)
    found = [(one.entity.version, one.entity.data) for one in outcomes if isinstance(one, Mutation)]
    number = made.data["number"].replace("00001", "00002")
    drawn = {"number": number, "serial": "2"}
    assert found == [(1, drawn), (2, {**drawn, "total": 5})]


async def test_amendment_draws_a_number_of_its_own(kernel: Kernel) -> None:
    made = (await kernel.mutate(creating())).entity
    closed = (await kernel.mutate(command("bill.close", SYSTEM, made))).entity
    amended = (await kernel.mutate(command("bill.amend", SYSTEM, closed, payload={}))).entity
    assert (closed.data["serial"], amended.data["serial"]) == ("1", "2")


async def test_number_is_written_by_no_caller(kernel: Kernel) -> None:
    made = (await kernel.mutate(creating())).entity
    tried = [
        creating(number="B-2026-00099"),
        command("bill.update", SYSTEM, made, payload={"number": "B-2026-00099"}),
        command("bill.update", SYSTEM, made, payload={"number": None}),
        command("bill.renumber", SYSTEM, made),
    ]
    for asked in tried:
        with pytest.raises(Refused) as caught:
            await kernel.mutate(asked)
        assert caught.value.code == "SYSTEM_FIELD"
    # What is as it was is no change.
    await kernel.mutate(command("bill.update", SYSTEM, made, payload={**made.data, "total": 3}))


async def test_number_is_not_written_by_a_workflow(kernel: Kernel, database: Database) -> None:
    instance = (await kernel.mutate(creating())).entity.id
    with pytest.raises(Refused) as caught:
        await kernel.mutate(
            command("bill.create", SYSTEM, payload={"number": "B-2026-00099"}, by_instance=instance)
        )
    assert caught.value.code == "SYSTEM_FIELD"


async def test_new_year_begins_at_one(kernel: Kernel, database: Database) -> None:
    year = database.clock.now().year
    await create(kernel)
    database.clock.advance(timedelta(days=366))  # type: ignore[attr-defined]
    assert await create(kernel) == f"B-{year + 1}-00001 2"


@pytest.mark.parametrize("commits", [True, False], ids=["first commits", "first rolls back"])
async def test_second_of_two_creates_waits_for_the_first(
    kernel: Kernel, database: Database, commits: bool
) -> None:
    async def second(waiter: "asyncio.Future[Connection]") -> str:
        async with database.transaction("acme") as connection:
            waiter.set_result(connection)
            (outcome,) = await kernel.mutate_in(connection, [creating()])
            assert isinstance(outcome, Mutation)
            return str(outcome.entity.data["serial"])

    async with database.transaction(None) as observer:
        task = None
        try:
            async with database.transaction("acme") as connection:
                await kernel.mutate_in(connection, [creating()])
                waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(second(waiter))
                await wait_until_blocked(observer, await waiter)
                if not commits:
                    raise LookupError
        except LookupError:
            pass
        assert task is not None
        assert await task == ("2" if commits else "1")
    assert (await create(kernel)).endswith("3 3" if commits else "2 2")


BAD_SERIES = (
    "INV-{year}",
    "{number}-{number}",
    "INV-{number:5}",
    "INV-{number:099}",
    "INV-{numbre}",
    "INV-{number",
    "{month}-{number}",
    "\n{number}",
    "x" * 100 + "{number}",
    "",
)


@pytest.mark.parametrize("pattern", BAD_SERIES)
def test_bad_pattern_is_a_problem(pattern: str) -> None:
    fields = {"number": {"type": "text", "series": pattern}}
    _, problems = parse_contract({**BILL, "fields": fields})
    assert [(one.code, format_path(one.path)) for one in problems] == [
        ("BAD_PATTERN", "fields.number.series")
    ]


@pytest.mark.parametrize(
    ("field", "code", "path"),
    [
        ({"type": "integer", "series": "{number}"}, "MISPLACED_KEY", "fields.number.series"),
        ({"type": "text", "series": "{number}", "system": False}, "BAD_VALUE", "fields.number.system"),
        ({"type": "text", "series": "{number}", "unique": False}, "BAD_VALUE", "fields.number.unique"),
        ({"type": "text", "series": "{number}", "default": "x"}, "MISPLACED_KEY", "fields.number.default"),
        ({"type": "text", "series": "{number}", "max": 3}, "MISPLACED_KEY", "fields.number.max"),
        (
            {"type": "object", "fields": {"no": {"type": "text", "series": "{number}"}}},
            "MISPLACED_KEY",
            "fields.number.fields.no.series",
        ),
    ],
)
def test_misplaced_series_is_a_problem(field: dict[str, Any], code: str, path: str) -> None:
    _, problems = parse_contract({**BILL, "fields": {"number": field}})
    assert [(one.code, format_path(one.path)) for one in problems] == [(code, path)]
