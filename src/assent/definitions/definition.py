"""What the others know of a definition: what an instance is pinned to, what runs, and what a list shows."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Literal, NamedTuple, Self
from uuid import UUID

from assent.model.workflow import Workflow
from assent.store.rows import Row

EVERYBODY: Final = "*"
"""The org whose definitions every org may read and start."""

Kind = Literal["envelope", "org_patch", "effective", "flow"]
RunningKind = Literal["effective", "flow"]
Status = Literal["draft", "published", "archived"]


class Pin(NamedTuple):
    """What an instance is pinned to. `org_id` is the instance's; the definition may be everybody's."""

    org_id: str
    id: UUID
    version: int
    hash: str


class DefinitionRef(NamedTuple):
    """A question: what does this org start now for an entity type (`effective`) or under a flow's id?"""

    org_id: str
    kind: RunningKind
    key: str
    contract_version: int | None = None
    """What the entity lives by: of workflows for another version none is started as long as there is one for this."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition that may run: its content is what was compiled, by the compiler of today."""

    org_id: str
    """Whose it is, an org's or everybody's."""
    id: UUID
    version: int
    workflow: Workflow

    @property
    def hash(self) -> str:
        return self.workflow.hash

    def pin(self, org_id: str) -> Pin:
        """Return the pin of an instance of this org."""
        return Pin(org_id, self.id, self.version, self.hash)


@dataclass(frozen=True, slots=True)
class DefinitionVersion:
    """A row of the definitions without its content."""

    org_id: str
    id: UUID
    definition_kind: Kind
    key: str
    """The entity type of an envelope and an effective workflow, the name of a patch, the id of a flow."""
    version: int
    """Counts the rows of one org, kind and key; of an envelope it is the contract's version."""
    entity_type: str | None
    name: str
    status: Status
    compiled_hash: str | None
    compiler_version: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_everybodys(self) -> bool:
        """Return whether all orgs have it."""
        return self.org_id == EVERYBODY

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(**{field.name: row[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Publication:
    """What publishing did."""

    source: DefinitionVersion
    """The envelope, the patch or the flow."""
    effective: DefinitionVersion | None
    """What starts from now on; for a flow that is the flow itself."""
    changed: bool
    """False where exactly this was published already, and nothing was written."""
