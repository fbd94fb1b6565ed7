"""Secrets in templates: `{secret.erp}` names one and is never its value, which only the effects worker reads.

A secret stands alone in its braces. Nothing is computed from it, so that nothing of it is kept.
"""

import re
from typing import Final

from assent.language.marks import moved
from assent.language.scope import Scope
from assent.language.syntax import Variable, walk
from assent.language.templates import Hole, Template
from assent.language.types import object_of
from assent.model.problems import Position, Problem

ROOT: Final = "secret"
NAME_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"

_NAME: Final = re.compile(NAME_PATTERN)


def with_secrets(scope: Scope) -> Scope:
    """The scope of texts that may name secrets."""
    return scope.with_roots(secret=object_of({}, open=True))


def secret_in(hole: Hole) -> str | None:
    """The name of the secret that a hole is, if it is one."""
    root = hole.expression.root
    if isinstance(root, Variable) and root.path[0] == ROOT and len(root.path) == 2:
        return root.path[1]
    return None


def secrets_in(template: Template) -> list[str]:
    """The secrets that a template names, each once."""
    names = (secret_in(hole) for hole in template.holes)
    return list(dict.fromkeys(name for name in names if name is not None))


def check_secrets(template: Template) -> list[Problem]:
    """What is wrong with how a template names secrets."""
    return [_misplaced(hole) for hole in template.holes if _reads_a_secret(hole) and not _is_well_named(hole)]


def _reads_a_secret(hole: Hole) -> bool:
    parts = walk(hole.expression.root)
    return any(isinstance(part, Variable) and part.path[0] == ROOT for part in parts)


def _is_well_named(hole: Hole) -> bool:
    name = secret_in(hole)
    return name is not None and _NAME.fullmatch(name) is not None


def _misplaced(hole: Hole) -> Problem:
    message = "a secret stands alone in its braces, by a name of small letters, digits and _: `{secret.erp}`"
    return moved(Problem("MISPLACED_SECRET", message, position=Position(1, 1)), hole.origin)
