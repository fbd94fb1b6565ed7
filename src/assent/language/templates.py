"""Templates: text with expressions in braces, for messages, event keys and payloads.

`{{` and `}}` are plain braces. A template that is one expression and nothing else yields the value itself, of
whatever type; any other yields text, in which a missing value is empty.

`{secret.erp}` names a secret and is never its value, which only the effects worker reads. A secret stands alone in its
braces. Nothing is computed from it, so that nothing of it is kept.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from assent.language.check import check
from assent.language.closures import Read, Run, Variables
from assent.language.functions import text_of
from assent.language.lowering import Lowering
from assent.language.parse import parse
from assent.language.program import Program, as_evidence
from assent.language.render import render
from assent.language.syntax import (
    CANONICAL_GROWTH_MAX,
    Expression,
    TextSpan,
    Variable,
    marked,
    moved,
    position_at,
    walk,
)
from assent.language.types import (
    ACTOR,
    DATETIME,
    OPEN,
    Scope,
    TypeKind,
    object_of,
    types_of_fields,
)
from assent.model.contract import Contract
from assent.model.problems import Position, Problem

TEMPLATE_CHARACTERS_MAX: Final = 10_000
TEMPLATE_EXPRESSIONS_MAX: Final = 50

_PIECE: Final = re.compile(
    r"""(?P<plain>[^{}]+)
    | (?P<brace>\{\{ | \}\})
    | \{ (?P<inner> (?: [^{}'"] | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )* ) \}""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Hole:
    """An expression in braces, and where it begins."""

    expression: Expression
    origin: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Template:
    parts: tuple[str | Hole, ...]
    text: str = field(compare=False)

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(part for part in self.parts if isinstance(part, Hole))

    @property
    def whole(self) -> Hole | None:
        """The only part, if it is an expression; its value is the template's, unchanged."""
        return self.holes[0] if len(self.parts) == 1 and self.holes else None


def parse_template(text: str, *, canonical: bool = False) -> tuple[Template | None, list[Problem]]:
    """Return the template in `text`, or what keeps it from being one; `canonical` as for expressions."""
    if len(text) > TEMPLATE_CHARACTERS_MAX * (CANONICAL_GROWTH_MAX if canonical else 1):
        message = f"a template has at most {TEMPLATE_CHARACTERS_MAX} characters, this one has {len(text)}"
        return None, [Problem("TEMPLATE_TOO_LONG", message)]
    parts: list[str | Hole] = []
    problems: list[Problem] = []
    for piece in _pieces(text):
        if isinstance(piece, Problem):
            problems.append(piece)
        elif (inner := piece["inner"]) is not None:
            hole, found = _hole(inner, position_at(text, piece.start("inner")), canonical)
            parts += [hole] if hole else []
            problems += found
        else:
            parts.append(piece["plain"] or piece[0][0])
    problems += _too_many(parts)
    return (None if problems else Template(_joined(parts), text)), problems


def _pieces(text: str) -> Iterator[re.Match[str] | Problem]:
    """Yield the matches one after the other, up to the first brace that leads nowhere."""
    offset = 0
    while offset < len(text):
        piece = _PIECE.match(text, offset)
        if piece is None:
            side = "is not closed" if text[offset] == "{" else "closes nothing"
            hint = "a plain brace is written twice: {{ or }}"
            span = TextSpan(offset, offset + 1)
            yield marked("TEMPLATE_SYNTAX", f"the brace {text[offset]} {side}", text, span, hint)
            return
        yield piece
        offset = piece.end()


def _hole(inner: str, origin: Position, canonical: bool) -> tuple[Hole | None, list[Problem]]:
    expression, problems = parse(inner, canonical=canonical)
    hole = Hole(expression, origin) if expression else None
    return hole, [moved(problem, origin) for problem in problems]


def _too_many(parts: Sequence[str | Hole]) -> list[Problem]:
    count = sum(isinstance(part, Hole) for part in parts)
    if count <= TEMPLATE_EXPRESSIONS_MAX:
        return []
    message = f"a template has at most {TEMPLATE_EXPRESSIONS_MAX} expressions, this one has {count}"
    return [Problem("TEMPLATE_TOO_LONG", message)]


def _joined(parts: Sequence[str | Hole]) -> tuple[str | Hole, ...]:
    """Neighbouring texts as one, so that `{{` does not split its surroundings."""
    joined: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)


def check_template(template: Template, scope: Scope) -> list[Problem]:
    """Return the problems of every expression in the template, each at its place in the template's text."""
    return [problem for hole in template.holes for problem in _check_hole(hole, template, scope)]


def _check_hole(hole: Hole, template: Template, scope: Scope) -> Iterator[Problem]:
    expression = hole.expression
    found, problems = check(expression, scope)
    if template.whole is None and found.kind in (TypeKind.LIST, TypeKind.OBJECT):
        message = f"{found} cannot stand within text"
        span = TextSpan(0, len(expression.text))
        problems.append(
            marked("NOT_TEXT", message, expression.text, span, "take a part of it, or name it alone")
        )
    for problem in problems:
        yield moved(problem, hole.origin)


def compile_template(template: Template, scope: Scope = OPEN) -> Program:
    """Compile a template into the program that fills it in."""
    recording, quiet = (_lower(template, Lowering(scope, record=record)) for record in (True, False))
    return Program(template.text, recording, quiet)


def prepare_template(text: str, scope: Scope) -> tuple[Program | None, list[Problem]]:
    """Return a template parsed, checked and compiled, or everything that is wrong with it."""
    template, problems = parse_template(text)
    if template is None:
        return None, problems
    problems = check_template(template, scope)
    return (None if problems else compile_template(template, scope)), problems


def default_scope(contract: Contract) -> Scope:
    """Return the scope of a field's default: what was sent of the entity, the actor, the time."""
    fields = object_of(types_of_fields(contract.fields))
    return Scope({"entity": fields, "actor": ACTOR, "now": DATETIME})


def _lower(template: Template, lowering: Lowering) -> Run:
    if template.whole is not None:
        return lowering.lower(template.whole.expression.root)
    parts = [
        lowering.lower(part.expression.root) if isinstance(part, Hole) else part for part in template.parts
    ]

    def run(variables: Variables, read: Read) -> str:
        return "".join([part if isinstance(part, str) else as_text(part(variables, read)) for part in parts])

    return run


def as_text(value: Any) -> str:
    """Return a value as it reads within text; missing is empty, lists and objects are JSON."""
    return orjson.dumps(as_evidence(value)).decode() if isinstance(value, list | dict) else text_of(value)


def render_template(template: Template) -> str:
    """Return the canonical text of a template."""
    return "".join(
        f"{{{render(part.expression)}}}" if isinstance(part, Hole) else _escaped(part)
        for part in template.parts
    )


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


ROOT_OF_SECRETS: Final = "secret"
NAME_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"

_NAME: Final = re.compile(NAME_PATTERN)


def with_secrets(scope: Scope) -> Scope:
    """Return the scope of texts that may name secrets."""
    return scope.with_roots(secret=object_of({}, open=True))


def secret_in(hole: Hole) -> str | None:
    """Return the name of the secret that a hole is, if it is one."""
    root = hole.expression.root
    if isinstance(root, Variable) and root.path[0] == ROOT_OF_SECRETS and len(root.path) == 2:
        return root.path[1]
    return None


def secrets_in(template: Template) -> list[str]:
    """Return the secrets that a template names, each once."""
    names = (secret_in(hole) for hole in template.holes)
    return list(dict.fromkeys(name for name in names if name is not None))


def check_secrets(template: Template) -> list[Problem]:
    """Return what is wrong with how a template names secrets."""
    return [_misplaced(hole) for hole in template.holes if _reads_a_secret(hole) and not _is_well_named(hole)]


def _reads_a_secret(hole: Hole) -> bool:
    parts = walk(hole.expression.root)
    return any(isinstance(part, Variable) and part.path[0] == ROOT_OF_SECRETS for part in parts)


def _is_well_named(hole: Hole) -> bool:
    name = secret_in(hole)
    return name is not None and _NAME.fullmatch(name) is not None


def _misplaced(hole: Hole) -> Problem:
    message = "a secret stands alone in its braces, by a name of small letters, digits and _: `{secret.erp}`"
    return moved(Problem("MISPLACED_SECRET", message, position=Position(1, 1)), hole.origin)
