"""Texts of a compiled workflow as programs. The compiler has checked them; here they only have to run."""

from collections.abc import Mapping
from typing import Any

from assent.language import (
    Program,
    Scope,
    as_json,
    compile_expression,
    compile_template,
    parse,
    parse_template,
)
from assent.model.problems import Problem

Variables = Mapping[str, Any]


def program(text: str | None, scope: Scope) -> Program | None:
    return None if text is None else required_program(text, scope)


def required_program(text: str, scope: Scope) -> Program:
    expression, problems = parse(text, canonical=True)
    if expression is None:
        raise _unreadable(problems)
    return compile_expression(expression, scope)


def template(text: str, scope: Scope) -> Program:
    parsed, problems = parse_template(text, canonical=True)
    if parsed is None:
        raise _unreadable(problems)
    return compile_template(parsed, scope)


class Values:
    """Name → expression, or a value that stands for itself."""

    def __init__(self, texts: Mapping[str, Any], scope: Scope) -> None:
        self._programs = {
            name: required_program(text, scope) for name, text in texts.items() if isinstance(text, str)
        }
        self._constants = {name: value for name, value in texts.items() if not isinstance(value, str)}

    def __call__(self, variables: Variables) -> dict[str, Any]:
        found = dict(self._constants)
        for name, run in self._programs.items():
            found[name] = as_json(run.value(variables))
        return found


class Payload:
    """JSON whose texts are templates; a template that is one expression gives the value itself."""

    def __init__(self, value: Any, scope: Scope) -> None:
        self._value = _prepared(value, scope)

    def __call__(self, variables: Variables) -> Any:
        return _filled(self._value, variables)


def _prepared(value: Any, scope: Scope) -> Any:
    if isinstance(value, str):
        return template(value, scope)
    if isinstance(value, Mapping):
        return {key: _prepared(item, scope) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_prepared(item, scope) for item in value]
    return value


def _filled(value: Any, variables: Variables) -> Any:
    if isinstance(value, Program):
        return as_json(value.value(variables))
    if isinstance(value, dict):
        return {key: _filled(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    return value


def _unreadable(problems: list[Problem]) -> ValueError:
    return ValueError(f"a compiled workflow holds a text that cannot be read: {problems[0]}")
