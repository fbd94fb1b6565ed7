"""Everything in the language: conditions, values, templates and verbs are checked and made canonical.

An expression may name the contract's fields, the actor, the org's settings and the workflow's variables; what
a call, an event or a form brought is `result`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from assent.compiler.draft import WorkflowDraft
from assent.language import (
    Scope,
    check,
    check_condition,
    check_secrets,
    check_template,
    check_url,
    check_verb,
    parse,
    parse_template,
    parse_verb,
    render,
    render_template,
    render_verb,
    scope_of,
    with_secrets,
)
from assent.language.built_in_verbs import BUILT_IN, DOMAINS, RESOLUTIONS
from assent.language.types import NUMBERS, UNKNOWN, TypeKind
from assent.model.problems import Position, Problem
from assent.model.terms import Language

Read = tuple[str | None, list[Problem]]
"""The canonical text, or the problems that keep a text from having one."""


def check_expressions(draft: WorkflowDraft) -> WorkflowDraft:
    scope = _scope(draft)
    problems = list(_check_conditions(draft, scope))
    nodes = dict(draft.nodes)
    for node_id, declared in draft.declared.items():
        config: Any = nodes[node_id].config
        for dotted, language in declared.languages.items():
            config, found = _rewritten(config, dotted.split("."), _READERS[language], scope)
            problems += (as_written(draft, node_id, problem) for problem in found)
        nodes[node_id] = replace(nodes[node_id], config=config)
    return draft.noting(problems).evolve(nodes=nodes)


def _scope(draft: WorkflowDraft) -> Scope:
    """Return the contract's scope; the entity of a flow without a contract is not checked."""
    scope = scope_of(draft.contract)
    unknown = draft.contract is None and draft.flow is not None and draft.flow.entity is not None
    return scope.with_roots(entity=UNKNOWN) if unknown else scope


def _check_conditions(draft: WorkflowDraft, scope: Scope) -> Iterator[Problem]:
    for condition in draft.conditions.values():
        read = condition.expression
        found = condition.problems if read is None else check_condition(read, scope)
        yield from (problem.under(*condition.path) for problem in found)


def as_written(draft: WorkflowDraft, node_id: str, problem: Problem) -> Problem:
    """Return a problem of a node's configuration, at the place where its author wrote that."""
    path = draft.declared[node_id].as_written(problem.path)
    return replace(problem, path=(*draft.place(node_id), *path))


def _rewritten(value: Any, path: Sequence[str], read: "Reader", scope: Scope) -> tuple[Any, list[Problem]]:
    """Return the value with every text below `path` in canonical form, and what is wrong with them.

    A `*` in the path stands for all items of a list.
    """
    if not path:
        return _canonical(value, read, scope)
    keys = range(len(value)) if path[0] == "*" else [key for key in path[:1] if key in value]
    copy: Any = value.copy()
    problems: list[Problem] = []
    for key in keys:
        copy[key], found = _rewritten(value[key], path[1:], read, scope)
        problems += (problem.under(key) for problem in found)
    return copy, problems


def _canonical(value: Any, read: "Reader", scope: Scope) -> tuple[Any, list[Problem]]:
    if isinstance(value, str):
        text, problems = read(value, scope)
        return text if text is not None else value, problems
    if not isinstance(value, Mapping | list):
        return value, []
    parts: dict[Any, Any] = {}
    problems = []
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        parts[key], found = _canonical(item, read, scope)
        problems += (problem.under(key) for problem in found)
    return (list(parts.values()) if isinstance(value, list) else parts), problems


Reader = Callable[[str, Scope], Read]


def _read_expression(text: str, scope: Scope, *wanted: TypeKind) -> Read:
    """Without `wanted` a value of any kind will do."""
    expression, problems = parse(text)
    if expression is None:
        return None, problems
    found, problems = check(expression, scope)
    if wanted and not problems and found.kind not in (*wanted, TypeKind.UNKNOWN):
        message = f"{' or '.join(wanted)} was expected here, this is {found}"
        problems = [Problem("WRONG_TYPE", message, position=Position(1, 1))]
    return render(expression), problems


def _read_result(text: str, scope: Scope) -> Read:
    return _read_expression(text, scope.with_roots(result=UNKNOWN))


def _read_moment(text: str, scope: Scope) -> Read:
    return _read_expression(text, scope, TypeKind.DATE, TypeKind.DATETIME)


def _read_number(text: str, scope: Scope) -> Read:
    return _read_expression(text, scope, *sorted(NUMBERS))


def _read_people(text: str, scope: Scope) -> Read:
    return _read_expression(text, scope, TypeKind.TEXT, TypeKind.LIST)


def _read_id(text: str, scope: Scope) -> Read:
    return _read_expression(text, scope, TypeKind.TEXT)


def _read_template(text: str, scope: Scope) -> Read:
    template, problems = parse_template(text)
    if template is None:
        return None, problems
    return render_template(template), check_template(template, scope)


def _read_header(text: str, scope: Scope) -> Read:
    template, problems = parse_template(text)
    if template is None:
        return None, problems
    problems = [*check_template(template, with_secrets(scope)), *check_secrets(template)]
    return render_template(template), problems


def _read_url(text: str, scope: Scope) -> Read:
    template, problems = parse_template(text)
    if template is None:
        return None, problems
    return render_template(template), [*check_template(template, scope), *check_url(template)]


def _read_resolution(text: str, _: Scope) -> Read:
    call, problems = parse_verb(text)
    if call is None:
        return None, problems
    return render_verb(call), check_verb(call, RESOLUTIONS)


def _read_verb(text: str, _: Scope) -> Read:
    """Check a verb of a step: one of ours here, one of the application where the application is known."""
    call, problems = parse_verb(text)
    if call is None:
        return None, problems
    is_ours = call.name.partition(".")[0] in DOMAINS
    return render_verb(call), check_verb(call, BUILT_IN) if is_ours else []


_READERS: Final[Mapping[Language, Reader]] = {
    Language.EXPRESSION: _read_expression,
    Language.RESULT: _read_result,
    Language.MOMENT: _read_moment,
    Language.NUMBER: _read_number,
    Language.PEOPLE: _read_people,
    Language.ID: _read_id,
    Language.TEMPLATE: _read_template,
    Language.URL: _read_url,
    Language.HEADER: _read_header,
    Language.VERB: _read_verb,
    Language.RESOLUTION: _read_resolution,
}
