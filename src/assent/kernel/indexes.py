"""Indexes of entities: what contracts declare, how it becomes ready, and how far that is.

The newest published contract of a type says what is indexed, for documents of every version. A worker builds the
indexes that a new version brings. It waits until every transaction has ended that wrote without knowing of them;
from then on writers keep them, and it adds what was written before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from assent.model.contract import Contract, FieldType
from assent.model.index_values import WORDS, IndexDeclaration
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.kernel", "kernel.sql")
NONE: Final = IndexDeclaration()
NOT_INDEXED: Final[Row] = {"index_stamp": None}
"""What a row says of a type without indexes."""


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """An index of an entity type."""

    field: str
    """The field; `*` for the words of the searched fields."""
    type: str
    """The field's type; `words`."""
    ready: bool
    """Whether lists can use it."""
    progress: float
    """The part of the entities of all orgs that it has: 0 to 1."""


@dataclass(frozen=True, slots=True)
class DeclaredIndexes:
    """The indexes of an entity type, as they are published, and how far they are built."""

    declaration: IndexDeclaration
    ready: frozenset[str] = frozenset()
    progress: float = 0.0

    @property
    def building(self) -> dict[str, float]:
        """Return the indexes that are not ready, with the part that is done."""
        names = [*self.declaration.fields, *([WORDS] if self.declaration.searched else [])]
        return {name: self.progress for name in names if name not in self.ready}

    @property
    def statuses(self) -> list[IndexStatus]:
        building = self.building
        kinds = {name: kind.value for name, kind in sorted(self.declaration.fields.items())}
        kinds |= {WORDS: "words"} if self.declaration.searched else {}
        return [
            IndexStatus(name, kind, name not in building, building.get(name, 1.0))
            for name, kind in kinds.items()
        ]


def declaration_of(row: Row) -> IndexDeclaration:
    """Return what a row declares; a row without a stamp declares nothing."""
    if row["index_stamp"] is None:
        return NONE
    fields = {name: FieldType(kind) for name, kind in row["indexed_fields"].items()}
    return IndexDeclaration(row["index_stamp"], fields, tuple(row["searched_fields"]))


async def read_indexes(connection: Connection, entity_type: str) -> DeclaredIndexes:
    """Return the indexes of an entity type; none, if none were published."""
    row = await connection.fetchrow(_SQL.read_indexes, entity_type)
    if row is None:
        return DeclaredIndexes(NONE)
    return DeclaredIndexes(declaration_of(row), frozenset(row["ready"]), row["progress"])


async def declare_indexes(connection: Connection, contract: Contract) -> None:
    """Keep the indexes of a contract, unless a newer one has been published; have workers build what is new.

    The owner's to do, in the transaction that publishes the contract.
    """
    before = (await read_indexes(connection, contract.name)).declaration
    fields = {name: kind.value for name, kind in sorted(contract.indexed_fields.items())}
    searched = sorted(contract.searched_fields)
    await connection.execute(_SQL.declare_indexes, contract.name, contract.version, fields, searched)
    after = (await read_indexes(connection, contract.name)).declaration
    if after.stamp == before.stamp:
        return
    if await _has_no_entity(connection, contract.name):
        await connection.execute(_SQL.finish_indexes, contract.name)
    else:
        await connection.execute(_SQL.begin_to_build_indexes, contract.name)


async def _has_no_entity(connection: Connection, entity_type: str) -> bool:
    """Return whether there is no entity of a type, and none is being written; false where that is not known at once."""
    try:
        async with connection.transaction():
            await connection.execute(_SQL.lock_entities_against_writers)
    except asyncpg.LockNotAvailableError:
        return False
    return not await connection.fetchval(_SQL.exists_entity_of_type, entity_type)


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """What one batch of building did."""

    indexed: int = 0
    more: bool = False


async def build_indexes(database: Database, entities_max: int) -> IndexBatch:
    """Index the next entities of a type whose indexes are not built; do nothing if there is none.

    One worker at a time builds the indexes of a type. Entities that are written meanwhile wait for the batch.
    """
    async with database.transaction(None) as connection:
        row = await connection.fetchrow(_SQL.next_indexes_to_build)
        if row is None:
            return IndexBatch()
        entity_type = row["entity_type"]
        if row["is_new"]:
            await connection.execute(_SQL.set_index_barrier, entity_type)
            return IndexBatch(more=True)
        seen = await connection.fetch(_SQL.look_at_entities_after, row["at_org"], row["at_id"], entities_max)
        ours = [each for each in seen if each["entity_type"] == entity_type]
        await _index(connection, declaration_of(row), ours)
        if len(seen) < entities_max:
            await connection.execute(_SQL.finish_indexes, entity_type)
        else:
            last = seen[-1]
            place = (last["org_id"], last["id"])
            await connection.execute(_SQL.note_index_progress, entity_type, *place, len(ours))
        return IndexBatch(len(ours), more=True)


async def _index(connection: Connection, declared: IndexDeclaration, entities: Sequence[Row]) -> None:
    if not entities:
        return
    keys = [each["org_id"] for each in entities], [each["id"] for each in entities]
    await connection.execute(_SQL.lock_rows_of_entities, *keys)
    contents = await connection.fetch(_SQL.read_contents, *keys)
    names = [*declared.fields, *([WORDS] if declared.searched else [])]
    await connection.execute(_SQL.delete_undeclared_values, *keys, names)
    rows = [
        {"org_id": each["org_id"], "entity_id": each["id"], "indexed": declared.values_of(each["data"])}
        for each in contents
    ]
    await connection.execute(_SQL.replace_indexed_values, rows)
