"""URLs as templates: values are percent-encoded where they stand, and none stands where the receiver is named.

A template that is one value and nothing else is the URL itself. A setting of the org may be the base that a path or a
query follows; scheme, host and port are literal everywhere else.
"""

import re
import string
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from assent.language.program import Program, compile_expression
from assent.language.syntax import Variable, moved
from assent.language.templates import Hole, Template, as_text, compile_template
from assent.language.types import OPEN, Scope
from assent.model.problems import Position, Problem

_RECEIVER: Final = re.compile(r"https?://(?P<authority>[^/?#]*)(?P<rest>.?)", re.IGNORECASE | re.DOTALL)
_AFTER_BASE: Final = tuple("/?&#")
_ENDS_PATH: Final = re.compile(r"[?#&]")
_UNRESERVED: Final = frozenset((string.ascii_letters + string.digits + "-._~").encode())
_DOT: Final = re.compile("%2e", re.IGNORECASE)
_NO_SEGMENT: Final = frozenset({"", ".", ".."})


def check_url(template: Template) -> list[Problem]:
    """Return what is wrong with where a URL's values stand."""
    return [] if template.whole is not None else list(_check(template))


def _check(template: Template) -> Iterator[Problem]:
    first = template.parts[0] if template.parts else ""
    if isinstance(first, Hole):
        following = template.parts[1]
        if not (_is_setting(first) and isinstance(following, str) and following.startswith(_AFTER_BASE)):
            yield _in_host(first)
        return
    receiver = _RECEIVER.match(first)
    if receiver is not None and "@" in receiver["authority"]:
        hint = "put it into a header, as a secret: `Authorization: Bearer {secret.name}`"
        yield Problem("LITERAL_CREDENTIAL", "the URL holds a name or a password", hint=hint)
    elif template.holes and not (receiver is not None and receiver["authority"] and receiver["rest"]):
        yield _in_host(template.holes[0])


def _in_host(hole: Hole) -> Problem:
    message = "a value cannot be a part of scheme, host or port"
    hint = "write `https://host/…{value}`, or begin with a setting of the org: `{org.base_url}/…`"
    return moved(Problem("VALUE_IN_HOST", message, position=Position(1, 1), hint=hint), hole.origin)


def _is_setting(hole: Hole) -> bool:
    root = hole.expression.root
    return isinstance(root, Variable) and root.path[0] == "org" and len(root.path) > 1


def _encoded(value: str) -> str:
    """Return a value that stays where it stands: all but the unreserved characters of RFC 3986 percent-encoded."""
    octets = value.encode("utf-8", errors="replace")
    return "".join(chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in octets)


class UrlProgram:
    """The program that fills a URL in."""

    def __init__(self, template: Template, scope: Scope = OPEN) -> None:
        self._whole = compile_template(template, scope) if template.whole is not None else None
        self._problems = check_url(template)
        self._parts = [
            compile_expression(part.expression, scope) if isinstance(part, Hole) else part
            for part in template.parts
        ]

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Return the URL, or the problem that keeps it from being one. A missing URL is none."""
        if self._whole is not None:
            return self._whole.value(variables)
        if self._problems:
            # It was published when values could stand anywhere.
            return self._problems[0]
        return self._filled(variables)

    def _filled(self, variables: Mapping[str, Any]) -> str | Problem:
        base, parts = self._base(variables)
        if not base:
            return ""
        path = _Path()
        for part in parts:
            if isinstance(part, str):
                path.add(part)
            else:
                path.add_value(as_text(part.value(variables)))
        if path.ended().lost_a_segment:
            message = "a value in the path is empty, `.` or `..`, which would name another place"
            return Problem("BAD_URL", message)
        return base + path.text

    def _base(self, variables: Mapping[str, Any]) -> tuple[str, list[str | Program]]:
        """Return what names the receiver, and what follows it."""
        first, *rest = self._parts
        if isinstance(first, Program):
            return as_text(first.value(variables)), rest
        receiver = _RECEIVER.match(first)
        end = receiver.end("authority") if receiver else len(first)
        return first[:end], [first[end:], *rest]


class _Path:
    """What follows the host, with an eye on the segments that hold values."""

    def __init__(self) -> None:
        self.text = ""
        self.lost_a_segment = False
        self._segment = ""
        self._holds_value = False
        self._over = False

    def add(self, literal: str) -> None:
        self.text += literal
        if self._over:
            return
        ends = _ENDS_PATH.search(literal)
        path = literal[: ends.start()] if ends else literal
        for index, piece in enumerate(path.split("/")):
            if index:
                self._end_segment()
            self._segment += piece
        if ends:
            self._end_segment()
            self._over = True

    def add_value(self, value: str) -> None:
        encoded = _encoded(value)
        self.text += encoded
        self._segment += encoded
        self._holds_value = True

    def ended(self) -> Self:
        self._end_segment()
        return self

    def _end_segment(self) -> None:
        if self._holds_value and not self._over and _DOT.sub(".", self._segment) in _NO_SEGMENT:
            self.lost_a_segment = True
        self._segment, self._holds_value = "", False
