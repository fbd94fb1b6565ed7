"""Whatever key, kind or choice an author misspells, at every place of every declaration, the hint names it."""

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from assent.approvals.chains import ChainSpec
from assent.compiler import compile_contract, compile_flow
from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.kernel.rules import RuleSpec
from assent.language.verbs import VerbSpec
from assent.model.contract import Contract, parse_contract
from assent.model.flow import FLOW_KINDS, Flow, WaitForEvent
from assent.model.outside_request import Bundle
from assent.model.parse import parse_declaration
from assent.model.patch import PATCH_KINDS, Patch
from assent.model.problems import Problem
from assent.model.requirements import AllOf, AnyOf, ForEach
from assent.testing.scenarios.scenario import ScenarioHead
from tests.authored import END, arrows, form

DECLARATIONS: tuple[type[Any], ...] = (
    *(Contract, Patch, Flow, ChainSpec, RuleSpec, ScenarioHead, VerbSpec, Bundle),
)
Steps = tuple[tuple[str | int, Mapping[str, Any]], ...]
"""The way to a place: each key or index, with the keys that have to stand beside it."""
TOLD_BY: Mapping[type[Any], Mapping[str, Any]] = {
    WaitForEvent: {"type": "wait", "key": "k"},
    AllOf: {"all": []},
    AnyOf: {"any": []},
    ForEach: {"for_each": "$owners"},
}
"""The keys by which members of a union are told, where that is not `type` alone."""


def misspelled(name: str) -> str:
    return name + name[-1]


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {spec.alias or name: spec for name, spec in model.model_fields.items()}


def told_by(model: type[BaseModel]) -> Mapping[str, Any]:
    """The keys that make a value of a union this member of it."""
    spec = model.model_fields.get("type")
    choices = get_args(spec.annotation) if spec and get_origin(spec.annotation) is Literal else ()
    return TOLD_BY.get(model, {"type": choices[0]} if choices else {})


def places(
    annotation: Any, steps: Steps = (), around: tuple[Any, ...] = ()
) -> Iterator[tuple[Steps, type[Any]]]:
    """Yield every declaration below a type, with the way to it; not again inside of itself."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from places(arguments[0], steps, around)
    elif isinstance(annotation, type) and origin is None:
        if issubclass(annotation, BaseModel) and annotation not in around:
            yield steps, annotation
            for key, spec in keys_of(annotation).items():
                yield from places(
                    spec.annotation, (*steps, (key, told_by(annotation))), (*around, annotation)
                )
    elif origin in (tuple, list):
        yield from places(arguments[0], (*steps, (0, {})), around)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from places(arguments[1], (*steps, ("a", {})), around)
    elif origin is not Literal:
        for member in arguments:
            yield from places(member, steps, around)


def document(steps: Steps, value: Any) -> Any:
    for step, beside in reversed(steps):
        value = [value] if isinstance(step, int) else {**beside, step: value}
    return value


CASES = [(kind, steps, model) for kind in DECLARATIONS for steps, model in places(kind)]


def hints(declaration: type[Any], data: Any, code: str, *path: Any) -> list[str | None]:
    _, problems = parse_declaration(declaration, data)
    return [problem.hint for problem in problems if problem.code == code and problem.path == path]


@pytest.mark.parametrize(
    ("declaration", "steps", "model"),
    CASES,
    ids=[
        f"{kind.__name__}-{'.'.join(str(step) for step, _ in steps)}-{model.__name__}"
        for kind, steps, model in CASES
    ],
)
def test_a_misspelled_key_or_choice_is_named_at_every_place(
    declaration: type[Any], steps: Steps, model: type[BaseModel]
) -> None:
    path = [step for step, _ in steps]
    for key, spec in keys_of(model).items():
        wrong = misspelled(key)
        found = hints(declaration, document(steps, {**told_by(model), wrong: 1}), "UNKNOWN_KEY", *path, wrong)
        assert found == [f"did you mean `{key}`?"], (key, found)
        for choice in choices_of(spec.annotation) if key != "type" else ():
            data = document(steps, {**told_by(model), key: misspelled(choice)})
            if found := hints(declaration, data, "BAD_VALUE", *path, key):
                assert f"did you mean `{choice}`?" in found, (key, choice, found)


def choices_of(annotation: Any) -> list[str]:
    """The texts that a key takes, where it takes nothing but a few of them."""
    members = [part for part in get_args(annotation) if part is not type(None)] or [annotation]
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if isinstance(choice, str)]
    if len(members) == 1 and isinstance(members[0], type) and issubclass(members[0], enum.StrEnum):
        return [str(choice) for choice in members[0]]
    return choices_of(members[0]) if len(members) == 1 and get_origin(members[0]) is Literal else []


def test_the_walk_meets_every_kind_of_node() -> None:
    met = {model for _, _, model in CASES}
    assert {*PATCH_KINDS.values(), *FLOW_KINDS.values()} <= met
    assert sum(len(choices_of(spec.annotation)) for model in met for spec in keys_of(model).values()) > 40


@pytest.mark.parametrize(
    ("declaration", "place", "kinds"),
    [(Patch, ("slots", "a", "nodes", 0), PATCH_KINDS), (Flow, ("steps", 0), FLOW_KINDS)],
)
def test_a_misspelled_kind_is_named(
    declaration: type[Any], place: tuple[str | int, ...], kinds: Mapping[str, Any]
) -> None:
    for kind in kinds:
        if " " not in kind:
            data = document(tuple((step, {}) for step in place), {"id": "x", "type": misspelled(kind)})
            assert hints(declaration, data, "UNKNOWN_KIND", *place) == [f"did you mean `{kind}`?"]


def test_a_key_that_is_like_no_other_lists_those_that_are_known() -> None:
    assert hints(Contract, {"zzzzzz": 1}, "UNKNOWN_KEY", "zzzzzz")[0] == (
        "known here: contract, fields, inbox, label, lifecycle, on_drift, permissions, separation, slots, version, "
        "workflow"
    )


@pytest.mark.parametrize("kind", ["form", "approval"])
@pytest.mark.parametrize(
    ("declaration", "place"), [(Patch, ("slots", "a", "nodes", 0)), (Flow, ("steps", 0))]
)
def test_a_call_in_a_persons_step_is_sent_to_a_step_of_its_own(
    declaration: type[Any], place: tuple[str | int, ...], kind: str
) -> None:
    node = {"id": "x", "type": {"form": "action"}.get(kind, kind) if declaration is Flow else kind}
    data = document(tuple((step, {}) for step in place), {**node, "operation": {"sdk": "hr.book"}})
    (hint,) = hints(declaration, data, "UNKNOWN_KEY", *place, "operation")
    assert hint is not None
    assert "`system` step" in hint


def _hint_of(problems: Any, code: str) -> str | None:
    found: list[Problem] = [problem for problem in problems if problem.code == code]
    assert found, [str(problem) for problem in problems]
    return found[0].hint


CONTRACT: dict[str, Any] = {
    "contract": "memo",
    "version": 1,
    "fields": {"title": {"type": "text"}},
    "lifecycle": {
        "initial": "draft",
        "states": {"draft": {"edit": "editable"}, "sent": {"edit": "locked"}},
        "transitions": {"submit": {"from": "draft", "to": "sent"}},
    },
}


def test_misspelled_states_fields_slots_steps_and_declarations_are_named() -> None:
    _, problems = parse_contract({**CONTRACT, "lifecycle": {**CONTRACT["lifecycle"], "initial": "draftt"}})
    assert _hint_of(problems, "UNKNOWN_STATE") == "did you mean `draft`?"
    _, problems = parse_contract({**CONTRACT, "inbox": {"title": "titel"}})
    assert _hint_of(problems, "UNKNOWN_FIELD") == "did you mean `title`?"
    compiled = compile_contract({**CONTRACT, "slots": {"slot:draft_to_submitt": {"enabled": False}}})
    assert _hint_of(compiled.problems, "UNKNOWN_SLOT") == "did you mean `slot:draft_to_submit`?"
    flow = {"flow": "a.b", "version": 1, "start": "askk", "steps": [form("ask"), END]}
    compiled = compile_flow({**flow, "transitions": arrows("ask", "end")})
    assert _hint_of(compiled.problems, "UNKNOWN_NODE") == "did you mean `ask`?"
    sources = compile_sources([read_source("contrct: memo\nversion: 1\n", "memo.yaml")])
    assert _hint_of(sources.problems, "UNKNOWN_DECLARATION") == "did you mean `contract`?"
