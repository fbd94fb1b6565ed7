"""What goes into the kernel and what comes out: commands, entities, mutations, rejections, events.

Expressions see actors and entities as `actor_view` and `entity_view` return them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from assent.model.actor import SYSTEM_ID, Actor, Authority, people_of
from assent.model.contract import EditWindow
from assent.model.ids import arrival_key, event_key
from assent.model.problems import Path, Problem, format_path

NIL_ID: Final = UUID(int=0)
"""Stands for "no instance" where a key needs one."""

ON_CREATE: Final = "on_create"
ON_MUTATION: Final = "on_mutation"
ON_AMENDMENT: Final = "on_amendment"
"""An edit in an `amend_only` window: the workflow must go to its amendment branch."""
ON_SUPERSEDED: Final = "on_superseded"
"""A locked entity was amended by a new one: an instance that still runs is cancelled."""
ON_EVENT: Final = "on_event"
"""Something happened under a key that a workflow may be waiting for."""
PARTITION: Final = "partition"
"""Where the payload of such an event names the one partition that it is for."""
PEOPLE: Final = "people"
"""Where the payload of an event names those whose work it brings."""


ATTACHMENTS: Final = "_attachments"
"""Where the data of a version has its attachments; no field can have this name."""


def with_attachments(data: Mapping[str, Any], attachments: Mapping[str, str]) -> Mapping[str, Any]:
    return {**data, ATTACHMENTS: dict(attachments)} if attachments else data


def without_attachments(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the data of a version without its attachments, and these."""
    if ATTACHMENTS not in data:
        return data, {}
    return {name: value for name, value in data.items() if name != ATTACHMENTS}, data[ATTACHMENTS]


@dataclass(frozen=True, slots=True)
class Command:
    """A command to change one entity."""

    org_id: str
    action: str
    """`<entity type>.<verb>`, such as `invoice.update`; a transition is a verb too."""
    actor: Actor
    payload: Mapping[str, Any] = field(default_factory=dict)
    entity_id: UUID | None = None
    """The entity; for `create` the id that the new entity gets, fresh when absent."""
    fresh_id: UUID | None = None
    """The id that the kernel has drawn for a new entity, before any transaction; only the kernel sets it."""
    expected_version: int | None = None
    """Refuse unless the entity is at this version."""
    reason: str | None = None
    place: str | None = None
    channel: str = "python"
    trace_id: str | None = None
    partition_id: str | None = None
    """The one part of the org that it is confined to: what it makes is there, and what is elsewhere is not there."""
    by_instance: UUID | None = None
    """The workflow instance whose own write this is (D19); only the engine sets it."""
    by_step: bool = False
    """Whether a step of a workflow wants it: its own span is open around it."""
    acted_by: Actor | None = None
    """Who carried it out, where that is not the actor whose rights count: the system after a wait, an operator."""
    authority: Authority | None = None
    """On whose behalf a step of a workflow wants it; the actor's own, where nothing else is said."""
    contributors: tuple[str, ...] = ()
    """Whose work it carries besides the actor's: people who filled in what a workflow writes."""
    to_state: str | None = None
    """Where a gate of that instance leads, when it is not where the contract's transition does: a rejection, an
    amendment."""
    attachments: Mapping[str, str | None] | None = None
    """Files that an update attaches, id → SHA-256, or removes, id → None; only `attachments` of the runtime sets it."""

    @property
    def entity_type(self) -> str:
        return self.action.partition(".")[0]

    @property
    def kind(self) -> tuple[str, str]:
        """Return the org and the entity type."""
        return self.org_id, self.entity_type

    @property
    def behalf(self) -> Authority:
        return self.authority or Authority.of(self.actor)

    @property
    def on_behalf_of(self) -> tuple[str, ...]:
        """Return the people that another actor acted for; none if a person acted for themselves."""
        acted_by = self.acted_by or self.actor
        people = (*self.behalf.ids, self.actor.id)
        return tuple(dict.fromkeys(one for one in people if one not in (acted_by.id, SYSTEM_ID)))

    @property
    def people(self) -> tuple[str, ...]:
        """Return everybody whose work it carries."""
        people = (*self.behalf.people, *people_of(self.actor), *self.contributors)
        return tuple(dict.fromkeys(one for one in people if one != SYSTEM_ID))


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity at one version."""

    org_id: str
    id: UUID
    type: str
    contract_version: int
    state: str
    version: int
    data: Mapping[str, Any]
    data_hash: str
    edit_window: EditWindow
    version_id: UUID
    created_at: datetime
    updated_at: datetime
    partition_id: str | None = None
    instance_id: UUID | None = None
    amended_from_id: UUID | None = None
    content_hash: str = ""
    """Of what people wrote, without the fields that only the workflow writes: what approvers approve."""
    attachments: Mapping[str, str] = field(default_factory=dict)
    """Its files, id → SHA-256: a part of its content, which the hashes cover."""

    @property
    def whole_data(self) -> Mapping[str, Any]:
        """Return its data with its attachments, as its version keeps them."""
        return with_attachments(self.data, self.attachments)

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Mutation:
    """What a command did. `changed` is false when there was nothing to do, and then nothing was written."""

    entity: Entity
    changed: bool
    audit_id: UUID | None = None

    def to_output(self) -> dict[str, object]:
        """Return what a step keeps of a mutation that it made (WF-09); no audit row, where nothing changed."""
        audit_id = str(self.audit_id) if self.audit_id is not None else None
        return {"entity_id": str(self.entity.id), "version": self.entity.version, "audit_id": audit_id}


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a command did nothing. The order of checks is the order in `assent.kernel.mutate`."""

    code: str
    message: str
    path: Path = ()
    problems: Sequence[Problem] = ()
    """All of them, where input was bad; the first gives the rejection its code and path."""
    hint: str | None = None

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Self:
        first = problems[0]
        return cls(first.code, first.message, first.path, tuple(problems), first.hint)

    def __str__(self) -> str:
        place = f" at {format_path(self.path)}" if self.path else ""
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return f"{self.code}{place}: {self.message}{more}"


class Refused(Exception):
    """A rejection of a single command, raised."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(str(rejection))
        self.rejection = rejection

    @property
    def code(self) -> str:
        return self.rejection.code


@dataclass(frozen=True, slots=True)
class KeyedEvent:
    """An event that a step emits under a key, for every step that waits for the key, or for the first that will."""

    KEY_CHARACTERS_MAX: ClassVar[int] = 200

    key: str
    data: Any = None
    hops: int = 1
    """How many events led to it, with itself: it began with a step that no event of a step had reached."""


@dataclass(frozen=True, slots=True)
class Event:
    """A row to be of the engine's outbox.

    Its payload carries the id of its cause (D25): the same thing happening twice is two events. An event under a key,
    for the steps that wait for it, is its key and its cause, whatever else its payload says.
    """

    org_id: str
    id: UUID
    event_type: str
    payload: Mapping[str, Any]
    instance_id: UUID | None
    entity_version: int = 0
    trace_id: str | None = None

    @property
    def key(self) -> str:
        """The identity of the event, under which its receipt is kept."""
        under = self.payload.get("key")
        if self.instance_id is None and self.event_type == ON_EVENT and isinstance(under, str):
            return arrival_key(under, self.payload["cause"], self.payload.get(PARTITION))
        return event_key(self.instance_id or NIL_ID, self.event_type, self.payload, self.entity_version)


@lru_cache(maxsize=256)
def actor_view(actor: Actor) -> dict[str, Any]:
    return {
        "id": actor.id,
        "kind": actor.kind,
        "roles": sorted(actor.roles),
        "capabilities": sorted(actor.capabilities),
    }


def entity_view(entity: Entity) -> dict[str, Any]:
    """Return its content, and what is the entity's own."""
    own = {"id": str(entity.id), "type": entity.type, "state": entity.state, "version": entity.version}
    return {**entity.data, **own}
