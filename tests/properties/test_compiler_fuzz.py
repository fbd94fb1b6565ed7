"""Ten thousand random cases: sound contracts, patches and flows compile and hold what they promise; broken ones are
refused with a problem that names what is broken; nothing raises. A failing case prints its seed.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import pytest

from assent.compiler import compile_contract, compile_effective, compile_flow, envelope_of
from assent.model.contract import contract_from, parse_contract
from assent.model.graph import Envelope
from tests.properties.breaking import (
    GRAPH_BREAKERS,
    Broken,
    graph_of_flow,
    graph_of_slot,
    strip_the_approvals,
)
from tests.properties.breaking_contracts import broken_contract, broken_envelope
from tests.properties.choosing import Chooser, Seeded, chance, pick
from tests.properties.generated_asking import break_who_is_asked
from tests.properties.generated_contracts import contract
from tests.properties.generated_graphs import flow, patch
from tests.properties.structure import check_envelope_inside, check_structure
from tests.properties.token_game import Game

pytestmark = pytest.mark.long

CASES: Final = 10_000
CHUNKS: Final = 20
"""So that the cases spread over processes."""


def sound_envelope(chooser: Chooser) -> Envelope:
    envelope, problems = envelope_of(contract_from(contract(chooser)))
    assert envelope is not None, problems
    return envelope


def check_sound_contract(chooser: Chooser) -> None:
    envelope = sound_envelope(chooser)
    workflow = compile_effective(envelope).unwrap()
    check_structure(workflow)
    check_envelope_inside(workflow, envelope)
    Game(workflow, chooser).play()


def check_sound_patch(chooser: Chooser) -> None:
    envelope = sound_envelope(chooser)
    workflow = compile_effective(envelope, patch(chooser, envelope)).unwrap()
    check_structure(workflow)
    check_envelope_inside(workflow, envelope)
    Game(workflow, chooser).play()


def check_sound_flow(chooser: Chooser) -> None:
    workflow = compile_flow(flow(chooser)).unwrap()
    check_structure(workflow)
    Game(workflow, chooser).play()


def check_broken_contract(chooser: Chooser) -> None:
    broken = broken_contract(chooser, contract(chooser))
    compilation = compile_contract(broken.data)
    assert broken.is_named_by(compilation.problems), (broken.codes, broken.culprit, compilation.problems)


def check_broken_envelope(chooser: Chooser) -> None:
    broken, missing = broken_envelope(chooser, sound_envelope(chooser))
    (problem,) = compile_effective(broken).problems
    assert (problem.code, problem.path[-1]) == ("SYSTEM_MISSING", missing)


def check_broken_patch(chooser: Chooser) -> None:
    envelope = sound_envelope(chooser)
    made = patch(chooser, envelope)
    broken = _break_a_slot(chooser, made, envelope) if made["slots"] else _break_the_base(made)
    compilation = compile_effective(envelope, broken.data)
    assert compilation.workflow is None
    assert broken.is_named_by(compilation.problems), (broken.codes, broken.culprit, compilation.problems)


def _break_the_base(made: dict[str, Any]) -> Broken:
    made["base"]["envelope_version"] += 1
    return Broken(made, {"BASE_MISMATCH"}, ("base", "envelope_version"))


def _break_a_slot(chooser: Chooser, made: dict[str, Any], envelope: Envelope) -> Broken:
    slot = envelope.slots[pick(chooser, sorted(made["slots"]))]
    if slot.needs_approval and chance(chooser, 20):
        stripped = strip_the_approvals(chooser, graph_of_slot(made, slot.id))
        assert stripped is not None
        return stripped
    if slot.window != "editable" and chance(chooser, 10):
        made["slots"][slot.id]["edit"] = "editable"
        return Broken(made, {"LOOSER_WINDOW"}, ("slots", slot.id, "edit"))
    if chance(chooser, 5):
        made["slots"]["slot:ghost"] = made["slots"].pop(slot.id)
        return Broken(made, {"UNKNOWN_SLOT"}, ("slots", "slot:ghost"))
    return _broken(chooser, lambda: graph_of_slot(made, slot.id))


def _broken(chooser: Chooser, graph: Callable[[], Any]) -> Broken:
    """Some way to break the graph that applies to it."""
    while True:
        broken = pick(chooser, (*GRAPH_BREAKERS, break_who_is_asked))(chooser, graph())
        if broken is not None:
            return broken


def check_broken_flow(chooser: Chooser) -> None:
    made = flow(chooser)
    broken = _broken(chooser, lambda: graph_of_flow(made))
    compilation = compile_flow(broken.data)
    assert compilation.workflow is None
    assert broken.is_named_by(compilation.problems), (broken.codes, broken.culprit, compilation.problems)


JUNK: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        0,
        -1,
        2**80,
        1.5,
        float("nan"),
        "",
        "in",
        "out",
        "sys:start",
        "\x00",
        "ѕтаге",
        "x" * 5_000,
    ),
    *([], {}, [[]], {"": {}}, {"type": "script"}, ["a"], "entity.", "{", "(a.b", {1: 2}, b"bytes", object()),
)


def check_junk(chooser: Chooser) -> None:
    """A value that makes no sense, anywhere at all, gives problems or does no harm; it never raises."""
    envelope = sound_envelope(chooser)
    sources: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (contract(chooser), compile_contract),
        (patch(chooser, envelope), lambda data: compile_effective(envelope, [data])),
        (flow(chooser), compile_flow),
    )
    data, compile_ = pick(chooser, sources)
    compilation = compile_(_with_junk(chooser, deepcopy(data)))
    assert (compilation.workflow is None) == bool(compilation.problems)


def _with_junk(chooser: Chooser, data: Any) -> Any:
    if not isinstance(data, dict | list) or not data or chance(chooser, 15):
        return pick(chooser, JUNK)
    key = pick(chooser, list(data) if isinstance(data, dict) else list(range(len(data))))
    data[key] = _with_junk(chooser, data[key])
    return data


CHECKS: Final[tuple[tuple[Callable[[Chooser], None], int], ...]] = (
    (check_sound_contract, 1_000),
    (check_sound_patch, 2_000),
    (check_sound_flow, 2_000),
    (check_broken_contract, 1_000),
    (check_broken_envelope, 500),
    (check_broken_patch, 1_500),
    (check_broken_flow, 1_000),
    (check_junk, 1_000),
)


def test_there_are_ten_thousand_cases() -> None:
    assert sum(count for _, count in CHECKS) == CASES


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize(("check", "count"), CHECKS, ids=[check.__name__ for check, _ in CHECKS])
def test_random_cases(check: Callable[[Chooser], None], count: int, chunk: int) -> None:
    for seed in range(chunk, count, CHUNKS):
        try:
            check(Seeded(seed))
        except BaseException:
            print(f"{check.__name__} failed with seed {seed}")
            raise


def test_a_contract_is_parsed_as_it_was_generated() -> None:
    """The generator makes contracts that say what they mean; otherwise the cases above would prove nothing."""
    declared, problems = parse_contract(contract(Seeded(1)))
    assert declared is not None, problems
