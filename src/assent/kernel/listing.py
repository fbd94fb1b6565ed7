"""Lists and counts of entities: bounded, whatever is asked for and however many entities there are.

A condition that few entities fit is gathered whole. Else a list goes along an index in its order and looks at a bounded
number of entities: a page may be short, or empty, and have a next one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.kernel.entities import ROWS_BYTES_MAX, entity_from, is_cut
from assent.kernel.indexes import NONE, read_indexes
from assent.model.contract import Contract
from assent.model.cursor import ItemPage, cursor_of, id_in, position_of, text_in, time_in
from assent.model.entity_filter import (
    FIRST_TIME,
    LAST_TIME,
    EntityFilter,
    EntitySort,
    RangeCondition,
    ResolvedFilter,
    ValueRange,
    resolve_filter,
)
from assent.model.index_values import LAST, NO_VALUE
from assent.model.mutation import Entity
from assent.store.connection import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.kernel", "kernel.sql")

GATHERED_MAX: Final = 1_000
"""Entities that fit a condition and are gathered to be sorted."""
LOOKED_AT_MAX: Final = 1_000
"""Entities that one page looks at."""
COUNTED_MAX: Final = 10_000
"""Entities up to which a count is exact."""
_FIRST_ID: Final = UUID(int=0)
_LAST_ID: Final = UUID(int=2**128 - 1)

Place = tuple[Any, ...]
"""By what a list is sorted, and the id: a time and an id, or a value, the time of the creation and an id."""


@dataclass(frozen=True, slots=True)
class StateCount:
    state: str
    count: int
    more: bool
    """Whether there are more; the count is exact otherwise."""


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """How many entities fit a filter, in all and by state; with `more`, at least so many."""

    count: int = 0
    more: bool = False
    states: Sequence[StateCount] = ()


async def resolve(connection: Connection, contract: Contract, wanted: EntityFilter) -> ResolvedFilter:
    """Return a filter against the indexes of a type; raise `Refused` with everything that is wrong with it."""
    if not wanted.needs_indexes:
        return resolve_filter(wanted, contract, NONE, {})
    declared = await read_indexes(connection, contract.name)
    return resolve_filter(wanted, contract, declared.declaration, declared.building)


@dataclass(frozen=True, slots=True)
class EntitySearch:
    """A filter for the entities of one type of an org, and of one partition if it is confined to one."""

    org_id: str
    entity_type: str
    partition_id: str | None
    wanted: ResolvedFilter

    @property
    def kind(self) -> tuple[str, str]:
        return self.org_id, self.entity_type

    @property
    def states(self) -> list[str] | None:
        return list(dict.fromkeys(self.wanted.filter.state)) if self.wanted.filter.state is not None else None

    @property
    def head(self) -> tuple[Any, ...]:
        """What is asked of entities themselves, as statements take it."""
        return self.states, self.partition_id, self.wanted.filter.created_by

    @property
    def is_of_all(self) -> bool:
        """Whether every entity of the type fits."""
        wanted = self.wanted
        spans = (*wanted.created, *wanted.updated)
        return (
            not wanted.conditions
            and all(each is None for each in self.head)
            and spans == (FIRST_TIME, LAST_TIME) * 2
        )


async def list_entities(
    connection: Connection, search: EntitySearch, cursor: str | None, limit: int
) -> ItemPage[Entity]:
    """Return a page of entities in the order of their filter, each with its current content."""
    sort = search.wanted.sort
    place = position_of(cursor, _reader_of(sort)) or _place_before(sort)
    found = await _find(connection, search, place, limit + 1)
    shown = found.rows[:limit]
    rows = await connection.fetch(
        _SQL.read_entities, search.org_id, [row["id"] for row in shown], ROWS_BYTES_MAX
    )
    entities = [entity_from(row) for row in rows]
    places = {row["id"]: _cursor_place(sort, row) for row in shown}
    after = places[shown[-1]["id"]] if len(found.rows) > limit else found.place
    if entities and len(entities) < len(shown) and is_cut(rows):
        after = places[entities[-1].id]
    return ItemPage(entities, cursor_of(after) if after else None, lambda entity: places[entity.id])


async def count_entities(connection: Connection, search: EntitySearch, states: Sequence[str]) -> EntityCounts:
    """Return how many entities fit a filter; `states` are those of the contract, for which there is a count each."""
    wanted = search.wanted
    only = search.states if search.states is not None else sorted(states)
    plain = (search.partition_id, wanted.filter.created_by) == (None, None)
    if plain and not wanted.conditions and (*wanted.created, *wanted.updated) == (FIRST_TIME, LAST_TIME) * 2:
        rows = await connection.fetch(_SQL.count_by_state, *search.kind, only, COUNTED_MAX + 1)
        return _counts({row["state"]: row["number"] for row in rows}, more=False)
    candidates = await _gather(connection, search, COUNTED_MAX + 1)
    fitting = await _check(connection, search, candidates[:COUNTED_MAX])
    found = dict.fromkeys(only, 0)
    for row in fitting:
        found[row["state"]] = found.get(row["state"], 0) + 1
    return _counts(found, more=len(candidates) > COUNTED_MAX)


def _counts(found: Mapping[str, int], *, more: bool) -> EntityCounts:
    states = [
        StateCount(state, min(number, COUNTED_MAX), more or number > COUNTED_MAX)
        for state, number in sorted(found.items())
    ]
    total = sum(found.values())
    return EntityCounts(min(total, COUNTED_MAX), more or total > COUNTED_MAX, states)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows in the order of the list, and the place where looking for more of them has ended."""

    rows: Sequence[Row]
    place: list[Any] | None = None
    """None where there is nothing behind the rows."""


async def _find(connection: Connection, search: EntitySearch, place: Place, limit: int) -> _Found:
    if search.is_of_all:
        return _Found(await _page(connection, search, None, place, limit))
    numbers = await _numbers(connection, search, GATHERED_MAX + 1)
    least = min(numbers, key=lambda name: numbers[name])
    sort = search.wanted.sort
    if numbers[least] <= GATHERED_MAX:
        ids = await _gather_by(connection, search, least, GATHERED_MAX + 1)
        rows = await _check(connection, search, ids)
        rows = [
            row
            for row in rows
            if (_place_of(sort, row) < place) is sort.descending and _place_of(sort, row) != place
        ]
        rows.sort(key=lambda row: _place_of(sort, row), reverse=sort.descending)
        return _Found(rows[:limit])
    candidates = await _page(connection, search, _point_of(search, numbers), place, LOOKED_AT_MAX)
    rows = []
    # Most pages are full with the first of them.
    for part in (candidates[: 2 * limit], candidates[2 * limit :]):
        fitting = {row["id"]: row for row in await _check(connection, search, [row["id"] for row in part])}
        rows += [fitting[row["id"]] for row in part if row["id"] in fitting]
        if len(rows) >= limit:
            return _Found(rows[:limit])
    is_end = len(candidates) < LOOKED_AT_MAX
    return _Found(rows, None if is_end else _cursor_place(sort, candidates[-1]))


async def _numbers(connection: Connection, search: EntitySearch, limit: int) -> dict[str, int]:
    """Return how many entities each condition lets through, up to a limit; a negated one says nothing."""
    wanted = search.wanted
    conditions = [
        {"n": number, **condition.to_json()}
        for number, condition in enumerate(wanted.conditions)
        if not condition.negated
    ]
    spans = (*wanted.created, *wanted.updated)
    rows = await connection.fetch(
        _SQL.count_candidates, *search.kind, conditions, limit, *search.head, *spans
    )
    return {row["condition"]: row["number"] for row in rows}


async def _gather(connection: Connection, search: EntitySearch, limit: int) -> list[UUID]:
    """Return the entities that the condition lets through which lets the fewest through, up to a limit."""
    numbers = await _numbers(connection, search, limit)
    return await _gather_by(connection, search, min(numbers, key=lambda name: numbers[name]), limit)


async def _gather_by(connection: Connection, search: EntitySearch, condition: str, limit: int) -> list[UUID]:
    wanted, kind = search.wanted, search.kind
    match condition:
        case "state":
            rows = await connection.fetch(_SQL.gather_by_state, *kind, search.states, limit)
        case "partition":
            rows = await connection.fetch(_SQL.gather_by_partition, *kind, search.partition_id, limit)
        case "creator":
            rows = await connection.fetch(_SQL.gather_by_creator, *kind, wanted.filter.created_by, limit)
        case "created":
            rows = await connection.fetch(_SQL.gather_by_created, *kind, *wanted.created, limit)
        case "updated":
            rows = await connection.fetch(_SQL.gather_by_updated, *kind, *wanted.updated, limit)
        case number:
            of = wanted.conditions[int(number)].to_json()
            ranges = (of["field"], of["lows"], of["highs"])
            rows = await connection.fetch(_SQL.gather_by_values, *kind, *ranges, limit)
    return [row["id"] for row in rows][:limit]


async def _check(connection: Connection, search: EntitySearch, ids: Sequence[UUID]) -> list[Row]:
    """Return those of some entities that fit the whole filter, with what lists are sorted by."""
    if not ids:
        return []
    wanted = search.wanted
    conditions = [condition.to_json() for condition in wanted.conditions]
    updated_since, updated_until = wanted.updated
    return list(
        await connection.fetch(
            _SQL.check_candidates,
            *search.kind,
            ids,
            conditions,
            *search.head,
            *wanted.created,
            updated_since,
            wanted.sort.field,
            updated_until,
        )
    )


def _point_of(search: EntitySearch, numbers: Mapping[str, int]) -> str | None:
    """Return the condition on single values that lets the fewest entities through, if there is one."""
    points = [name for name in ("state", "partition", "creator") if name in numbers]
    points += [
        str(number)
        for number, condition in enumerate(search.wanted.conditions)
        if condition.points is not None
    ]
    return min(points, key=lambda name: numbers[name]) if points else None


async def _page(
    connection: Connection, search: EntitySearch, point: str | None, place: Place, limit: int
) -> list[Row]:
    """Return the next entities in the order of the list, of those that fit one condition on single values or of all."""
    wanted, kind, sort = search.wanted, search.kind, search.wanted.sort
    if sort.field == "updated_at":
        sql = _SQL.page_by_updated_desc if sort.descending else _SQL.page_by_updated_asc
        return list(await connection.fetch(sql, *kind, *wanted.updated, *place, limit))
    if sort.field != "created_at":
        span = _range_of(sort.field, wanted.conditions)
        sql = _SQL.page_by_value_desc if sort.descending else _SQL.page_by_value_asc
        return list(await connection.fetch(sql, *kind, sort.field, span.low, span.high, *place, limit))
    newest, oldest, more = _pages_by_created(search, point)
    sql = newest if sort.descending else oldest
    return list(await connection.fetch(sql, *kind, *wanted.created, *place, limit, *more))


def _pages_by_created(search: EntitySearch, point: str | None) -> tuple[str, str, tuple[Any, ...]]:
    """Return the statements of a list by the time of creation, newest or oldest first, and what they take besides."""
    match point:
        case None:
            return _SQL.page_by_created_desc, _SQL.page_by_created_asc, ()
        case "state":
            return _SQL.page_of_states_desc, _SQL.page_of_states_asc, (search.states,)
        case "partition":
            return _SQL.page_of_partition_desc, _SQL.page_of_partition_asc, (search.partition_id,)
        case "creator":
            by = (search.wanted.filter.created_by,)
            return _SQL.page_of_creator_desc, _SQL.page_of_creator_asc, by
        case number:
            condition = search.wanted.conditions[int(number)]
            values = (condition.field, condition.points)
            return _SQL.page_of_values_desc, _SQL.page_of_values_asc, values


def _range_of(name: str, conditions: Sequence[RangeCondition]) -> ValueRange:
    """Return the range in which the values of a field lie that fit all conditions, or a larger one."""
    low, high = NO_VALUE, LAST
    for condition in conditions:
        if condition.field == name and not condition.negated:
            low = max(low, min(each.low for each in condition.ranges))
            high = min(high, max(each.high for each in condition.ranges))
    return ValueRange(low, high)


def _place_of(sort: EntitySort, row: Row) -> Place:
    if sort.field == "created_at":
        return row["created_at"], row["id"]
    if sort.field == "updated_at":
        return row["updated_at"], row["id"]
    return row["value"] or NO_VALUE, row["created_at"], row["id"]


def _cursor_place(sort: EntitySort, row: Row) -> list[Any]:
    """Return the place of a row as a cursor has it: with the order, since it means nothing in another one."""
    parts = [part.isoformat() if isinstance(part, datetime) else str(part) for part in _place_of(sort, row)]
    return [sort.text, *parts]


def _place_before(sort: EntitySort) -> Place:
    """Return the place before the first entity."""
    time, first_id = (LAST_TIME, _LAST_ID) if sort.descending else (FIRST_TIME, _FIRST_ID)
    if sort.field in ("created_at", "updated_at"):
        return time, first_id
    # No value is smaller than the empty text, but an entity without one comes after this place.
    return (LAST if sort.descending else NO_VALUE), time, first_id


def _reader_of(sort: EntitySort) -> Callable[[Any], Place]:
    def read(place: Any) -> Place:
        said, *parts, last = place
        if said != sort.text:
            raise ValueError(said)
        if sort.field in ("created_at", "updated_at"):
            (at,) = parts
            return time_in(at), id_in(last)
        value, at = parts
        return text_in(value), time_in(at), id_in(last)

    return read
