"""Lists of entities: filters, sorts and pages against a model in memory; what they refuse; counts."""

import random
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.kernel import listing
from assent.model.actor import SYSTEM
from assent.model.contract import parse_contract
from assent.model.entity_filter import EntityFilter
from assent.model.mutation import Entity, Refused
from assent.model.problems import Invalid
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.kernel.bills import BILL, column, create_bill, listed, publish_bill
from tests.world import ANN, ORG, rows

VENDORS = [str(UUID(int=number)) for number in (7, 2**100, 2**127)]
TEXTS = ["", "a", "A", "ab", "Äb", "b", "Straße", "x" * 70, "x" * 70 + "y", "10%", "a_b", "Zebra", "apple"]
POOL: dict[str, list[Any]] = {
    "number": TEXTS,
    "total": [0, -1, 1, -10, 10, 9, 99, 100, -100, 2**53 - 1, -(2**53) + 1],
    "rate": ["0", "-0.0", "0.5", "0.05", "-0.5", "-0.55", "1.50", "1.5", "100", "99.99", "-" + "9" * 40],
    "day": ["2026-01-01", "0999-12-31", "2025-12-31"],
    "at": ["2026-01-01T00:00:00+00:00", "2026-01-01T01:30:00+02:00", "2025-12-31T23:59:59.5+00:00"],
    "paid": [True, False],
    "currency": ["CHF", "EUR", "USD"],
    "vendor": VENDORS,
    "note": ["rent of the office", "Office chairs", "pipes, rent"],
}


@pytest.fixture
def app() -> App:
    return App([BILL])


def a_bill(chance: random.Random) -> dict[str, Any]:
    return {name: chance.choice(values) for name, values in POOL.items() if chance.random() < 0.75}


async def make_bills(runtime: Runtime, clock: MovedClock, number: int, seed: int = 1) -> list[Entity]:
    """Create bills of which several share every value, and the time of their creation too."""
    chance, made = random.Random(seed), []  # noqa: S311
    for _ in range(number):
        if chance.random() < 0.5:
            clock.advance(timedelta(seconds=1))
        made.append(await create_bill(runtime, **a_bill(chance)))
    return made


def in_order(name: str, value: Any) -> Any:
    """Return what Python sorts as lists do: nothing first, texts without case."""
    if value is None:
        return (0,)
    if name == "number":
        folded = value.casefold()[:64]
        return (1, folded)
    if name == "rate":
        return (1, Decimal(value))
    if name == "at":
        from datetime import datetime

        return (1, datetime.fromisoformat(value))
    return (1, value)


def keeps(name: str, test: Callable[[Any], bool]) -> Callable[[Entity], bool]:
    return lambda entity: entity.data.get(name) is not None and test(in_order(name, entity.data[name])[1])


CASES: dict[str, Callable[[Entity], bool]] = {
    "total = 10": keeps("total", lambda value: value == 10),
    "total != 10": lambda entity: entity.data.get("total") != 10,
    "total < 0": keeps("total", lambda value: value < 0),
    "total<=0": keeps("total", lambda value: value <= 0),
    "total > -10": keeps("total", lambda value: value > -10),
    "total >= 99": keeps("total", lambda value: value >= 99),
    "total in 1, 9,100,01": keeps("total", lambda value: value in (1, 9, 100)),
    "total is null": lambda entity: entity.data.get("total") is None,
    "total IS NOT NULL": lambda entity: entity.data.get("total") is not None,
    "rate = 1.5": keeps("rate", lambda value: value == Decimal("1.5")),
    "rate < -0.5": keeps("rate", lambda value: value < Decimal("-0.5")),
    "rate >= 0.05": keeps("rate", lambda value: value >= Decimal("0.05")),
    "day < 2026-01-01": keeps("day", lambda value: value < "2026-01-01"),
    "at = 2025-12-31T23:30:00Z": keeps("at", lambda value: value.hour == 1 and value.minute == 30),
    "paid = true": keeps("paid", lambda value: value is True),
    "paid != true": lambda entity: entity.data.get("paid") is not True,
    "currency in EUR,USD": keeps("currency", lambda value: value in ("EUR", "USD")),
    f"vendor = {VENDORS[1]}": keeps("vendor", lambda value: value == VENDORS[1]),
    "number = a": lambda entity: entity.data.get("number") == "a",
    'number = ""': lambda entity: entity.data.get("number") == "",
    f"number = {'x' * 70}": lambda entity: entity.data.get("number") == "x" * 70,
    "number prefix A": keeps("number", lambda value: value.startswith("a")),
    "number prefix STRASSE": keeps("number", lambda value: value.startswith("strasse")),
    "number prefix 10%": keeps("number", lambda value: value.startswith("10%")),
    "number > apple": keeps("number", lambda value: value > "apple"),
}


@pytest.fixture(params=["gathered", "along an index"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways in which a list is read: a condition that few fit, or pages that look at a few entities each."""
    if request.param == "along an index":
        monkeypatch.setattr(listing, "GATHERED_MAX", 0)
        monkeypatch.setattr(listing, "LOOKED_AT_MAX", 7)
    return str(request.param)


async def test_every_operator_finds_what_fits_and_nothing_else(
    runtime: Runtime, database: Database, clock: MovedClock, how: str
) -> None:
    await publish_bill(database)
    bills = await make_bills(runtime, clock, 60)
    await create_bill(runtime, "beta", total=10, number="a", currency="EUR")
    wrong = {}
    for condition, fits in CASES.items():
        for sort in (None, "total", "-number"):
            found = await listed(runtime, where=[condition], sort=sort, limit=4)
            expected = sorted(bill.id for bill in bills if fits(bill))
            if sorted(bill.id for bill in found) != expected:
                wrong[condition, sort] = (len(found), len(expected))
    assert wrong == {}


@pytest.mark.parametrize("name", [*(name for name in POOL if name != "note"), "created_at", "updated_at"])
async def test_pages_in_any_order_show_each_entity_once_also_those_without_a_value(
    runtime: Runtime, database: Database, clock: MovedClock, name: str, how: str
) -> None:
    await publish_bill(database)
    bills = await make_bills(runtime, clock, 30, seed=2)

    def key(bill: Entity) -> Any:
        return getattr(bill, name) if name.endswith("_at") else in_order(name, bill.data.get(name))

    for sort, where in (
        (name, []),
        (f"-{name}", []),
        (name, ["paid != false"]),
        (f"-{name}", ["total < 50"]),
    ):
        whole = await listed(runtime, sort=sort, where=where)
        assert [key(bill) for bill in whole] == sorted(map(key, whole), reverse=sort.startswith("-"))
        for limit in (1, 4):
            paged = await listed(runtime, sort=sort, where=where, limit=limit)
            assert [bill.id for bill in paged] == [bill.id for bill in whole], (sort, where, limit)
        if not where:
            assert {bill.id for bill in whole} == {bill.id for bill in bills}


async def test_conditions_on_head_and_fields_hold_together(
    runtime: Runtime, database: Database, clock: MovedClock, how: str
) -> None:
    await publish_bill(database)
    bills = await make_bills(runtime, clock, 40, seed=3)
    acme = runtime.org(ORG, SYSTEM).entities
    for bill in bills[::3]:
        await acme.mutate("bill.close", {}, bill.id)
    closed = {bill.id for bill in bills[::3]}
    at = bills[20].created_at
    clock.advance(timedelta(days=1))
    changed = (await acme.mutate("bill.update", {"memo": "x"}, bills[1].id)).entity

    def ids(found: list[Entity]) -> set[UUID]:
        return {bill.id for bill in found}

    since = at.isoformat()
    assert ids(await listed(runtime, state=["closed"], limit=3)) == closed
    assert ids(await listed(runtime, state=["closed", "open"], limit=3)) == ids(bills)
    assert ids(await listed(runtime, state=["closed"], where=["total > 0"], limit=3)) == {
        bill.id for bill in bills if bill.id in closed and bill.data.get("total", 0) > 0
    }
    assert ids(await listed(runtime, created_since=since, limit=3)) == {
        bill.id for bill in bills if bill.created_at >= at
    }
    assert ids(await listed(runtime, created_until=since, where=["paid = true"], limit=3)) == {
        bill.id for bill in bills if bill.created_at < at and bill.data.get("paid") is True
    }
    updated = changed.updated_at.isoformat()
    assert ids(await listed(runtime, updated_since=updated)) == {changed.id}
    assert ids(await listed(runtime, updated_until=updated, sort="-updated_at", limit=3)) == ids(bills) - {
        changed.id
    }
    assert ids(await listed(runtime, created_by="system", limit=3)) == ids(bills)
    assert await listed(runtime, created_by="ann") == []


async def test_words_are_found_in_searched_fields_whole_or_by_their_beginning(
    runtime: Runtime, database: Database, how: str
) -> None:
    await publish_bill(database)
    one = await create_bill(runtime, number="INV-2026-17", note="Rent of the Straße office")
    two = await create_bill(runtime, note="Office chairs, renting", memo="secret")
    await create_bill(runtime, "beta", note="office")

    async def found(q: str) -> set[UUID]:
        return {bill.id for bill in await listed(runtime, q=q)}

    assert await found("OFFICE") == {one.id, two.id}
    assert await found("office rent") == {one.id}
    assert await found("office rent*") == {one.id, two.id}
    assert await found("strasse") == {one.id}
    assert await found("inv-2026-17") == {one.id}
    assert await found("INV-20*") == {one.id}
    assert await found("ren") == set()
    assert await found("secret") == set()
    await runtime.org(ORG, SYSTEM).entities.mutate("bill.update", {"note": "chairs"}, one.id)
    assert await found("office") == {two.id}
    assert await found("chairs") == {one.id, two.id}


async def test_change_of_a_value_and_of_none_is_found_at_once(runtime: Runtime, database: Database) -> None:
    await publish_bill(database)
    acme = runtime.org(ORG, SYSTEM).entities
    bill = await create_bill(runtime, total=5, currency="EUR")
    await acme.mutate("bill.update", {"total": 7, "currency": None}, bill.id)
    assert await listed(runtime, where=["total = 5"]) == []
    assert column(await listed(runtime, where=["total = 7", "currency is null"]), "total") == [7]
    kept = [(row["field"], row["value"]) for row in await rows(database, "indexed_values")]
    assert len(kept) == len(set(kept)) == len([spec for spec in BILL["fields"].values() if "index" in spec])


@pytest.mark.parametrize(
    ("filter", "refused"),
    [
        ({"where": ["memo = x"]}, ("NOT_INDEXED", "where.0", "indexed fields only")),
        ({"where": ["totl = 1"]}, ("UNKNOWN_FIELD", "where.0", "did you mean `total`?")),
        ({"sort": "memo"}, ("NOT_INDEXED", "sort", "index: true")),
        ({"sort": "-created"}, ("UNKNOWN_FIELD", "sort", "did you mean `created_at`?")),
        ({"where": ["total ~ 1"]}, ("BAD_FILTER", "where.0", "is null")),
        ({"where": ["total = much"]}, ("WRONG_TYPE", "where.0", "whole number")),
        ({"where": ["total ="]}, ("BAD_FILTER", "where.0", "needs a value")),
        ({"where": ["total is null 4"]}, ("BAD_FILTER", "where.0", "takes no value")),
        ({"where": ["paid = yes"]}, ("WRONG_TYPE", "where.0", "true")),
        ({"where": ["day >= tomorrow"]}, ("WRONG_TYPE", "where.0", "date")),
        ({"where": ["at >= 2026-01-01T00:00:00"]}, ("WRONG_TYPE", "where.0", "time zone")),
        ({"where": ["total prefix 1"]}, ("BAD_FILTER", "where.0", "text")),
        ({"where": ['number = "a']}, ("BAD_FILTER", "where.0", "quotes")),
        ({"where": ["number = \x00"]}, ("BAD_FILTER", "where.0", "NUL")),
        ({"where": [f"number prefix {'x' * 65}"]}, ("BAD_FILTER", "where.0", "64")),
        ({"where": [f"total in {','.join(map(str, range(51)))}"]}, ("BAD_FILTER", "where.0", "50")),
        ({"where": ["total = 1"] * 21}, ("TOO_LARGE", "where", "20")),
        ({"q": "..."}, ("BAD_FILTER", "q", "words")),
        ({"q": "a b c d e f g h i"}, ("TOO_LONG", "q", "8")),
        ({"state": ["open"] * 21}, ("TOO_LARGE", "state", "20")),
        ({"created_since": "0001-01-01T00:00:00Z"}, ("BAD_VALUE", "created_since", "1900")),
        ({"colour": "red"}, ("UNKNOWN_KEY", "colour", "known")),
    ],
)
async def test_filter_that_cannot_be_meant_is_refused_with_its_place(
    runtime: Runtime, database: Database, filter: dict[str, Any], refused: tuple[str, str, str]
) -> None:
    await publish_bill(database)
    with pytest.raises((Invalid, Refused)) as caught:
        await listed(runtime, **filter)
    error: Any = caught.value
    code, path, said = refused
    (problem,) = error.problems if isinstance(error, Invalid) else error.rejection.problems
    assert (problem.code, ".".join(map(str, problem.path))) == (code, path)
    assert said in f"{problem.message} {problem.hint}"


async def test_cursor_belongs_to_its_order(runtime: Runtime, database: Database) -> None:
    await publish_bill(database)
    for total in (1, 2, 3):
        await create_bill(runtime, total=total)
    acme = runtime.org(ORG, ANN).entities
    page = await acme.list("bill", EntityFilter(sort="total"), limit=1)
    with pytest.raises(Refused, match="cursor"):
        await acme.list("bill", EntityFilter(sort="-total"), cursor=page.next)


async def test_counts_are_exact_up_to_their_limit_and_by_state(
    runtime: Runtime, database: Database, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_bill(database)
    bills = await make_bills(runtime, clock, 30, seed=4)
    acme = runtime.org(ORG, SYSTEM).entities
    await acme.mutate("bill.close", {}, bills[0].id)
    counts = await acme.count("bill")
    assert (counts.count, counts.more) == (30, False)
    assert [(each.state, each.count, each.more) for each in counts.states] == [
        ("closed", 1, False),
        ("open", 29, False),
    ]
    for condition, fits in CASES.items():
        found = await acme.count("bill", EntityFilter(where=(condition,)))
        assert (found.count, found.more) == (sum(map(fits, bills)), False), condition
    assert (await acme.count("bill", EntityFilter(state=("closed",), q="office"))).count <= 1
    monkeypatch.setattr(listing, "COUNTED_MAX", 10)
    capped = await acme.count("bill")
    assert (capped.count, capped.more) == (10, True)
    capped = await acme.count("bill", EntityFilter(where=("paid != false",)))
    assert (capped.count <= 10, capped.more) == (True, True)


async def test_reader_of_a_partition_finds_and_counts_what_is_there(
    runtime: Runtime, database: Database, how: str
) -> None:
    await publish_bill(database)
    for partition, total in (("north", 1), ("south", 2), (None, 3)):
        await runtime.org(ORG, SYSTEM, partition).entities.mutate("bill.create", {"total": total})
    north = runtime.org(ORG, ANN, "north").entities
    of_south = EntityFilter(where=("total = 2",))
    assert (await north.list("bill", of_south)).items == []
    assert (await north.count("bill", of_south)).count == 0
    for wanted in (EntityFilter(), EntityFilter(where=("total > 0",)), EntityFilter(sort="total")):
        assert column(list((await north.list("bill", wanted)).items), "total") == [1]
        counts = await north.count("bill", wanted)
        assert (counts.count, counts.more) == (1, False)


def problems_of(**fields: Any) -> list[tuple[str, str]]:
    _, problems = parse_contract({**BILL, "fields": fields})
    return [(problem.code, ".".join(map(str, problem.path))) for problem in problems]


def test_contract_that_cannot_be_indexed_is_refused() -> None:
    assert problems_of(items={"type": "list", "of": {"type": "text"}, "index": True}) == [
        ("MISPLACED_KEY", "fields.items.index")
    ]
    assert problems_of(total={"type": "money", "search": True}) == [("MISPLACED_KEY", "fields.total.search")]
    assert problems_of(items={"type": "list", "of": {"type": "text", "index": True}}) == [
        ("MISPLACED_KEY", "fields.items.of.index")
    ]
    assert problems_of(created_at={"type": "datetime", "index": True}) == [
        ("RESERVED_NAME", "fields.created_at.index")
    ]
    assert problems_of(**{f"f{number}": {"type": "text", "index": True} for number in range(21)}) == [
        ("TOO_LARGE", "fields")
    ]
