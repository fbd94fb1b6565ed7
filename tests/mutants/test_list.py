"""The list of mutants stays alive: every edit still applies, and every test that must notice one is there."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.run import BEGIN, END, LIST, ROOT, Bench, Mutant, Result

MUTANTS = run.read_mutants()
ONE = Mutant("z01", "src/assent/app.py", "a <= b", "a < b", "tests/x/test_y.py::test_z", "A border moves.")


def test_every_edit_applies_to_its_file_and_changes_it() -> None:
    problems = []
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text()
        try:
            changed = mutant.applied_to(text)
        except ValueError as error:
            problems.append(str(error))
        else:
            problems += [f"{mutant.id}: the edit changes nothing"] * (changed == text)
    assert problems == []


def test_every_named_test_exists(request: pytest.FixtureRequest) -> None:
    """By the functions of its file; by their parameters too where this run collected them, as in CI."""
    collected = {item.nodeid for item in request.session.items}
    functions = {node.partition("[")[0] for node in collected}
    missing = []
    for mutant in MUTANTS:
        function = mutant.test.partition("[")[0]
        file, _, name = function.partition("::")
        is_there = (ROOT / file).exists() and f"def {name}(" in (ROOT / file).read_text()
        if not is_there or (function in functions and mutant.test not in collected | functions):
            missing.append(f"{mutant.id}: {mutant.test}")
    assert missing == []


def test_every_edit_names_one_test_and_is_in_the_list_once() -> None:
    assert [mutant.id for mutant in MUTANTS if "::" not in mutant.test] == []
    edits = Counter((mutant.file, mutant.before, mutant.after) for mutant in MUTANTS)
    assert [edit for edit, number in edits.items() if number > 1] == []


def test_every_part_of_the_product_has_mutants() -> None:
    rooms = {mutant.room for mutant in MUTANTS}
    parts = {
        *("approvals", "cli", "compiler", "effects", "engine", "requests", "http", "kernel", "language"),
        *("model", "runtime", "schema", "store", "tasks", "worker"),
    }
    assert rooms >= parts
    assert len(MUTANTS) >= 160


def test_an_id_that_is_used_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mutants.yaml"
    path.write_text(LIST.read_text().partition("\n- id:")[0] + 2 * _entry())
    with pytest.raises(ValueError, match="z01"):
        run.read_mutants(path)


def _entry() -> str:
    return "\n- {id: z01, file: src/assent/app.py, before: a, after: b, test: t, why: w}"


@pytest.mark.parametrize("text", ["a < b", "a <= b, a <= b"])
def test_an_edit_whose_text_is_not_there_once_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="z01: expected `before` once"):
        ONE.applied_to(text)


def test_an_edit_is_taken_back_whatever_happens(tmp_path: Path) -> None:
    path = tmp_path / ONE.file
    path.parent.mkdir(parents=True)
    path.write_text("a <= b")
    bench = Bench(tmp_path, "")
    with suppress(RuntimeError), bench.with_edit(ONE):
        assert path.read_text() == "a < b"
        raise RuntimeError
    assert path.read_text() == "a <= b"


def test_mutants_are_chosen_by_id_and_by_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(ONE, id="z02", file="src/assent/running.py", test="tests/x/test_w.py::test_v")
    assert run.choose([ONE, other], ["z02"], None) == [other]
    monkeypatch.setattr(run, "changed_files", lambda commit: {ONE.file, "README.md"})
    assert run.choose([ONE, other], [], "main") == [ONE]
    monkeypatch.setattr(run, "changed_files", lambda commit: {"tests/x/test_w.py"})
    assert run.choose([ONE, other], [], "main") == [other]
    with pytest.raises(ValueError, match="no such mutant: z03"):
        run.choose([ONE, other], ["z03"], None)


def test_results_are_taken_from_a_run_of_the_same_commit_and_the_same_edit(tmp_path: Path) -> None:
    path, result = tmp_path / "results.json", Result(ONE, "noticed", "tests/x/test_y.py::test_z", "1 == 2")
    assert run.known_results(path, [ONE], "abc1234") == []
    path.write_text(run.as_json([result], "abc1234"))
    assert run.known_results(path, [ONE], "abc1234") == [result]
    assert run.known_results(path, [ONE], "def5678") == []
    assert run.known_results(path, [replace(ONE, after="a == b")], "abc1234") == []


def test_a_record_changes_its_own_section_only(tmp_path: Path) -> None:
    path = tmp_path / "proof.md"
    path.write_text(f"# Proof\n\n## Mutants\n\n{BEGIN}\nold\n{END}\n\n## Chaos\n\nkept\n")
    results = [Result(ONE, "noticed"), Result(replace(ONE, id="z02"), "survived")]
    run.record(run.report(results, "abc1234", datetime(2026, 3, 2, 9, tzinfo=UTC)), path)
    text = path.read_text()
    assert text.startswith(
        f"# Proof\n\n## Mutants\n\n{BEGIN}\n2 mutants, 2026-03-02 09:00 UTC, commit `abc1234`: 1 "
    )
    assert "| z02 | survived | A border moves. |" in text
    assert "old" not in text
    assert text.endswith(f"{END}\n\n## Chaos\n\nkept\n")


def test_a_record_without_markers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof.md"
    path.write_text("# Proof\n")
    with pytest.raises(ValueError, match="both markers"):
        run.record("", path)
