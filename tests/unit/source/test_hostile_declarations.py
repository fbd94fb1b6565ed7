"""Declarations that fit into a file but into no business are refused, or compiled, within seconds."""

import time

import pytest

from assent.compiler.declarations import CompiledSources, compile_sources
from assent.compiler.source import read_sources

SECONDS_MAX = 20
"""Most take well under one; the rest is for a machine that is busy elsewhere."""


def lifecycle(states: list[str], transitions: list[str]) -> str:
    shown = ", ".join(f"{state}: {{edit: editable}}" for state in states)
    body = f"initial: {states[0]}, states: {{{shown}}}, transitions: {{{', '.join(transitions)}}}"
    return f"contract: c\nversion: 1\nlifecycle: {{{body}}}\n"


def flow(steps: list[str], transitions: list[str]) -> str:
    head = "flow: f\nversion: 1\nstart: a0\nsteps:\n"
    return (
        head
        + "\n".join(f"  - {step}" for step in steps)
        + "\ntransitions:\n"
        + "\n".join(f"  - {transition}" for transition in transitions)
    )


def chain(length: int) -> str:
    ways = [f"t{n}: {{from: s{n}, to: s{n + 1}}}" for n in range(length - 1)]
    return lifecycle([f"s{n}" for n in range(length)], ways)


def dense(size: int, names: str = "s{}") -> str:
    states = [names.format(n) for n in range(size)]
    return lifecycle(states, [f"t{n}: {{from: [{', '.join(states)}], to: {states[n]}}}" for n in range(size)])


def diamonds(count: int) -> str:
    """A way that branches and meets again: two to the power of `count` paths."""
    steps = [f"{{id: a{count}, type: terminal}}"]
    transitions = []
    for n in range(count):
        steps += [f"{{id: a{n}, type: condition}}", f"{{id: b{n}, type: script, set: {{x: 1}}}}"]
        transitions += [f"{{from: a{n}, to: b{n}, condition: workflow.x == 1, priority: 1}}"]
        transitions += [f"{{from: a{n}, to: a{n + 1}, priority: 2}}", f"{{from: b{n}, to: a{n + 1}}}"]
    return flow(steps, transitions)


def nested_splits(depth: int) -> str:
    steps = ["{id: m, type: condition}", "{id: z, type: terminal}"]
    transitions = ["{from: j0, to: z}"]
    for n in range(depth):
        inner, outer = (f"a{n + 1}", f"j{n + 1}") if n + 1 < depth else ("m", "m")
        steps += [f"{{id: a{n}, type: parallel_split}}", f"{{id: j{n}, type: parallel_join}}"]
        steps += [f"{{id: c{n}, type: script, set: {{x: 1}}}}"]
        transitions += [f"{{from: a{n}, to: {inner}}}", f"{{from: a{n}, to: c{n}}}"]
        transitions += [f"{{from: c{n}, to: j{n}}}", f"{{from: {outer}, to: j{n}}}"]
    return flow(steps, transitions)


def compiled(text: str) -> CompiledSources:
    started = time.process_time()
    found = compile_sources(read_sources(text, "hostile.yaml"))
    assert time.process_time() - started < SECONDS_MAX
    return found


@pytest.mark.parametrize(
    "text",
    [
        chain(500),
        dense(60).replace("s0: {edit: editable}", "s0: {edit: editable, final: true}"),
        diamonds(900),
        nested_splits(400),
    ],
    ids=["a chain of 500 states", "60 states, each from each", "2^900 paths", "400 nested splits"],
)
def test_large_but_sound_declarations_compile(text: str) -> None:
    found = compiled(text)
    assert found.problems == ()
    assert len(found.workflows) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (chain(501), "WRONG_TYPE"),
        (chain(8_000), "WRONG_TYPE"),
        (dense(200), "TOO_LARGE"),
        (diamonds(1_001), "WRONG_TYPE"),
        ("contract: c\nversion: 1\n" + "\n".join(f"k{n}: 1" for n in range(45_000)), "TOO_MANY_PROBLEMS"),
        (
            dense(60, "s{}" + "x" * 50) + f"slots: {{{', '.join(f'q{n}: {{}}' for n in range(3_900))}}}\n",
            "UNKNOWN_SLOT",
        ),
    ],
    ids=["states", "many states", "ways", "steps", "unknown keys", "unknown slots"],
)
def test_beyond_the_limits_there_is_a_problem_and_its_text_stays_short(text: str, code: str) -> None:
    found = compiled(text)
    assert code in {problem.code for problem in found.problems}
    assert max(len(str(problem)) for problem in found.problems) < 2_500
