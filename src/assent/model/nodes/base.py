"""The base of all node declarations: the facts of a kind, its fields, and the languages of its texts.

A kind of node is one class with a `kind`: the class is registered in `KINDS` when it is defined, and compiler and
engine ask it for the facts of the kind. They keep no tables of their own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import StringConstraints, model_validator

from assent.model.contract import EditWindow
from assent.model.graph import NodeKind, Outcome
from assent.model.parse import Declaration
from assent.model.problems import Path
from assent.model.terms import Capability, Duration, Label, Language, refuse, seconds_of

NodeRef = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""The id of a node as authors write it; the compiler checks that it exists."""

Languages = Mapping[str, Language]
Shape = tuple[str, str]
"""The brackets around a node in a Mermaid flowchart."""

_OF_EVERY_NODE: Final = frozenset(
    {"id", "type", "label", "edit", "waives_approval", "capabilities", "timeout", "on_timeout"}
)

KINDS: Final[dict[NodeKind, type["NodeDeclaration"]]] = {}
"""Kind → the class that declares it and holds its facts."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Something that a node uses, and the capability that its publisher must hold for it."""

    capability: str
    use: str
    """What the node does, for messages: `calls the operation payroll.pay`."""
    thing: str = ""
    """What it uses, such as `operation:payroll.pay`: an application may name another capability for it."""


Uses = Callable[[Mapping[str, Any]], Iterable[NodeUse]]
"""The configuration of a compiled node → what the node uses."""


def use_nothing(config: Mapping[str, Any]) -> Iterable[NodeUse]:
    """Return nothing: for kinds of node that use nothing which takes a right."""
    return ()


class NodeDeclaration(Declaration):
    kind: ClassVar[NodeKind]
    uses: ClassVar[Uses]
    """What a node of this kind uses. It has no default, so that no kind is forgotten."""
    languages: ClassVar[Languages] = {}
    """Dotted key of the configuration → the language of the texts below it."""

    waits: ClassVar[bool] = False
    """Whether it waits for a person, a time, an event or documents: a chain of automatic steps ends here."""
    by_people: ClassVar[bool] = False
    """Whether a person moves the token: a person without an edge's guard is refused, and the step stays open."""
    automatic: ClassVar[bool] = False
    """Whether it is an automatic call: too many of them in a row are an endless loop, and pause the instance."""
    branches: ClassVar[bool] = False
    """Whether the output of its step must name the edges that it chose."""
    in_patches: ClassVar[bool] = True
    """Whether patches and flows may hold it; the compiler makes the other kinds."""
    shape: ClassVar[Shape] = ("[", "]")
    kind_is_shown: ClassVar[bool] = True
    """Whether a diagram names the kind under the label."""

    success: ClassVar[Outcome] = Outcome.COMPLETED
    """The outcome that an edge answers if its author names none."""
    outcomes_given: ClassVar[frozenset[str]] = frozenset({Outcome.COMPLETED})
    """The outcomes that a node of this kind can end with, besides `timeout`."""
    outcomes_required: ClassVar[frozenset[str]] = frozenset({Outcome.COMPLETED})
    """The outcomes that an edge must answer."""
    outcomes_open: ClassVar[bool] = False
    """Whether its edges may name outcomes of their own, if the declaration names none."""

    id: NodeRef
    label: Label | None = None
    edit: EditWindow | None = None
    """A stricter edit window than the place would have; never a looser one."""
    waives_approval: bool = False
    """Whether a token that passes here needs no approval at the slot's gate."""
    capabilities: tuple[Capability, ...] = ()
    """The capabilities that a person must hold to act on the step."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        if "kind" in cls.__dict__ and KINDS.setdefault(cls.kind, cls) is not cls:
            raise TypeError(f"{cls.kind} is declared by {KINDS[cls.kind].__name__} already")
        if "kind" in cls.__dict__ and not hasattr(cls, "uses"):
            raise TypeError(f"{cls.kind} does not say what its publisher must be allowed to use")

    @property
    def node_kind(self) -> NodeKind:
        return self.kind

    @property
    def own_outcomes(self) -> frozenset[str]:
        """The outcomes that its author named."""
        return frozenset()

    @property
    def given_outcomes(self) -> frozenset[str]:
        """The outcomes of its kind that this node can end with."""
        return self.outcomes_given

    @property
    def may_time_out(self) -> bool:
        """Whether `timeout` is an outcome, if it has a time."""
        return True

    @property
    def must_answer_timeout(self) -> bool:
        """Whether an edge must answer `timeout`, if the flow itself does not."""
        return True

    def as_written(self, path: Path) -> Path:
        """Return where the author wrote what is at `path` of the configuration."""
        return path

    def config(self) -> dict[str, Any]:
        """Return the node's own settings as plain JSON, lengths of time in seconds."""
        dumped = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(_OF_EVERY_NODE))
        return {key: value for key, value in dumped.items() if value not in ({}, [])}


class Timed(NodeDeclaration):
    """A node that may have a time limit."""

    timeout: Duration | None = None
    on_timeout: NodeRef | None = None
    """The node that follows when the time is over; the same as an edge for `timeout`."""


class ActingNode(NodeDeclaration):
    """A node that acts on something, with the rights of an actor."""

    run_as: Literal["actor", "system", "service_account"] = "actor"
    service_account: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None

    @model_validator(mode="after")
    def _service_account_is_named(self) -> Self:
        if (self.run_as == "service_account") != (self.service_account is not None):
            raise refuse("BAD_VALUE", "`run_as: service_account` and `service_account: <name>` go together")
        return self


def in_seconds(config: dict[str, Any], key: str) -> dict[str, Any]:
    return config | {key: seconds_of(config[key])} if key in config else config
