"""Who acts, on whose behalf, by which way, and who reads.

Actors have rights; the authority travels with a token; the origin of a command is for the audit log. A reader is a
person with what lists may show to that person.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, Self
from uuid import UUID

ActorKind = Literal["user", "service_account", "system"]

SYSTEM_ID: Final = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """A user, a service account or the system, with the roles and capabilities held when the actor was read."""

    id: str
    kind: ActorKind = "user"
    roles: Collection[str] = frozenset()
    """Any collection of names; kept as a frozenset, and so are the capabilities."""
    capabilities: Collection[str] = frozenset()
    maker_id: str | None = None
    """The member who made the API key with which a service account acts, and may act by it."""
    contributors: tuple[str, ...] = ()
    """Whose work it carries besides its own: inside of a task, those on whose behalf the task runs."""

    def is_or_acts_for(self, user_id: str) -> bool:
        """Return whether the actor is this member, or a service account by a key that this member made."""
        return user_id in (self.id, self.maker_id)

    def __post_init__(self) -> None:
        for name in ("roles", "capabilities"):
            object.__setattr__(self, name, _frozen(name, getattr(self, name)))
        # Authority is recorded by id, so the id of the system must never be a person's.
        if (self.id == SYSTEM_ID) != (self.kind == "system"):
            raise ValueError(
                f"`{SYSTEM_ID}` is the id of the system alone, found {self.id!r} of kind {self.kind}"
            )

    def has_role(self, roles: Iterable[str]) -> bool:
        return any(role in self.roles for role in roles)

    def can(self, capability: str) -> bool:
        """Return whether a capability such as `invoice:update` is held, itself or through `invoice:*` or `*`."""
        if capability in self.capabilities or "*" in self.capabilities:
            return True
        parts = capability.split(":")
        return any(":".join((*parts[:end], "*")) in self.capabilities for end in range(1, len(parts)))


def _frozen(name: str, given: Collection[str]) -> frozenset[str]:
    """Return names as a frozenset; raise `TypeError` for one text, whose characters would be taken for names."""
    if isinstance(given, str):
        raise TypeError(f"expected a collection of {name}, such as [{given!r}], found the text {given!r}")
    return frozenset(given)


SYSTEM: Final = Actor(SYSTEM_ID, kind="system", capabilities=frozenset({"*"}))
"""The engine itself; what it does is audited like everything else."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, a service account or the system on whose behalf a token moves."""

    id: str
    kind: ActorKind = "user"
    roles: tuple[str, ...] = ()
    """The roles that came with the command. They count only where the org keeps no member of this id."""
    maker_id: str | None = None
    """The member who made the API key with which a service account acted: its work is theirs too."""
    contributors: tuple[str, ...] = ()
    """Whose work it carried besides."""

    @classmethod
    def of(cls, actor: Actor) -> Self:
        return cls(actor.id, actor.kind, tuple(sorted(actor.roles)), actor.maker_id, actor.contributors)

    def without_rights(self) -> Actor:
        """Return the actor of this id with no rights: who is unknown or deactivated holds none."""
        return SYSTEM if self.kind == "system" else Actor(self.id, self.kind)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id}
        if self.kind != "user":
            found["kind"] = self.kind
        if self.roles:
            found["roles"] = list(self.roles)
        if self.maker_id is not None:
            found["maker"] = self.maker_id
        if self.contributors:
            found["contributors"] = list(self.contributors)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        roles, contributors = tuple(data.get("roles", ())), tuple(data.get("contributors", ()))
        return cls(data["id"], data.get("kind", "user"), roles, data.get("maker"), contributors)

    @property
    def people(self) -> tuple[str, ...]:
        """Return whose work this principal's work is."""
        makers = () if self.maker_id is None else (self.maker_id,)
        return (self.id, *makers, *self.contributors)


def people_of(*actors: Actor) -> tuple[str, ...]:
    """Return everybody whose work it is what these actors do; the system is not among them."""
    found = dict.fromkeys(one for actor in actors for one in Principal.of(actor).people)
    return tuple(one for one in found if one != SYSTEM_ID)


@dataclass(frozen=True, slots=True)
class Authority:
    """On whose behalf a token moves: those whose commands, forms, answers and edits brought it where it is.

    Timers, events, results, tasks and operators never change it. The first gave the command that set the token on
    its way; the last moved it by an act of their own, and steps act with the rights that they have now.
    """

    principals: tuple[Principal, ...]
    command: str | None = None
    """The transition that the first asked for, whose right a gate asks again after a wait."""

    @classmethod
    def of(cls, actor: Actor, command: str | None = None) -> Self:
        return cls((Principal.of(actor),), command)

    @property
    def requester(self) -> Principal:
        return self.principals[0]

    @property
    def principal(self) -> Principal:
        return self.principals[-1]

    @property
    def ids(self) -> tuple[str, ...]:
        """Return everyone once, the one with whose rights steps act last."""
        return tuple(dict.fromkeys(principal.id for principal in reversed(self.principals)))[::-1]

    @property
    def people(self) -> tuple[str, ...]:
        """Return everybody whose work it is, the makers of service accounts' keys among them."""
        return tuple(dict.fromkeys(one for principal in self.principals for one in principal.people))

    def joined_by(self, added: Iterable[Principal]) -> "Authority":
        """Return the authority with others behind those that are there; the requester stays first."""
        principals = self.principals
        for one in added:
            if principals[-1].id != one.id:
                known = {one.id, principals[0].id}
                rest = tuple(other for other in principals[1:] if other.id not in known)
                principals = (principals[0], *rest, one)
        return self if principals == self.principals else Authority(principals, self.command)

    def to_json(self) -> Mapping[str, Any]:
        return _json_of(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(tuple(Principal.from_json(one) for one in data["principals"]), data.get("command"))


NO_AUTHORITY: Final = Authority((Principal(""),))
"""The authority of a token without a sender: it has no rights."""


@lru_cache(maxsize=1024)
def _json_of(authority: Authority) -> dict[str, Any]:
    # Written with every token and every start; the people of a batch are few.
    command = {"command": authority.command} if authority.command is not None else {}
    return {"principals": [principal.to_json() for principal in authority.principals], **command}


BY_WORKFLOWS: Final = "workflow"
"""The channel of steps that a timer or an event moves, and no command."""
BY_WORKERS: Final = "worker"
"""The channel of what a duty does to data of an org."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The way in that a command took."""

    channel: str = "python"
    """`http`, `cli`, `python`, `workflow`, `worker`; `sql` by default."""
    place: str | None = None
    """An address, a host."""
    reason: str | None = None
    """Why, where the command itself does not say."""


@dataclass(frozen=True, slots=True)
class By:
    """Who acts in a transaction, and by which way: what the database notes when they administer something."""

    actor: Actor
    origin: Origin = Origin()
    trace: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "actor_id": self.actor.id,
            "actor_kind": self.actor.kind,
            "actor_roles": sorted(self.actor.roles),
            "channel": self.origin.channel,
            "place": self.origin.place,
            "reason": self.origin.reason,
            "trace_id": self.trace,
        }


@dataclass(frozen=True, slots=True)
class Reader:
    """A person who reads a list, as `assent.is_readable` in the database takes it."""

    person: str
    at: datetime
    """The time at which delegations are read."""
    hidden_types: Sequence[str] = ()
    """The entity types that they may not see."""
    all_flows: bool = False
    definitions: Sequence[UUID] = ()
    """The flows that they may read without taking part."""


def reader_columns(reader: Reader | None) -> tuple[Any, ...]:
    """Return the arguments of list statements; the first is whether there is a reader, else all rows are seen."""
    if reader is None:
        return False, [], True, [], "", None
    hidden, definitions = list(reader.hidden_types), list(reader.definitions)
    return True, hidden, reader.all_flows, definitions, reader.person, reader.at
