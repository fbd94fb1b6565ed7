"""Loading what runs, for many instances at once, through a cache.

A definition that was published never changes (WF-04), so its content is kept in memory under owner and id.
Which one an org starts *now* does change, and is asked each time: a narrow look-up by index.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from assent.definitions.definition import EVERYBODY, Definition, DefinitionRef, Pin
from assent.definitions.verify import Loaded, held_to, verified
from assent.model.clock import Clock
from assent.model.keys import DefinitionKey
from assent.model.mutation import Refused, Rejection
from assent.store.clock import SYSTEM_CLOCK
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.definitions", "definitions.sql")


class Definitions:
    """Verified workflows in memory. One for a process; safe to share, since nothing in it changes."""

    def __init__(
        self, clock: Clock = SYSTEM_CLOCK, *, definitions_max: int = 1_000, keep_seconds: int = 300
    ) -> None:
        self._clock = clock
        self._definitions_max = definitions_max
        # Not for freshness: a row that somebody changed beneath the triggers is noticed within this time.
        self._keep = timedelta(seconds=keep_seconds)
        self._kept: OrderedDict[DefinitionKey, tuple[datetime, Definition]] = OrderedDict()

    async def by_id(self, connection: Connection, pins: Iterable[Pin]) -> dict[Pin, Loaded]:
        """What each instance is pinned to, or why it cannot run; at most one statement for all of them."""
        wanted = list(dict.fromkeys(pins))
        oldest = self._clock.now() - self._keep
        found: dict[DefinitionKey, Loaded] = {}
        for pin in wanted:
            found |= self._known(pin, oldest)
        missing = [pin for pin in wanted if _either(pin, found) is None]
        if missing:
            found |= await self._load(connection, missing)
        return {pin: held_to(pin, _either(pin, found)) for pin in wanted}

    async def current(
        self, connection: Connection, wanted: Iterable[DefinitionRef]
    ) -> dict[DefinitionRef, Loaded]:
        """What each org starts now, or why it cannot; at most two statements for all of them."""
        asked = list(dict.fromkeys(wanted))
        pins = await _current_pins(connection, asked) if asked else {}
        loaded = await self.by_id(connection, pins.values())
        return {want: loaded[pins[want]] if want in pins else _nothing_for(want) for want in asked}

    async def for_entity(self, connection: Connection, org_id: str, entity_type: str) -> Definition:
        """The workflow that a new entity of this type gets; raises `Refused`."""
        return await self._only(connection, DefinitionRef(org_id, "effective", entity_type))

    async def for_flow(self, connection: Connection, org_id: str, key: str) -> Definition:
        """The flow that starts under this id; raises `Refused`."""
        return await self._only(connection, DefinitionRef(org_id, "flow", key))

    async def _only(self, connection: Connection, wanted: DefinitionRef) -> Definition:
        found = (await self.current(connection, [wanted]))[wanted]
        if isinstance(found, Rejection):
            raise Refused(found)
        return found

    def _known(self, pin: Pin, oldest: datetime) -> dict[DefinitionKey, Loaded]:
        for place in _places(pin):
            loaded_at, definition = self._kept.get(place, (oldest, None))
            if definition is not None and loaded_at > oldest:
                self._kept.move_to_end(place)
                return {place: definition}
        return {}

    async def _load(self, connection: Connection, pins: Iterable[Pin]) -> dict[DefinitionKey, Loaded]:
        places = sorted({place for pin in pins for place in _places(pin)})
        rows = await connection.fetch(
            _SQL.load_definitions, [org_id for org_id, _ in places], [found for _, found in places]
        )
        loaded = {(row["org_id"], row["id"]): verified(row) for row in rows}
        for place, definition in loaded.items():
            if isinstance(definition, Definition):
                self._remember(place, definition)
        return loaded

    def _remember(self, place: DefinitionKey, definition: Definition) -> None:
        self._kept[place] = self._clock.now(), definition
        self._kept.move_to_end(place)
        while len(self._kept) > self._definitions_max:
            self._kept.popitem(last=False)


async def _current_pins(connection: Connection, wanted: Sequence[DefinitionRef]) -> dict[DefinitionRef, Pin]:
    rows = await connection.fetch(_SQL.find_current, *map(list, zip(*wanted, strict=True)))
    return {
        DefinitionRef(org_id, kind, key): Pin(org_id, found, version, hashed)
        for org_id, kind, key, found, version, hashed in rows
    }


def _places(pin: Pin) -> tuple[DefinitionKey, DefinitionKey]:
    """Where a definition of this instance can be: with its own org, else with everybody's."""
    return (pin.org_id, pin.id), (EVERYBODY, pin.id)


def _either(pin: Pin, found: dict[DefinitionKey, Loaded]) -> Loaded | None:
    own, shared = _places(pin)
    return found.get(own) or found.get(shared)


def _nothing_for(wanted: DefinitionRef) -> Rejection:
    what = "workflow for entity type" if wanted.kind == "effective" else "flow"
    message = f"no {what} `{wanted.key}` is published for org {wanted.org_id}"
    return Rejection("NOT_FOUND", message, ("key",), hint="publish one with `assent definitions publish`")
