"""What publishing a workflow takes: a capability for each thing that its nodes use, and for what weakens approvals.

Nobody publishes a workflow that does more than they could do themselves, or were trusted to publish. The table names
every kind of node; a kind that is not in it cannot be compiled.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assent.language import parse, parse_template, secrets_in
from assent.language.syntax import And, Literal, Or, Variable, walk
from assent.language.syntax import Node as Syntax
from assent.model.graph import Node, NodeKind

WAIVE_APPROVAL: Final = "workflow:publish:waive_approval"
"""The capability to publish what weakens approvals."""
SUBMIT_TASKS: Final = "tasks:submit"


@dataclass(frozen=True, slots=True)
class RequiredCapability:
    """What one node needs of its publisher."""

    node: str
    """As its author calls it."""
    capability: str
    use: str
    """What the node does that takes it, for messages: `calls the operation payroll.pay`."""
    thing: str = ""
    """What it uses, such as `operation:payroll.pay`: an application may name another capability for it."""


def required_capabilities(
    nodes: Iterable[Node], *, relaxed_here: bool = False, publisher: str | None = None
) -> tuple[RequiredCapability, ...]:
    """Everything that nodes need, in the order of the nodes.

    `relaxed_here`: whether the workflow itself lets one hand do two duties; a contract that does is not its patches'
    doing. `publisher`: whose own approval would be nobody else's.
    """
    given = list(nodes)
    alone = _Alone.of(publisher, given) if publisher is not None else None
    found = [need for node in given for need in _needs_of_node(node, relaxed_here, alone)]
    return tuple(dict.fromkeys(found))


def capabilities_of(needs: Iterable[RequiredCapability]) -> tuple[str, ...]:
    return tuple(sorted({need.capability for need in needs}))


def _needs_of_node(node: Node, relaxed_here: bool, alone: "_Alone | None") -> Iterator[RequiredCapability]:
    yield from NEEDS[node.kind](node)
    yield from _borrowed(node)
    if node.waives_approval:
        yield RequiredCapability(node.name, WAIVE_APPROVAL, "waives the approval that the contract requires")
    if node.kind is NodeKind.APPROVAL:
        if relaxed_here and node.config.get("separation"):
            yield RequiredCapability(
                node.name, WAIVE_APPROVAL, "lets one person do duties that are kept apart"
            )
        if alone is not None and alone.can_approve(node.config):
            yield RequiredCapability(
                node.name, WAIVE_APPROVAL, f"is approved by {alone.publisher}, who publishes it, alone"
            )


def _borrowed(node: Node) -> Iterator[RequiredCapability]:
    """D29: whoever lends a step other rights than those of the person it acts for."""
    run_as = node.config.get("run_as", "actor")
    if run_as == "service_account":
        account = node.config["service_account"]
        use = f"acts as the service account {account}"
        yield RequiredCapability(
            node.name, "workflow:publish:run_as_service_account", use, f"service_account:{account}"
        )
    elif run_as != "actor":
        yield RequiredCapability(node.name, f"workflow:publish:run_as_{run_as}", f"acts as {run_as}")


def _nothing(_: Node) -> Iterator[RequiredCapability]:
    yield from ()


def _of_system(node: Node) -> Iterator[RequiredCapability]:
    operation = node.config["operation"]
    if "sdk" in operation:
        name = operation["sdk"]
        yield RequiredCapability(
            node.name, f"operation:{name}:use", f"calls the operation {name}", f"operation:{name}"
        )
    else:
        service = operation["openapi"].partition(".")[0]
        yield RequiredCapability(
            node.name, f"service:{service}:use", f"calls the service {service}", f"service:{service}"
        )


def _of_task(node: Node) -> Iterator[RequiredCapability]:
    task = node.config["task"]
    yield RequiredCapability(node.name, SUBMIT_TASKS, f"submits the task {task}", f"task:{task}")


def _of_webhook(node: Node) -> Iterator[RequiredCapability]:
    for secret in secrets_of(node):
        use = f"sends the secret {secret}"
        yield RequiredCapability(node.name, f"secret:{secret}:use", use, f"secret:{secret}")


def _of_approval(node: Node) -> Iterator[RequiredCapability]:
    if node.config.get("default") == "approved":
        yield RequiredCapability(node.name, WAIVE_APPROVAL, "counts as approved when nobody answers")


NEEDS: Final[Mapping[NodeKind, Callable[[Node], Iterator[RequiredCapability]]]] = {
    NodeKind.START: _nothing,
    NodeKind.END: _nothing,
    NodeKind.STATE: _nothing,
    NodeKind.LIFECYCLE_GATE: _nothing,
    NodeKind.POLICY_GATE: _nothing,
    # The kernel asks the person on whose behalf the step acts; `run_as` is asked of every kind.
    NodeKind.ACTION: _nothing,
    NodeKind.APPROVAL: _of_approval,
    NodeKind.FORM: _nothing,
    NodeKind.SYSTEM: _of_system,
    NodeKind.CONDITION: _nothing,
    NodeKind.PARALLEL_SPLIT: _nothing,
    NodeKind.PARALLEL_JOIN: _nothing,
    NodeKind.WAIT_TIMER: _nothing,
    NodeKind.WAIT_EVENT: _nothing,
    NodeKind.WEBHOOK_OUT: _of_webhook,
    # What is told is what authors write; how many are told, the engine limits.
    NodeKind.NOTIFICATION: _nothing,
    NodeKind.SCRIPT: _nothing,
    NodeKind.RULE: _nothing,
    NodeKind.REQUIREMENTS: _nothing,
    NodeKind.TASK: _of_task,
    NodeKind.SLOT: _nothing,
}
"""Kind of node → what such a node needs."""


def secrets_of(node: Node) -> list[str]:
    """The secrets that a node sends, by name."""
    templates = (parse_template(text, canonical=True)[0] for text in node.config.get("headers", {}).values())
    found = [name for template in templates if template is not None for name in secrets_in(template)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Alone:
    """Whether approvals need nobody but the one who publishes them."""

    publisher: str
    set_by_steps: bool
    """Whether some step sets a variable to the publisher's id."""

    @classmethod
    def of(cls, publisher: str, nodes: Iterable[Node]) -> "_Alone":
        texts = [text for node in nodes for text in _assigned(node)]
        return cls(publisher, any(publisher in _literals(text) for text in texts))

    def can_approve(self, config: Mapping[str, Any]) -> bool:
        """Whether the publisher is enough of some tier, or is the one to whom it is escalated."""
        escalation = config.get("escalate")
        if escalation is not None and self._is_named(escalation["to"]):
            return True
        return any(self._is_enough(tier) for tier in config["tiers"])

    def _is_enough(self, tier: Mapping[str, Any]) -> bool:
        own = {group["name"] for group in tier["groups"] if self._is_named(group["approvers"])}
        if "enough" not in tier:
            return len(own) == len(tier["groups"])
        expression, _ = parse(tier["enough"], canonical=True)
        return expression is not None and _holds(expression.root, own)

    def _is_named(self, people: Mapping[str, Any]) -> bool:
        """A rule counts when it names the publisher, or reads a variable that may: whoever else it may give."""
        if "rule" not in people:
            return bool(people.get("user") == self.publisher)
        named = self.publisher in _literals(people["rule"])
        return named or (self.set_by_steps and _reads_variables(people["rule"]))


def _assigned(node: Node) -> Iterator[str]:
    """The expressions whose values a node keeps in variables of the workflow."""
    for key in ("set", "output"):
        given = node.config.get(key)
        if isinstance(given, Mapping):
            yield from (text for text in given.values() if isinstance(text, str))


def _literals(text: str) -> set[object]:
    return {part.value for part in _parts(text) if isinstance(part, Literal)}


def _reads_variables(text: str) -> bool:
    return any(isinstance(part, Variable) and part.path[0] == "workflow" for part in _parts(text))


def _parts(text: str) -> list[Syntax]:
    expression, _ = parse(text, canonical=True)
    return [] if expression is None else list(walk(expression.root))


def _holds(node: Syntax, own: set[str]) -> bool:
    if isinstance(node, And):
        return all(_holds(part, own) for part in node.parts)
    if isinstance(node, Or):
        return any(_holds(part, own) for part in node.parts)
    return isinstance(node, Variable) and ".".join(node.path) in own
