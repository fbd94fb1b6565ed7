"""However much is wrong, few problems are listed, and they are found in little time."""

import time

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from assent.model.contract import FieldSpec
from assent.model.parse import problems_of, shown
from assent.model.problems import HINTS_MAX, PROBLEMS_MAX
from assent.model.values import check_changes, check_value

FIELDS = {f"field_{n}": FieldSpec(type="text") for n in range(40)}
LINES = FieldSpec(type="list", of=FieldSpec(type="object", fields=FIELDS))


def cpu_s(work) -> float:
    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(3))


def test_of_many_unknown_fields_the_first_are_told_and_fewer_hinted():
    unknown = {f"fiel_{n}": 1 for n in range(100_000)}
    _, problems = check_changes(FIELDS, unknown)
    assert len(problems) == PROBLEMS_MAX
    assert [problem.hint is not None for problem in problems] == [n < HINTS_MAX for n in range(PROBLEMS_MAX)]


def test_problems_of_all_levels_are_counted_together():
    lines = [{f"fiel_{n}_{m}": 1 for m in range(7)} for n in range(5_000)]
    _, problems = check_value(LINES, lines, ("lines",))
    assert PROBLEMS_MAX <= len(problems) < PROBLEMS_MAX + 7
    assert sum(problem.hint is not None for problem in problems) == HINTS_MAX
    _, problems = check_changes({"a": LINES, "b": LINES}, {"a": lines, "b": lines})
    assert len(problems) <= PROBLEMS_MAX


@pytest.mark.parametrize(
    "changes",
    [
        {f"fiel_{n}": 1 for n in range(50_000)},
        {"fiel_" + "x" * 1_000_000: 1},
        {f"field_{n}": [[]] * 40_000 for n in range(40)},
        {f"field_{n}": {str(m): m for m in range(1_000)} for n in range(40)},
    ],
    ids=["many", "long", "values that are long", "values that are large"],
)
def test_problems_are_found_in_little_time(changes):
    assert cpu_s(lambda: check_changes(FIELDS, changes)) < 0.03


def test_of_many_complaints_of_pydantic_only_the_number_is_told():
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")

    with pytest.raises(ValidationError) as many:
        Closed.model_validate({f"k{n}": n for n in range(50_000)})
    (problem,) = problems_of(many.value)
    assert (problem.code, "50,000" in problem.message) == ("TOO_MANY_PROBLEMS", True)
    assert cpu_s(lambda: problems_of(many.value)) < 0.01
    with pytest.raises(ValidationError) as some:
        Closed.model_validate({f"k{n}": n for n in range(500)})
    *listed, last = problems_of(some.value)
    assert len(listed) == PROBLEMS_MAX - 1
    assert (last.code, last.message.split()[0]) == ("TOO_MANY_PROBLEMS", "500")


@pytest.mark.parametrize(
    "value",
    ["", "x", [], {}, [1, "a", None, True, 1.5], {"a": [1, {"b": ()}], "c": {"d": "e"}}, (1,), 7, None, b"x"],
)
def test_a_small_value_is_shown_as_python_writes_it(value):
    assert shown(value) == repr(value)


def test_a_large_value_is_shown_by_its_beginning():
    large = [["x" * 1_000_000] * 10_000] * 10_000
    assert shown(large) == "[['" + "x" * 56 + "…"
    assert cpu_s(lambda: shown(large)) < 0.01


def test_other_scripts_digits_are_no_decimals():
    spec = FieldSpec(type="decimal")
    for text in ("١٢.٥", "１２", "१२"):
        kept, problems = check_value(spec, text, ("amount",))
        assert [problem.code for problem in problems] == ["WRONG_TYPE"], kept
    assert check_value(spec, "12.5", ("amount",)) == ("12.5", [])
