"""Rights to publish a workflow: a capability for each thing that its nodes use, and for what weakens approvals.

A publisher publishes no workflow that does more than the publisher could do, or was trusted to publish. Each kind of
node says what it uses (`NodeDeclaration.uses`); a kind that does not say it cannot be compiled.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assent.language import parse, parse_template, secrets_in
from assent.language.functions import SELECTIONS
from assent.language.syntax import And, Arithmetic, FunctionCall, Literal, Negative, Or, Variable, walk
from assent.language.syntax import Node as Syntax
from assent.model.graph import Node, NodeKind
from assent.model.nodes import KINDS
from assent.model.nodes.people import WAIVE_APPROVAL


@dataclass(frozen=True, slots=True)
class RequiredCapability:
    """A capability that one node requires of its publisher."""

    node: str
    """The name that its author gave it."""
    capability: str
    use: str
    """What the node does that takes it, for messages: `calls the operation payroll.pay`."""
    thing: str = ""
    """What it uses, such as `operation:payroll.pay`: an application may name another capability for it."""


def required_capabilities(
    nodes: Iterable[Node], *, relaxed_here: bool = False, publisher: str | None = None
) -> tuple[RequiredCapability, ...]:
    """Return everything that nodes require, in the order of the nodes.

    `relaxed_here`: whether the workflow itself lets one person do two duties; a contract that does is not the patch's
    doing. `publisher`: the person whose approval alone must not be enough.
    """
    every_node = list(nodes)
    alone = _Alone.of(publisher, every_node) if publisher is not None else None
    needs = [need for node in every_node for need in _needs_of_node(node, relaxed_here, alone)]
    return tuple(dict.fromkeys(needs))


def capabilities_of(needs: Iterable[RequiredCapability]) -> tuple[str, ...]:
    return tuple(sorted({need.capability for need in needs}))


def _needs_of_node(node: Node, relaxed_here: bool, alone: "_Alone | None") -> Iterator[RequiredCapability]:
    for used in KINDS[node.kind].uses(node.config):
        yield RequiredCapability(node.name, used.capability, used.use, used.thing)
    for secret in secrets_of(node):
        use = f"sends the secret {secret}"
        yield RequiredCapability(node.name, f"secret:{secret}:use", use, f"secret:{secret}")
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
    """Yield the right to lend a step other rights than those of the person that it acts for (D29)."""
    run_as = node.config.get("run_as", "actor")
    if run_as == "service_account":
        account = node.config["service_account"]
        use = f"acts as the service account {account}"
        yield RequiredCapability(
            node.name, "workflow:publish:run_as_service_account", use, f"service_account:{account}"
        )
    elif run_as != "actor":
        yield RequiredCapability(node.name, f"workflow:publish:run_as_{run_as}", f"acts as {run_as}")


def secrets_of(node: Node) -> list[str]:
    """Return the names of the secrets that a node sends."""
    templates = (parse_template(text, canonical=True)[0] for text in node.config.get("headers", {}).values())
    found = [name for template in templates if template is not None for name in secrets_in(template)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Alone:
    """Whether approvals need no person but the publisher."""

    publisher: str
    set_by_steps: bool
    """Whether some step sets a variable to the publisher's id, or to a value that it computes."""

    @classmethod
    def of(cls, publisher: str, nodes: Iterable[Node]) -> "_Alone":
        texts = [text for node in nodes for text in _assigned(node)]
        return cls(publisher, any(publisher in _literals(text) or _computes(text) for text in texts))

    def can_approve(self, config: Mapping[str, Any]) -> bool:
        """Return whether the publisher is enough for one of the tiers, or is the person of the escalation."""
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
        """Return whether a rule names the publisher, computes a name, or reads a variable that may name one."""
        if "rule" not in people:
            return bool(people.get("user") == self.publisher)
        named = self.publisher in _literals(people["rule"]) or _computes(people["rule"])
        return named or (self.set_by_steps and _reads_variables(people["rule"]))


def _assigned(node: Node) -> Iterator[str]:
    """Yield the expressions whose values a node keeps in variables of the workflow."""
    for key in ("set", "output"):
        texts = node.config.get(key)
        if isinstance(texts, Mapping):
            yield from (text for text in texts.values() if isinstance(text, str))


def _literals(text: str) -> set[object]:
    return {part.value for part in _parts(text) if isinstance(part, Literal)}


def _computes(text: str) -> bool:
    """Return whether an expression makes a value that was nowhere before: `concat('an', 'n')` names ann."""
    return any(
        isinstance(part, Arithmetic | Negative)
        or (isinstance(part, FunctionCall) and part.function not in SELECTIONS)
        for part in _parts(text)
    )


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
