"""The target of a command: an instance, or the request, form or entity that leads to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.definitions import DefinitionRef
from assent.engine.inputs import Advance, Input, Start
from assent.model.actor import Origin
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.runtime.batch import BatchItem, NewInstance
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

Noun = Literal["instance", "request", "form", "entity"]
_CALLED: Final[Mapping[Noun, tuple[str, str]]] = {
    "instance": ("instance", "instance_id"),
    "request": ("approval request", "request_id"),
    "form": ("form", "step_id"),
    "entity": ("entity", "entity_id"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A command, and what it names."""

    org_id: str
    noun: Noun
    id: UUID
    given: Input
    birth: NewInstance | None = None
    partition_id: str | None = None
    """The one partition that the caller can see; the whole org without it."""
    origin: Origin = field(default_factory=Origin)
    trace: str | None = None

    def not_found(self) -> Refused:
        called, path = _CALLED[self.noun]
        return Refused(Rejection("NOT_FOUND", f"no {called} {self.id}", (path,)))

    def work(self, row: Any, now: datetime) -> BatchItem:
        """Return the batch item for the row that was found; an entity whose instance has ended starts another (D18)."""
        if row is None or self.partition_id not in (None, row["partition_id"]):
            raise self.not_found()
        if row["instance_id"] is not None:
            return self._work(row["instance_id"], self.given, self.birth)
        assert isinstance(self.given, Advance)
        entity_type, actor = row["entity_type"], self.given.actor
        birth = NewInstance(
            DefinitionRef(self.org_id, "effective", entity_type), actor.id, entity_type, self.id
        )
        again = Start(self.given.id, actor, self.given.data, transition=self.given.event)
        return self._work(new_id(now), again, birth)

    def _work(self, instance_id: UUID, command: Input, birth: NewInstance | None) -> BatchItem:
        return BatchItem(
            self.org_id, instance_id, birth=birth, command=command, origin=self.origin, trace=self.trace
        )


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """The instance that a command is for, and whether this transaction has its lock."""

    work: BatchItem | Refused
    held: bool


async def find_instances(
    connection: Connection, asked: Sequence[Target], now: datetime
) -> list[ResolvedTarget]:
    """Return the instance of each target, locked where its lock is free; wait for no lock."""
    nouns, ids = [one.noun for one in asked], [one.id for one in asked]
    rows = await connection.fetch(_SQL.find_instances, asked[0].org_id, nouns, ids)
    by_place = {row["place"]: row for row in rows}
    return [_found(one, by_place.get(place), now) for place, one in enumerate(asked, 1)]


def _found(one: Target, row: Any, now: datetime) -> ResolvedTarget:
    try:
        return ResolvedTarget(one.work(row, now), row["held"] is True)
    except Refused as refused:
        return ResolvedTarget(refused, False)
