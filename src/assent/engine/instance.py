"""Instances and steps: tokens on a graph, variables, the version that it is about, and one execution of one node.

An instance is a projection: folding its steps gives the same value (WF-15), see `assent.engine.evolve`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.actor import NO_AUTHORITY, SYSTEM_ID, Authority
from assent.model.nodes import KINDS

TokenState = Literal["ready", "resting", "arrived", "absorbed", "split", "failed"]
Status = Literal["running", "paused", "completed", "failed", "cancelled"]

ENDED: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(slots=True)
class Token:
    """One thread of execution."""

    id: str
    node: str
    version: int
    """The entity's version when the token arrived here (D22)."""
    state: TokenState = "ready"
    carry: str = "completed"
    """The outcome that it came with; slots pass it on."""
    edge: str | None = None
    """The edge that it came by; an ANY join asks it whether the arrival counts."""
    step_id: UUID | None = None
    step_at: datetime | None = None
    """Its open step, while it rests; a step's partition is found by its time."""
    entered: int = 0
    """Which effect brought it to rest; the step's end keeps it."""
    attempt: int = 0
    """How often the step here was tried again."""
    authority: Authority = NO_AUTHORITY
    """On whose behalf it moves."""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": self.id,
            "node": self.node,
            "version": self.version,
            "state": self.state,
            "carry": self.carry,
            "authority": self.authority.to_json(),
        }
        if self.edge is not None:
            found["edge"] = self.edge
        if self.step_id is not None and self.step_at is not None:
            found |= {"step": str(self.step_id), "at": self.step_at.isoformat(), "entered": self.entered}
        if self.attempt:
            found["attempt"] = self.attempt
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Token":
        step = data.get("step")
        return cls(
            data["id"],
            data["node"],
            data["version"],
            data["state"],
            data["carry"],
            data.get("edge"),
            UUID(step) if step else None,
            datetime.fromisoformat(data["at"]) if step else None,
            data.get("entered", 0),
            data.get("attempt", 0),
            Authority.from_json(data["authority"]),
        )


@dataclass(slots=True)
class Originators:
    """The people on whose behalf the variables, the forms and the submission came to be; none of them approves."""

    ids: tuple[str, ...] = ()
    approved: bool = False
    """Whether a gate has consumed approvals since: then the next command of a person begins the list again."""
    since: tuple[str, ...] = ()
    """Those whose work came after these approvals: none was about it, so they stay when the list begins again."""

    def add(self, ids: Iterable[str]) -> None:
        added = tuple(one for one in ids if one != SYSTEM_ID)
        self.ids = tuple(dict.fromkeys((*self.ids, *added)))
        if self.approved:
            self.since = tuple(dict.fromkeys((*self.since, *added)))

    def consume(self) -> None:
        """Note that approvals were consumed, which were about all work until now."""
        self.approved, self.since = True, ()

    def begin_again_if_approved(self) -> None:
        if self.approved:
            self.ids, self.approved, self.since = self.since, False, ()

    def to_json(self) -> dict[str, Any]:
        since = {"since": list(self.since)} if self.since else {}
        return {"ids": list(self.ids), "approved": self.approved, **since}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Originators":
        return cls(tuple(data["ids"]), data["approved"], tuple(data.get("since", ())))


@dataclass(slots=True)
class Instance:
    """One run of one workflow."""

    org_id: str
    id: UUID
    subject_id: str
    started_at: datetime
    entity_type: str | None = None
    entity_id: UUID | None = None
    entity_version: int = 0
    """The pin: the newest version that the instance knows of, its own writes included."""
    partition_id: str | None = None
    status: Status = "running"
    tokens: dict[str, Token] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    """How many effects of steps made it what it is."""
    generation: int = -1
    chain_length: int = 0
    incident: Mapping[str, Any] | None = None
    expires_at: datetime | None = None
    originators: Originators = field(default_factory=Originators)
    id_text: str = field(init=False, compare=False, repr=False)
    """The id as keys are made of it; made once, for every step has a key."""

    def __post_init__(self) -> None:
        self.id_text = str(self.id)

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def current_nodes(self) -> list[str]:
        return sorted({token.node for token in self.tokens.values() if token.state != "split"})

    def descendants_of(self, ancestor_id: str) -> list[Token]:
        """Return the tokens from splits of this token, at any depth, in the order of their paths."""
        prefix = f"{ancestor_id}/"
        found = [token for token in self.tokens.values() if token.id.startswith(prefix)]
        return sorted(found, key=path_order)

    def children_of(self, parent: str) -> list[Token]:
        """Return the tokens from the split itself."""
        return [token for token in self.descendants_of(parent) if parent_id(token.id) == parent]


def child_id(parent_id: str, split_rank: int, path_index: int) -> str:
    """Return the id of a token on one path of a split; the split's rank tells two splits of one token apart."""
    return f"{parent_id}/{split_rank}.{path_index}"


def parent_id(token_id: str) -> str:
    """Return the token that was split; empty for a root."""
    return token_id.rpartition("/")[0]


def root_id(token_id: str) -> str:
    return token_id.partition("/")[0]


def next_generation(token_id: str) -> str:
    """Return the id that a token has after crossing a loop edge (D3): its last part counts one up."""
    parent, slash, last = token_id.rpartition("/")
    if not slash:
        return str(int(last) + 1)
    path, _, generation = last.partition("~")
    return f"{parent}/{path}~{int(generation or 0) + 1}"


def retried(token_id: str, attempt: int) -> str:
    """Return the id under which a step is tried again (D25); it is part of the step's key, not of the token's place."""
    return f"{token_id}!{attempt}"


def path_order(token: Token) -> tuple[tuple[int, int], ...]:
    """Tokens in the order of the paths that they took; ties at a join go to the lowest path (D23)."""
    parts = []
    for part in token.id.split("/")[1:]:
        rank, _, index = part.partition("~")[0].partition(".")
        parts.append((int(rank), int(index)))
    return tuple(parts)


StepStatus = Literal["pending", "running", "completed", "failed", "skipped", "cancelled"]
RunAs = Literal["actor", "system", "service_account"]

CONTROL: Final = "control"
"""The node type of steps that act on the instance itself: pause, resume, move, cancel (D8, D25)."""

BRANCHING_KINDS: Final = frozenset(kind for kind, declared in KINDS.items() if declared.branches)
"""Steps whose output must name the edges that they chose."""


@dataclass(slots=True)
class Step:
    """A row to be of `workflow_step_executions`, or the end of one that is there already."""

    org_id: str
    instance_id: UUID
    id: UUID
    created_at: datetime
    node_id: str
    node_type: str
    token_id: str
    entity_version: int
    key: str
    status: StepStatus
    actor_id: str
    run_as: RunAs = "actor"
    input: Any = None
    output: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    completed_at: datetime | None = None
    resume_at: datetime | None = None
    event_key: str | None = None
    request_id: UUID | None = None
    """The approval request of the step; its own table is the authority."""
    snapshot_version_id: UUID | None = None
    is_new: bool = True
    """Whether the row is inserted; else the open step with this id is ended."""
    receipted: bool = False
    """Whether its receipt was taken before it ran; steps that nothing runs get theirs when they are written."""
    duration_ms: int = 0
    """How long its node and its need took, of a new step that has ended. The runtime measures it."""
