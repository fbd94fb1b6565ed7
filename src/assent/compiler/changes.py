"""What changed, as a value: for programs as JSON, for people as text."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Sort = Literal["added", "removed", "changed", "tightened", "loosened"]

_SIGNS: Final[Mapping[Sort, str]] = {
    "added": "+",
    "removed": "-",
    "changed": "~",
    "tightened": "!",
    "loosened": "?",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """One setting that is not what it was; None stands for absent."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.before)} → {_shown(self.after)}"


@dataclass(frozen=True, slots=True)
class WorkflowChange:
    sort: Sort
    what: Literal["node", "edge", "window", "setting"]
    id: str
    text: str
    """The same for people."""
    group: str
    """The slot that it concerns, or `envelope`, or `flow`."""
    provenance: str
    """Who brought what changed: the envelope, a slot's patch, a flow."""
    details: tuple[Detail, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"  {_SIGNS[self.sort]} {self.what} {self.text}"
        for detail in self.details:
            yield f"      {detail}"


@dataclass(frozen=True, slots=True)
class Diff:
    before: str
    after: str
    """Which workflows were compared."""
    groups: Mapping[str, tuple[WorkflowChange, ...]]

    @property
    def is_empty(self) -> bool:
        return not self.groups

    def to_json(self) -> dict[str, Any]:
        groups = {name: [asdict(change) for change in group] for name, group in self.groups.items()}
        return {"before": self.before, "after": self.after, "groups": groups}

    def to_text(self) -> str:
        lines = [f"{self.before} → {self.after}"]
        for name, group in self.groups.items():
            lines += ["", name, *(line for change in group for line in change.lines())]
        return "\n".join(lines if self.groups else [*lines, "", "nothing changed"]) + "\n"


def _shown(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else repr(value)
