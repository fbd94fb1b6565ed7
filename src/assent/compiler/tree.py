"""From the events of the YAML parser to plain data, scalars and positions, one event at a time.

Nothing here recurses and every count is limited, so that a hostile text ends as a problem. Anchors, aliases,
tags and merge keys are refused: they are how a small text becomes a large or surprising value.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from assent.compiler.characters import PROBLEMS_MAX, bad_character_in, look_alike
from assent.model.canonical import DEPTH_MAX, INTEGER_MAX, JsonValue
from assent.model.problems import Path, Position, Problem


@dataclass(slots=True)
class SourcePlace:
    """Where a value stands, where its key stands, and the places of its parts."""

    position: Position
    key: Position | None = None
    parts: dict[str | int, "SourcePlace"] = field(default_factory=dict)
    is_scalar: bool = False

    @property
    def shown_at(self) -> Position:
        """A scalar is pointed at itself, a list or mapping at the key that names it."""
        return self.position if self.is_scalar or self.key is None else self.key


@dataclass(slots=True)
class OpenList:
    place: SourcePlace
    step: Path
    value: list[Any] = field(default_factory=list)

    @property
    def next_step(self) -> Path:
        return (len(self.value),)

    def add(self, value: JsonValue, place: SourcePlace) -> None:
        self.place.parts[len(self.value)] = place
        self.value.append(value)


@dataclass(slots=True)
class OpenMapping:
    place: SourcePlace
    step: Path
    value: dict[str, Any] = field(default_factory=dict)
    wants_key: bool = True
    key: str | None = None
    """The key that waits for its value; None also when that key was refused, and the value goes nowhere."""
    key_position: Position | None = None

    @property
    def next_step(self) -> Path:
        return () if self.key is None else (self.key,)

    def expect(self, key: str | None, position: Position) -> None:
        self.key, self.key_position, self.wants_key = key, position, False

    def add(self, value: JsonValue, place: SourcePlace) -> None:
        if self.key is not None:
            place.key = self.key_position
            self.value[self.key] = value
            self.place.parts[self.key] = place
        self.key, self.wants_key = None, True


_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DIGITS_MAX: Final = 400
"""Longer numbers are not converted: turning digits into a number takes quadratic time."""

Scalar = None | bool | int | float | str


def plain_scalar(text: str, position: Position) -> tuple[Scalar, Problem | None]:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text], None
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text, None
    number = _number(text, is_whole=match.lastindex is None)
    if number is None:
        message = f"{text[:40]} is beyond what a JSON reader keeps exactly"
        return text, Problem(
            "NUMBER_NOT_KEPT", message, hint="quote it, so that it is text", position=position
        )
    return number, None


def _number(text: str, *, is_whole: bool) -> int | float | None:
    if len(text) > _DIGITS_MAX:
        return None
    if is_whole:
        whole = int(text)
        return whole if abs(whole) <= INTEGER_MAX else None
    number = float(text)
    return number if math.isfinite(number) else None


_OPENINGS: Final = frozenset("[{'\"")


def syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark, opened = error.problem_mark or error.context_mark, error.context_mark
    said = ", ".join(part for part in (error.problem, error.context) if part)
    if mark and opened and opened.line < mark.line and text[opened.index : opened.index + 1] in _OPENINGS:
        # The parser notices on a later line; what has to be repaired is where the text opened.
        message = f"this is not YAML: `{text[opened.index]}` is not closed, or not on this line"
        return Problem("YAML_SYNTAX", message, position=position_of(opened))
    is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
    hint = "indent with spaces, not with tabs" if is_tab else _hint_for(said)
    position = position_of(mark) if mark else None
    return Problem("YAML_SYNTAX", f"this is not YAML: {said}", hint=hint, position=position)


def _hint_for(said: str) -> str | None:
    if "mapping values are not allowed" in said:
        return "quote a text that holds a colon and a space"
    if "cannot start any token" in said:
        return "quote a text that starts with a special character"
    return None


def position_of(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


PARSER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""libyaml where PyYAML was built with it: some ten times faster, with the same events."""

KEY_CHARACTERS_MAX: Final = 200
"""Keys stand in the path of every problem below them."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """What a source may hold at most."""

    bytes_max: int = 1 << 20
    nodes_max: int = 100_000
    """Keys, values, lists and mappings, in all documents of one text."""
    depth_max: int = DEPTH_MAX
    documents_max: int = 200


@dataclass(slots=True)
class YamlDocument:
    data: JsonValue = None
    place: SourcePlace = field(default_factory=lambda: SourcePlace(Position(1, 1)))
    problems: list[Problem] = field(default_factory=list)


class _Stop(Exception):
    """The text is beyond reading on; the problem is already noted."""


def read_documents(text: str, limits: SourceLimits, parser: Any = None) -> list[YamlDocument]:
    """Return the documents of `text`; what cannot be read to its end has problems and no data."""
    reader = _TreeReader(limits)
    try:
        for event in yaml.parse(text, Loader=parser or PARSER):
            reader.take(event)
    except _Stop:
        reader.give_up()
    except yaml.MarkedYAMLError as error:
        reader.give_up(syntax_problem(error, text))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML's own parser lets such through, for escapes and versions with absurd numbers.
        reader.give_up(Problem("YAML_SYNTAX", f"this is not YAML: {error}", position=reader.position))
    return reader.documents


class _TreeReader:
    def __init__(self, limits: SourceLimits) -> None:
        self.documents: list[YamlDocument] = []
        self.position = Position(1, 1)
        self._limits = limits
        self._nodes = 0
        self._open: list[OpenList | OpenMapping] = []

    def take(self, event: Event) -> None:
        self.position = position_of(event.start_mark)
        if isinstance(event, NodeEvent):
            self._count()
            self._refuse_extras(event)
            self._take_node(event)
        elif isinstance(event, CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, DocumentStartEvent):
            if len(self.documents) == self._limits.documents_max:
                self._stop(
                    "TOO_MANY_DOCUMENTS", f"more than {self._limits.documents_max} documents in one text"
                )
            self.documents.append(YamlDocument(place=SourcePlace(self.position)))

    def give_up(self, problem: Problem | None = None) -> None:
        """End the document that was being read; half of it would only raise problems that are none."""
        document = self._document()
        document.data = None
        if problem is not None:
            document.problems.append(problem)

    def _document(self) -> YamlDocument:
        if not self.documents:
            self.documents.append(YamlDocument())
        return self.documents[-1]

    def _note(self, code: str, message: str, hint: str | None = None, path: Path = ()) -> None:
        self._add(Problem(code, message, path, hint, self.position))

    def _add(self, problem: Problem | None) -> None:
        if problem is None:
            return
        path = [part for frame in self._open for part in frame.step]
        step = self._open[-1].next_step if self._open else ()
        problems = self._document().problems
        problems.append(problem.under(*path, *step))
        if len(problems) >= PROBLEMS_MAX:
            raise _Stop

    def _stop(self, code: str, message: str) -> NoReturn:
        self._document().problems.append(Problem(code, message, position=self.position))
        raise _Stop

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > self._limits.nodes_max:
            self._stop("TOO_MANY_NODES", f"more than {self._limits.nodes_max:,} keys and values")

    def _refuse_extras(self, event: NodeEvent) -> None:
        if isinstance(event, AliasEvent):
            self._note("ALIAS", f"aliases (`{_short(event.anchor)}`) are not read", "write the value out")
        elif event.anchor:
            self._note("ANCHOR", f"anchors (`{_short(event.anchor)}`) are not read", "write the value out")
        tag = getattr(event, "tag", None)
        if tag:
            self._note("TAG", f"tags (`{_short(tag)}`) are not read", "leave the tag out")

    def _take_node(self, event: NodeEvent) -> None:
        parent = self._open[-1] if self._open else None
        if isinstance(parent, OpenMapping) and parent.wants_key:
            self._take_key(event, parent)
        elif isinstance(event, SequenceStartEvent | MappingStartEvent):
            self._enter(event)
        else:
            value = self._scalar(event) if isinstance(event, ScalarEvent) else None
            self._attach(value, SourcePlace(self.position, is_scalar=True))

    def _take_key(self, event: NodeEvent, mapping: OpenMapping) -> None:
        if isinstance(event, ScalarEvent):
            mapping.expect(self._key(event, mapping), self.position)
            return
        self._note("BAD_KEY", "a key is a plain name; this is a list, a mapping or an alias")
        mapping.expect(None, self.position)
        if isinstance(event, SequenceStartEvent | MappingStartEvent):
            self._enter(event, as_key=True)

    def _key(self, event: ScalarEvent, mapping: OpenMapping) -> str | None:
        key: str = event.value
        if key == "<<" and not event.style:
            self._note("MERGE_KEY", "merge keys (`<<`) are not read", "write the keys out")
            return None
        if len(key) > KEY_CHARACTERS_MAX:
            self._note("BAD_KEY", f"a key has at most {KEY_CHARACTERS_MAX} characters, this one {len(key):,}")
            return None
        if key in mapping.value:
            first = mapping.place.parts[key].key
            message = f"`{_short(key)}` is already there" + (f", on line {first.line}" if first else "")
            self._note("DUPLICATE_KEY", message, "remove one of them", (key,))
            return None
        self._add(bad_character_in(key, self.position) or look_alike(key, self.position))
        return key

    def _scalar(self, event: ScalarEvent) -> JsonValue:
        if event.style:
            self._add(bad_character_in(event.value, self.position))
            return str(event.value)
        value, problem = plain_scalar(event.value, self.position)
        self._add(problem)
        return value

    def _enter(self, event: NodeEvent, *, as_key: bool = False) -> None:
        if len(self._open) >= self._limits.depth_max:
            self._stop("TOO_DEEP", f"nested deeper than {self._limits.depth_max} levels")
        place = SourcePlace(self.position)
        step = self._open[-1].next_step if self._open else ()
        frame = OpenList(place, step) if isinstance(event, SequenceStartEvent) else OpenMapping(place, step)
        if not as_key:
            self._attach(frame.value, place)
        self._open.append(frame)

    def _attach(self, value: JsonValue, place: SourcePlace) -> None:
        if self._open:
            self._open[-1].add(value, place)
        else:
            document = self._document()
            document.data, document.place = value, place


def _short(text: object) -> str:
    return str(text)[:40]
