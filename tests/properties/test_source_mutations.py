"""Templates that somebody mangled give problems at their places, never an exception."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from assent.compiler.declarations import CompiledSources, compile_sources
from assent.compiler.source import read_sources
from assent.templates import library, template_names

TEXTS = {
    name: {file.name: file.read_text(encoding="utf-8") for file in sorted((library() / name).glob("*.yaml"))}
    for name in template_names()
}
_WORD = re.compile(r"[A-Za-z0-9_.$:]+")
STRANGE = [
    "",
    "null",
    "[]",
    "{}",
    "0",
    "-1",
    "1e9",
    "true",
    "sys:start",
    "usr:x",
    "in",
    "out",
    "'",
    "\u0430",
    "{",
    "}",
]


@st.composite
def mangled(draw: st.DrawFn) -> dict[str, str]:
    """The files of one template, one of them changed in up to three places."""
    files = dict(TEXTS[draw(st.sampled_from(sorted(TEXTS)))])
    name = draw(st.sampled_from(sorted(files)))
    for _ in range(draw(st.integers(1, 3))):
        files[name] = draw(st.sampled_from(MANGLINGS))(draw, files[name])
    return files


def _drop_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    index = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join(lines[:index] + lines[index + 1 :])


def _repeat_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    index = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join(lines[: index + 1] + lines[index:])


def _swap_word(draw: st.DrawFn, text: str) -> str:
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = draw(st.sampled_from(words))
    other = draw(st.sampled_from([*STRANGE, *(found[0] for found in words)]))
    return text[: word.start()] + other + text[word.end() :]


def _indent_line(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    index = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join([*lines[:index], *("  " + line for line in lines[index : index + 1]), *lines[index + 1 :]])


MANGLINGS = [_drop_line, _repeat_line, _swap_word, _indent_line]


def compiled(files: dict[str, str]) -> CompiledSources:
    return compile_sources(source for name, text in files.items() for source in read_sources(text, name))


@given(mangled())
@settings(max_examples=600, deadline=None)
def test_a_mangled_template_compiles_or_has_problems_in_its_files(files: dict[str, str]) -> None:
    found = compiled(files)
    assert found.problems or found.workflows or found.scenarios
    for problem in found.problems:
        assert problem.source in files
        assert problem.position is not None
        assert 1 <= problem.position.line <= len(files[problem.source].splitlines()) + 1


@given(st.permutations([(name, file) for name, files in TEXTS.items() for file in files]))
@settings(max_examples=10, deadline=None)
def test_the_order_of_files_changes_nothing(order: list[tuple[str, str]]) -> None:
    found = compiled({f"{name}/{file}": TEXTS[name][file] for name, file in order})
    alone = {workflow.key: workflow for files in TEXTS.values() for workflow in compiled(files).workflows}
    assert {workflow.key: workflow for workflow in found.workflows} == alone
