"""Texts of a compiled workflow as programs. The compiler has checked them; here they only have to run."""

from collections.abc import Mapping
from typing import Any

from assent.language import (
    Program,
    Scope,
    Template,
    UrlProgram,
    as_json,
    compile_expression,
    compile_template,
    parse,
    parse_template,
    secret_in,
    secrets_in,
)
from assent.language.templates import Hole, as_text
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
    return compile_template(_parsed(text), scope)


def url_template(text: str, scope: Scope) -> UrlProgram:
    return UrlProgram(_parsed(text), scope)


def _parsed(text: str) -> Template:
    parsed, problems = parse_template(text, canonical=True)
    if parsed is None:
        raise _unreadable(problems)
    return parsed


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

    def explained(self, variables: Variables) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values, and of each expression its text, the variables that it read and its result."""
        runs = {name: run(variables) for name, run in self._programs.items()}
        found = self._constants | {name: as_json(one.result) for name, one in runs.items()}
        return found, {name: one.to_json() for name, one in runs.items()}


class Headers:
    """Name → template. What names a secret stays in parts: only the effects worker knows the value."""

    def __init__(self, texts: Mapping[str, str], scope: Scope) -> None:
        parsed = {name: _parsed(text) for name, text in texts.items()}
        plain = {name: text for name, text in texts.items() if not secrets_in(parsed[name])}
        self._plain = Payload(plain, scope)
        self._secret = {
            name: [_header_part(part, scope) for part in template.parts]
            for name, template in parsed.items()
            if secrets_in(template)
        }
        self._names = sorted({name for template in parsed.values() for name in secrets_in(template)})

    def __call__(self, variables: Variables) -> dict[str, Any]:
        """Return the parts of an effect's payload that say its headers."""
        headers = {name: str(value) for name, value in self._plain(variables).items()}
        if not self._secret:
            return {"headers": headers}
        parts = {
            name: [as_text(part.value(variables)) if isinstance(part, Program) else part for part in found]
            for name, found in self._secret.items()
        }
        return {"headers": headers, "secret_headers": parts, "secrets": self._names}


def _header_part(part: str | Hole, scope: Scope) -> str | dict[str, str] | Program:
    if isinstance(part, str):
        return part
    secret = secret_in(part)
    return {"secret": secret} if secret is not None else compile_expression(part.expression, scope)


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
