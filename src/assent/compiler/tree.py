"""From the YAML parser's events to plain data and places, one event at a time.

Nothing here recurses and every count is limited, so that a hostile text ends as a problem. Anchors, aliases,
tags and merge keys are refused: they are how a small text becomes a large or surprising value.
"""

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
from assent.compiler.frames import OpenList, OpenMapping, SourcePlace
from assent.compiler.scalars import plain_scalar
from assent.compiler.yaml_errors import position_of, syntax_problem
from assent.model.canonical import DEPTH_MAX, JsonValue
from assent.model.problems import Path, Position, Problem

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
    """The documents of `text`; what cannot be read to its end has problems and no data."""
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
