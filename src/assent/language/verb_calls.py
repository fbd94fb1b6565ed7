"""Calls of verbs against their declarations: whether they fit, and the arguments that come of them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from assent.language.marks import marked
from assent.language.syntax import Variable
from assent.language.values import looked_up
from assent.language.verb_syntax import Argument, VerbCall, variables_of
from assent.language.verb_values import UNBOUND, ArgumentType, kept, resolved
from assent.language.verbs import VerbRegistry, VerbSpec
from assent.model.hints import nearest
from assent.model.problems import Problem

Lookup = Callable[[Variable], Any]


def check_verb(
    call: VerbCall, registry: VerbRegistry, variables: Collection[str] | None = None
) -> list[Problem]:
    """What is wrong with a call; `variables` are the names that `$` may refer to, where they are known."""
    spec = registry.find(call.name)
    if spec is None:
        hint = _nearest(call.name, registry.verbs)
        return [marked("UNKNOWN_VERB", f"there is no verb `{call.name}`", call.text, call.span, hint)]
    given = {argument.key for argument in call.arguments}
    return [
        *_check_arguments(call, spec, lambda variable: UNBOUND),
        *_missing(call, spec, given),
        *(_unknown_variables(call, variables) if variables is not None else ()),
    ]


def bind_verb(
    call: VerbCall, variables: Mapping[str, Any], spec: VerbSpec | None = None
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The call's arguments by name, as JSON, with `$variables` replaced and defaults filled in.

    A variable that has no value leaves its argument out, which is a problem unless the argument is optional.
    """

    def lookup(variable: Variable) -> Any:
        value: Any = variables
        for name in variable.path:
            value = looked_up(value, name)
        return value

    values = {argument.key: resolved(argument.value, lookup) for argument in call.arguments}
    given = {key: value for key, value in values.items() if value is not None}
    if spec is None:
        problems = list(_unvalued(call, given))
    else:
        problems = [*_check_arguments(call, spec, lookup), *_missing(call, spec, given)]
    return (None if problems else _bound(given, spec or VerbSpec())), problems


def _bound(given: Mapping[str, Any], spec: VerbSpec) -> dict[str, Any]:
    defaults = {known.name: known.default for known in spec.args if known.default is not None}
    types = {known.name: known.of or known.type for known in spec.args}
    return {
        key: kept(types.get(key, ArgumentType.JSON), value) for key, value in {**defaults, **given}.items()
    }


def _check_arguments(call: VerbCall, spec: VerbSpec, lookup: Lookup) -> Iterator[Problem]:
    for argument in call.arguments:
        declared = spec.argument(argument.key)
        value = resolved(argument.value, lookup)
        if declared is None:
            yield _unknown_argument(call, argument, spec)
        elif value is not None and (complaint := declared.complaint(value)):
            yield marked("WRONG_TYPE", complaint, call.text, argument.value.span)


def _unknown_argument(call: VerbCall, argument: Argument, spec: VerbSpec) -> Problem:
    message = f"`{call.name}` takes no `:{argument.key}`"
    hint = _nearest(argument.key, [known.name for known in spec.args])
    return marked("UNKNOWN_ARGUMENT", message, call.text, argument.span, hint)


def _missing(call: VerbCall, spec: VerbSpec, given: Collection[str]) -> Iterator[Problem]:
    for known in spec.args:
        if known.required and known.name not in given:
            message = f"`{call.name}` needs a value for `:{known.name}`"
            yield marked("MISSING_ARGUMENT", message, call.text, call.span)


def _unvalued(call: VerbCall, given: Collection[str]) -> Iterator[Problem]:
    for argument in call.arguments:
        if argument.key not in given:
            message = f"`:{argument.key}` has no value"
            yield marked("MISSING_ARGUMENT", message, call.text, argument.value.span)


def _unknown_variables(call: VerbCall, variables: Collection[str]) -> Iterator[Problem]:
    for found in variables_of(call):
        name = ".".join(found.path)
        if name not in variables and found.path[0] not in variables:
            hint = _nearest(name, variables)
            yield marked("UNKNOWN_VARIABLE", f"there is no `${name}` here", call.text, found.span, hint)


def _nearest(name: str, known: Collection[str]) -> str | None:
    if near := nearest(name, known):
        return f"did you mean `{near}`?"
    return f"known here: {', '.join(sorted(known)[:12])}" if known else None
