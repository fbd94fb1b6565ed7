"""Bad input: one clear error with a code and a path, and nothing written."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.model.actor import SYSTEM
from assent.model.mutation import Refused
from assent.store.database import Database
from tests.kernel.commands import command, counts, create_expense
from tests.world import EXPENSE

EVERYTHING: dict[str, Any] = {
    "contract": "everything",
    "version": 1,
    "workflow": "none",
    "fields": {
        "text": {"type": "text", "min": 2, "max": 5},
        "integer": {"type": "integer", "min": -3, "max": 3},
        "money": {"type": "money", "min": 0},
        "decimal": {"type": "decimal", "max": "9.99"},
        "date": {"type": "date", "min": "2026-01-01"},
        "datetime": {"type": "datetime", "max": "2027-01-01T00:00:00Z"},
        "boolean": {"type": "boolean"},
        "choice": {"type": "enum", "values": ["EUR", "USD"]},
        "reference": {"type": "reference", "to": "expense"},
        "lines": {
            "type": "list",
            "max": 2,
            "of": {
                "type": "object",
                "fields": {
                    "sku": {"type": "text", "required": True},
                    "count": {"type": "integer"},
                },
            },
        },
        "extra": {"type": "object"},
    },
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}},
}

DEEP: Any = {}
for _ in range(80):
    DEEP = {"deeper": DEEP}

BAD = [
    ({"unknown": 1}, "UNKNOWN_FIELD", "payload.unknown"),
    ({"text": 5}, "WRONG_TYPE", "payload.text"),
    ({"text": "a"}, "OUT_OF_RANGE", "payload.text"),
    ({"text": "abcdef"}, "OUT_OF_RANGE", "payload.text"),
    ({"text": "a\x00b"}, "TEXT_NOT_KEPT", "payload.text"),
    ({"text": "a\ud800b"}, "TEXT_NOT_KEPT", "payload.text"),
    ({"integer": True}, "WRONG_TYPE", "payload.integer"),
    ({"integer": 1.0}, "WRONG_TYPE", "payload.integer"),
    ({"integer": "1"}, "WRONG_TYPE", "payload.integer"),
    ({"integer": 4}, "OUT_OF_RANGE", "payload.integer"),
    ({"money": 2**53}, "NUMBER_NOT_KEPT", "payload.money"),
    ({"money": 19.99}, "WRONG_TYPE", "payload.money"),
    ({"money": -1}, "OUT_OF_RANGE", "payload.money"),
    ({"decimal": 1.5}, "WRONG_TYPE", "payload.decimal"),
    ({"decimal": "1e5"}, "WRONG_TYPE", "payload.decimal"),
    ({"decimal": "NaN"}, "WRONG_TYPE", "payload.decimal"),
    ({"decimal": "10.00"}, "OUT_OF_RANGE", "payload.decimal"),
    ({"date": "2026-02-30"}, "WRONG_TYPE", "payload.date"),
    ({"date": "2025-12-31"}, "OUT_OF_RANGE", "payload.date"),
    ({"datetime": "2026-01-01T10:00:00"}, "WRONG_TYPE", "payload.datetime"),
    ({"datetime": "2027-01-01T00:00:01Z"}, "OUT_OF_RANGE", "payload.datetime"),
    ({"boolean": 1}, "WRONG_TYPE", "payload.boolean"),
    ({"choice": "GBP"}, "BAD_VALUE", "payload.choice"),
    ({"choice": ["EUR"]}, "WRONG_TYPE", "payload.choice"),
    ({"reference": "not-an-id"}, "WRONG_TYPE", "payload.reference"),
    ({"lines": {}}, "WRONG_TYPE", "payload.lines"),
    ({"lines": [{"sku": "a"}] * 3}, "OUT_OF_RANGE", "payload.lines"),
    ({"lines": [{"sku": "a"}, {"count": 1}]}, "MISSING_FIELD", "payload.lines[1].sku"),
    ({"lines": [{"sku": "a", "count": "x"}]}, "WRONG_TYPE", "payload.lines[0].count"),
    ({"lines": [{"sku": "a", "color": 1}]}, "UNKNOWN_FIELD", "payload.lines[0].color"),
    ({"extra": []}, "WRONG_TYPE", "payload.extra"),
    ({"extra": {"nan": float("nan")}}, "NUMBER_NOT_KEPT", "payload.extra.nan"),
    ({"extra": {"infinite": float("inf")}}, "NUMBER_NOT_KEPT", "payload.extra.infinite"),
    ({"extra": {"huge": 10**30}}, "NUMBER_NOT_KEPT", "payload.extra.huge"),
    ({"extra": {"bytes": b"x"}}, "WRONG_TYPE", "payload.extra.bytes"),
    ({"extra": {"a\x00": 1}}, "TEXT_NOT_KEPT", "payload.extra"),
    ({"extra": {1: 1}}, "WRONG_TYPE", "payload.extra"),
    ({"extra": DEEP}, "TOO_DEEP", "payload.extra" + ".deeper" * 63),
    ({"extra": {"big": "x" * 2_000_000}}, "TOO_LARGE", "payload"),
]


@pytest.fixture
def app() -> App:
    return App([EVERYTHING])


@pytest.mark.parametrize(("payload", "code", "where"), BAD)
async def test_bad_values_are_refused_with_a_code_and_a_path(
    kernel: Kernel, database: Database, payload: Any, code: str, where: str
) -> None:
    with pytest.raises(Refused) as caught:
        await kernel.mutate(command("everything.create", SYSTEM, payload=payload))
    problem = caught.value.rejection.problems[0]
    assert (caught.value.code, problem.where) == (code, where)
    assert set((await counts(database)).values()) == {0}


async def test_every_problem_is_told_at_once(kernel: Kernel) -> None:
    payload = {"text": 1, "integer": "x", "unknown": 2}
    with pytest.raises(Refused) as caught:
        await kernel.mutate(command("everything.create", SYSTEM, payload=payload))
    assert [problem.where for problem in caught.value.rejection.problems] == [
        "payload.text",
        "payload.integer",
        "payload.unknown",
    ]
    assert str(caught.value).endswith("(and 2 more)")


async def test_values_of_python_are_kept_in_their_json_form(kernel: Kernel) -> None:
    made = await kernel.mutate(
        command(
            "everything.create",
            SYSTEM,
            payload={
                "decimal": Decimal("1.50"),
                "date": date(2026, 5, 4),
                "datetime": datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC),
                "reference": UUID(int=5),
                "lines": ({"sku": "a"},),
            },
        )
    )
    assert made.entity.data == {
        "decimal": "1.50",
        "date": "2026-05-04",
        "datetime": "2026-05-04T03:02:01+00:00",
        "reference": "00000000-0000-0000-0000-000000000005",
        "lines": [{"sku": "a"}],
    }


async def test_what_is_written_is_what_is_read(kernel: Kernel, database: Database) -> None:
    payload = {
        "text": "żółć",
        "integer": -3,
        "money": 2**53 - 1,
        "boolean": False,
        "extra": {"π": [1, 2.5, None, {"": "\u2028"}]},
    }
    made = await kernel.mutate(command("everything.create", SYSTEM, payload=payload))
    async with database.transaction("acme") as connection:
        data = await connection.fetchval(
            "SELECT data FROM assent.current_entities WHERE org_id = 'acme' AND id = $1", made.entity.id
        )
    assert data == made.entity.data == payload


@pytest.mark.parametrize(
    ("changes", "code", "path"),
    [
        ({"action": "ship.create"}, "UNKNOWN_ENTITY_TYPE", ("action",)),
        ({"action": "everything.explode", "entity_id": UUID(int=1)}, "UNKNOWN_ACTION", ("action",)),
        ({"action": "everything"}, "MISSING_KEY", ("entity_id",)),
        ({"action": "", "entity_id": UUID(int=1)}, "UNKNOWN_ENTITY_TYPE", ("action",)),
        ({"action": "everything.update"}, "MISSING_KEY", ("entity_id",)),
        ({"reason": "x" * 2001}, "TEXT_NOT_KEPT", ("reason",)),
        ({"reason": "\x00"}, "TEXT_NOT_KEPT", ("reason",)),
        ({"trace_id": "\udfff"}, "TEXT_NOT_KEPT", ("trace_id",)),
        ({"payload": ["not", "an", "object"]}, "WRONG_TYPE", ("payload",)),
        ({"payload": None}, "WRONG_TYPE", ("payload",)),
        ({"org_id": "a\x00b"}, "TEXT_NOT_KEPT", ("org_id",)),
    ],
)
async def test_bad_commands_are_refused_with_a_code_and_a_path(
    kernel: Kernel, database: Database, changes: Any, code: str, path: tuple[str, ...]
) -> None:
    asked = replace(command("everything.create", SYSTEM), **changes)
    with pytest.raises(Refused) as caught:
        await kernel.mutate(asked)
    assert (caught.value.code, caught.value.rejection.path) == (code, path)
    assert set((await counts(database)).values()) == {0}


async def test_an_unknown_name_comes_with_the_nearest_known_one(kernel: Kernel) -> None:
    with pytest.raises(Refused) as caught:
        await kernel.mutate(command("everything.create", SYSTEM, payload={"txt": "abc"}))
    assert caught.value.rejection.hint == "did you mean `text`?"


async def test_a_required_field_cannot_be_taken_away(database: Database) -> None:
    kernel = App([EXPENSE]).kernel(database)
    entity = await create_expense(kernel)
    with pytest.raises(Refused, match=r"MISSING_FIELD at payload\.title"):
        await kernel.mutate(command("expense.update", entity=entity, payload={"title": None}))


async def test_a_wrong_value_of_a_required_field_is_one_problem(database: Database) -> None:
    app = App([EVERYTHING])
    app.action("everything.name", payload={"name": {"type": "text", "required": True}})(
        lambda entity, payload: {}
    )
    kernel = app.kernel(database)
    made = await kernel.mutate(command("everything.create", actor=SYSTEM))
    with pytest.raises(Refused) as refused:
        await kernel.mutate(command("everything.name", actor=SYSTEM, entity=made.entity, payload={"name": 7}))
    assert [problem.code for problem in refused.value.rejection.problems] == ["WRONG_TYPE"]
