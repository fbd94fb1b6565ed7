"""Loading and verifying definitions, for many instances at once, through a cache.

A definition that was published never changes (WF-04), so its content is kept in memory under owner and id.
Which one an org starts *now* does change, and is asked each time: a narrow look-up by index.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from assent.compiler import COMPILER_VERSION, is_stale
from assent.definitions.definition import EVERYBODY, Definition, DefinitionRef, Pin
from assent.model.canonical import NotCanonical, canonical_hash
from assent.model.ids import DefinitionKey
from assent.model.mutation import Refused, Rejection
from assent.model.timing import Clock
from assent.model.workflow import Workflow
from assent.store.clock import SYSTEM_CLOCK
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

Loaded = Definition | Rejection


def verified(row: Row) -> Loaded:
    """Return the definition in a row, or why it must not run."""
    if row["status"] == "draft":
        return _refused(row, "WORKFLOW_NOT_PUBLISHED", "is a draft", "publish it")
    if row["compiled_json"] is None:
        return _refused(row, "WORKFLOW_NOT_COMPILED", "was never compiled", "start what is compiled from it")
    # Asked before the content is read: another compiler may have had another form.
    if row["compiler_version"] != COMPILER_VERSION:
        return _stale(row, row["compiler_version"])
    workflow = _workflow_in(row["compiled_json"], row["compiled_hash"])
    if workflow is None:
        message = "is not what was compiled: its content and its hash do not belong together"
        return _refused(row, "WORKFLOW_HASH_MISMATCH", message, "the row was changed; publish it again")
    if is_stale(workflow):
        return _stale(row, workflow.compiler_version)
    return Definition(row["org_id"], row["id"], row["version"], workflow)


def held_to(pin: Pin, found: Loaded | None) -> Loaded:
    """Return what was found for an instance, unless it is not what the instance was pinned to."""
    if found is None:
        return Rejection(
            "NOT_FOUND", f"there is no definition {pin.id} for org {pin.org_id}", ("definition_id",)
        )
    if isinstance(found, Rejection) or (found.version, found.hash) == (pin.version, pin.hash):
        return found
    message = (
        f"the instance is pinned to version {pin.version} with hash {pin.hash}, "
        f"found version {found.version} with hash {found.hash}"
    )
    return Rejection("WORKFLOW_HASH_MISMATCH", message, ("definition_hash",))


def _workflow_in(content: Mapping[str, Any], expected_hash: str) -> Workflow | None:
    """Return the workflow that was compiled, or None where the content is not it."""
    try:
        hashed = canonical_hash({key: value for key, value in content.items() if key != "hash"})
        if hashed != expected_hash:
            return None
        workflow = Workflow.from_json(content)
    except (NotCanonical, AttributeError, KeyError, TypeError, ValueError):
        return None
    # Whatever the content says beside the workflow that we read from it would be hashed and never run.
    return workflow if workflow.to_json() == content else None


def _stale(row: Row, compiled_by: str) -> Rejection:
    message = f"was compiled by compiler {compiled_by}, this is {COMPILER_VERSION}"
    return _refused(row, "WORKFLOW_COMPILER_STALE", message, "run `assent definitions recompile`")


def _refused(row: Row, code: str, message: str, hint: str) -> Rejection:
    what = f"{row['definition_kind']} `{row['key']}` version {row['version']} {message}"
    return Rejection(code, what, ("definition_id",), hint=hint)


_SQL: Final = load_queries("assent.definitions", "definitions.sql")


class Definitions:
    """Verified workflows in memory. One for a process; safe to share, since nothing in it changes."""

    def __init__(
        self, clock: Clock = SYSTEM_CLOCK, *, definitions_max: int = 1_000, keep_seconds: int = 300
    ) -> None:
        self._clock = clock
        self._definitions_max = definitions_max
        # Not for freshness: a row that was changed beneath the triggers is noticed within this time.
        self._keep = timedelta(seconds=keep_seconds)
        self._kept: OrderedDict[DefinitionKey, tuple[datetime, Definition]] = OrderedDict()

    async def by_id(self, connection: Connection, pins: Iterable[Pin]) -> dict[Pin, Loaded]:
        """Return what each instance is pinned to, or why it cannot run; at most one statement for all of them."""
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
        """Return what each org starts now, or why it cannot; at most two statements for all of them."""
        asked = list(dict.fromkeys(wanted))
        pins = await _current_pins(connection, asked) if asked else {}
        loaded = await self.by_id(connection, pins.values())
        return {want: loaded[pins[want]] if want in pins else _nothing_for(want) for want in asked}

    async def for_entity(self, connection: Connection, org_id: str, entity_type: str) -> Definition:
        """Return the workflow that a new entity of this type gets; raise `Refused`."""
        return await self._only(connection, DefinitionRef(org_id, "effective", entity_type))

    async def for_flow(self, connection: Connection, org_id: str, key: str) -> Definition:
        """Return the flow that starts under this id; raise `Refused`."""
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
        DefinitionRef(org_id, kind, key, contract_version): Pin(org_id, found, version, hashed)
        for org_id, kind, key, contract_version, found, version, hashed in rows
    }


def _places(pin: Pin) -> tuple[DefinitionKey, DefinitionKey]:
    """Return where a definition of this instance can be: with its own org, else with everybody's."""
    return (pin.org_id, pin.id), (EVERYBODY, pin.id)


def _either(pin: Pin, found: dict[DefinitionKey, Loaded]) -> Loaded | None:
    own, shared = _places(pin)
    return found.get(own) or found.get(shared)


def _nothing_for(wanted: DefinitionRef) -> Rejection:
    what = "workflow for entity type" if wanted.kind == "effective" else "flow"
    message = f"no {what} `{wanted.key}` is published for org {wanted.org_id}"
    return Rejection("NOT_FOUND", message, ("key",), hint="publish one with `assent definitions publish`")
