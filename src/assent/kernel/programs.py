"""A rule's texts as programs: its condition, and what its outcome needs to be computed.

deny: {message: "over the limit of {org.limit}"}
set:  {cost_center: "'R&D'", checked: "true"}            field → expression
emit: {key: "invoice:large:{entity.number}", payload: {total: "{entity.grand_total}"}}
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from assent.language import (
    Condition,
    Program,
    Scope,
    as_json,
    check,
    check_template,
    compile_expression,
    compile_template,
    parse,
    parse_template,
    prepare,
    scope_of,
)
from assent.model.canonical import canonical_json
from assent.model.contract import Contract
from assent.model.problems import Problem

Variables = Mapping[str, Any]
Prepared = tuple[Program | None, list[Problem]]


@dataclass(frozen=True, slots=True)
class RulePrograms:
    """What a rule runs: its condition, and the parts of its outcome by their path."""

    condition: Program
    parts: Mapping[tuple[str, ...], Program]

    def message(self, variables: Variables) -> str:
        return str(self.parts["message",].value(variables))

    def key(self, variables: Variables) -> str:
        return str(self.parts["key",].value(variables))

    def sets(self, variables: Variables) -> dict[str, Any]:
        return {name: as_json(program.value(variables)) for (name,), program in self.parts.items()}

    def payload(self, variables: Variables) -> dict[str, Any]:
        parts = {path[1]: part for path, part in self.parts.items() if len(path) == 2}
        return {name: as_json(part.value(variables)) for name, part in parts.items()}


def programs_of(
    condition: Condition, outcome: str, outcome_json: Mapping[str, Any], contract: Contract
) -> tuple[RulePrograms | None, list[Problem]]:
    """The programs of a rule, or everything that is wrong with it. Prepared once per distinct text."""
    return _prepared(canonical_json([condition, outcome, outcome_json]), contract)


@lru_cache(maxsize=4096)
def _prepared(text: bytes, contract: Contract) -> tuple[RulePrograms | None, list[Problem]]:
    condition, outcome, outcome_json = orjson.loads(text)
    scope = scope_of(contract)
    program, problems = prepare(condition, scope)
    problems = [problem.under("condition") for problem in problems]
    parts: dict[tuple[str, ...], Program] = {}
    for path, (part, found) in _OUTCOMES[outcome](outcome_json, contract, scope):
        problems += [problem.under("outcome", *path) for problem in found]
        if part is not None:
            parts[path] = part
    if problems or program is None:
        return None, problems
    return RulePrograms(program, parts), []


Parts = Iterator[tuple[tuple[str, ...], Prepared]]


def _deny_parts(outcome: Mapping[str, Any], contract: Contract, scope: Scope) -> Parts:
    yield from _unknown_keys(outcome, {"message"})
    yield ("message",), _template(outcome.get("message"), scope)


def _emit_parts(outcome: Mapping[str, Any], contract: Contract, scope: Scope) -> Parts:
    yield from _unknown_keys(outcome, {"key", "payload"})
    yield ("key",), _template(outcome.get("key"), scope)
    for name, text in (outcome.get("payload") or {}).items():
        yield ("payload", name), _template(text, scope)


def _set_parts(outcome: Mapping[str, Any], contract: Contract, scope: Scope) -> Parts:
    yield from _unknown_keys(outcome, contract.fields)
    for name, text in outcome.items():
        yield (name,), _expression(text, scope)


def _unknown_keys(outcome: Mapping[str, Any], known: "set[str] | Mapping[str, Any]") -> Parts:
    for name in outcome:
        if name not in known:
            message = f"`{name}` is not known here; there are: {', '.join(known)}"
            yield (name,), (None, [Problem("UNKNOWN_KEY", message)])


def _template(text: object, scope: Scope) -> Prepared:
    if not isinstance(text, str) or not text:
        return None, [Problem("MISSING_KEY", "expected a text here")]
    template, problems = parse_template(text)
    if template is None:
        return None, problems
    problems = check_template(template, scope)
    return (None if problems else compile_template(template, scope)), problems


def _expression(text: object, scope: Scope) -> Prepared:
    if not isinstance(text, str):
        return None, [
            Problem("WRONG_TYPE", "expected an expression as text", hint="write text in quotes: \"'R&D'\"")
        ]
    expression, problems = parse(text)
    if expression is None:
        return None, problems
    _, problems = check(expression, scope)
    return (None if problems else compile_expression(expression, scope)), problems


_OUTCOMES: Final[Mapping[str, Callable[[Mapping[str, Any], Contract, Scope], Parts]]] = {
    "deny": _deny_parts,
    "set": _set_parts,
    "emit": _emit_parts,
}
