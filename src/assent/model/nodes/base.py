"""What every declared node has: a name, a window, a kind, and the languages of its texts."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import StringConstraints, model_validator

from assent.model.contract import EditWindow
from assent.model.graph import NodeKind, Outcome
from assent.model.parse import Declaration
from assent.model.problems import Path
from assent.model.terms import Capability, Duration, Label, Language, refuse, seconds_of

NodeRef = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""The id of a node as authors write it; which ones exist is the compiler's to say."""

Languages = Mapping[str, Language]

_OF_EVERY_NODE: Final = frozenset(
    {"id", "type", "label", "edit", "waives_approval", "capabilities", "timeout", "on_timeout"}
)


class NodeDeclaration(Declaration):
    kind: ClassVar[NodeKind]
    languages: ClassVar[Languages] = {}
    """Dotted key of the configuration → how the texts below it are read."""
    outcomes_given: ClassVar[frozenset[str]] = frozenset({Outcome.COMPLETED})
    """The outcomes that a node of this kind can end with, besides `timeout` where it has one."""

    id: NodeRef
    label: Label | None = None
    edit: EditWindow | None = None
    """A stricter edit window than the place would have; never a looser one."""
    waives_approval: bool = False
    """Whoever comes through here needs no approval at the slot's gate."""
    capabilities: tuple[Capability, ...] = ()
    """What somebody must hold to act on the step."""

    @property
    def node_kind(self) -> NodeKind:
        return self.kind

    def as_written(self, path: Path) -> Path:
        """Where the author wrote what is at `path` of the configuration."""
        return path

    def config(self) -> dict[str, Any]:
        """The node's own settings as plain JSON, lengths of time in seconds."""
        dumped = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(_OF_EVERY_NODE))
        return {key: value for key, value in dumped.items() if value not in ({}, [])}


class Timed(NodeDeclaration):
    """A node that may take its time, and so may run out of it."""

    timeout: Duration | None = None
    on_timeout: NodeRef | None = None
    """Where it goes then; the same as an edge for `timeout`."""


class ActingNode(NodeDeclaration):
    """A node that acts on something, as somebody."""

    run_as: Literal["actor", "system", "service_account"] = "actor"
    service_account: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None

    @model_validator(mode="after")
    def _service_account_is_named(self) -> Self:
        if (self.run_as == "service_account") != (self.service_account is not None):
            raise refuse("BAD_VALUE", "`run_as: service_account` and `service_account: <name>` go together")
        return self


def in_seconds(config: dict[str, Any], key: str) -> dict[str, Any]:
    return config | {key: seconds_of(config[key])} if key in config else config
