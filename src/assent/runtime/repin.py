"""Moving instances to a definition that was compiled anew into an equal graph (D31): a control step for each."""

from collections.abc import Sequence
from typing import Final

from assent.definitions import Move
from assent.engine.inputs import Repin
from assent.model.actor import SYSTEM
from assent.model.ids import new_id
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem
from assent.store.database import Connection, Database
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


async def repin(database: Database, advancing: Advancing, moves: Sequence[Move]) -> None:
    """Move a batch in one transaction, as the owner. An instance that has ended meanwhile stays as it is."""

    async def work(connection: Connection) -> None:
        await connection.execute(_SQL.lock_instances, [move.instance_id for move in moves])
        now = database.clock.now()
        works = [
            BatchItem(move.new.org_id, move.instance_id, [Repin(new_id(now), SYSTEM, *move.new[1:])])
            for move in moves
        ]
        await advancing.advance(connection, works, now, as_owner=True)

    await database.run(work, org_id=None)
