"""Hostile texts get a problem, quickly and in bounded memory, with either of PyYAML's parsers."""

import time
import tracemalloc

import pytest
import yaml

from assent.compiler.source import SourceLimits, read_sources
from assent.compiler.tree import read_documents

MIB = 1 << 20

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
)

ATTACKS = {
    "billion laughs": (LAUGHS, "ANCHOR"),
    "brackets": ("[" * MIB, "TOO_DEEP"),
    "braces": ("{" * MIB, "BAD_KEY"),
    "nested mappings": ("{a: " * (MIB // 4), "TOO_DEEP"),
    "nested dashes": ("- " * (MIB // 2), "TOO_DEEP"),
    "nested questions": ("? " * (MIB // 2), "BAD_KEY"),
    "a long list": ("[" + "a," * (MIB // 2 - 1), "TOO_MANY_NODES"),
    "many duplicates": ("a: 1\n" * (MIB // 5), "DUPLICATE_KEY"),
    "many anchors": ("- &a b\n" * (MIB // 7), "ANCHOR"),
    "many documents": ("---\n" * (MIB // 4), "TOO_MANY_DOCUMENTS"),
    "many digits": ("a: " + "9" * (MIB - 3), "NUMBER_NOT_KEPT"),
    "many digits of a float": ("a: 0." + "9" * (MIB - 5), "NUMBER_NOT_KEPT"),
    "a huge exponent": ("a: 1e999999999", "NUMBER_NOT_KEPT"),
    "an endless quote": ("a: '" + "x" * (MIB - 4), "YAML_SYNTAX"),
    "an endless key": ("x" * (MIB - 2) + ": ", "YAML_SYNTAX"),
    "an endless explicit key": ("? " + "x" * (MIB - 6) + "\n: 1", "BAD_KEY"),
    "exclamation marks": ("!" * MIB, "TAG"),
    "directives": ("%YAML 1.1\n" * (MIB // 10), "YAML_SYNTAX"),
    "NULs": ("\x00" * MIB, "BAD_CHARACTER"),
    "bidi marks": ("\u202e" * (MIB // 3), "BAD_CHARACTER"),
    "tabs": ("\t" * MIB, None),
    "line breaks": ("\n" * MIB, None),
    "comments": ("# x\n" * (MIB // 4), "EMPTY_SOURCE"),
    "too much": ("a" * (MIB + 1), "TOO_LARGE"),
    "too much in bytes": ("é" * (MIB // 2 + 1), "TOO_LARGE"),
    "much too much": (b"[" * (64 * MIB), "TOO_LARGE"),
}

PARSERS = {"libyaml": getattr(yaml, "CBaseLoader", yaml.BaseLoader), "python": yaml.BaseLoader}


@pytest.fixture(params=PARSERS)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    monkeypatch.setattr("assent.compiler.tree.PARSER", PARSERS[name])
    return name


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_as_a_problem_within_seconds(attack: str, parser: str) -> None:
    text, code = ATTACKS[attack]
    started = time.process_time()
    sources = read_sources(text, "attack.yaml")
    seconds = time.process_time() - started
    found = [problem.code for source in sources for problem in source.problems]
    assert found, attack
    assert code is None or code in found
    assert len(found) <= 101
    assert seconds < (3 if parser == "libyaml" else 20)


@pytest.mark.parametrize("attack", ["a long list", "billion laughs", "many duplicates", "NULs", "braces"])
def test_an_attack_does_not_fill_the_memory(attack: str) -> None:
    text, _ = ATTACKS[attack]
    tracemalloc.start()
    try:
        read_sources(text, "attack.yaml")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 96 * MIB


def test_what_cannot_be_read_to_its_end_has_no_data() -> None:
    (source,) = read_sources("a: 1\nb: [" + "[" * 100, "t.yaml")
    assert source.data is None


def test_limits_are_the_callers_choice() -> None:
    assert read_sources("[1, 2, 3]", "t", SourceLimits(nodes_max=3))[0].problems[0].code == "TOO_MANY_NODES"
    assert read_sources("[[1]]", "t", SourceLimits(depth_max=1))[0].problems[0].code == "TOO_DEEP"
    assert read_sources("[1, 2, 3]", "t", SourceLimits(bytes_max=8))[0].problems[0].code == "TOO_LARGE"
    assert read_sources("[[1]]", "t", SourceLimits(bytes_max=5, depth_max=2, nodes_max=3))[0].problems == ()


def test_both_parsers_read_the_same() -> None:
    text = "contract: a\nfields: {on: [1, 'x', \"y\", ~]}\n? b\n: c\n"
    read = [read_documents(text, SourceLimits(), parser) for parser in PARSERS.values()]
    assert read[0] == read[1]
