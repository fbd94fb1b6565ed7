"""The authoring commands as people and programs call them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from assent.cli.main import app
from assent.templates import library

FAST_TRACK = str(library() / "fast_track")
EXPENSES = str(library() / "expense_approval")
BROKEN = "contract: note\nversion: 1\nlifecycle:\n  initial: drft\n  states:\n    draft: {edit: editable}\n"


def invoke(*arguments: str, code: int = 0, text: str | None = None) -> Result:
    result = CliRunner().invoke(app, arguments, input=text)
    assert result.exit_code == code, result.output
    return result


def shell(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "assent"), *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == code, found.stdout + found.stderr
    return found


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken.yaml"
    file.write_text(BROKEN)
    return file


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["check", FAST_TRACK], "✓ 2 documents, 1 workflow"),
        (["compile", FAST_TRACK], "petty_cash 1  effective"),
        (["diagram", EXPENSES], "flowchart TD"),
        (["diff", FAST_TRACK], "+ node manager (approval)"),
        (["schema", "flow"], '"$schema": "https://json-schema.org/draft/2020-12/schema"'),
        (["expression", "entity.total > 1"], "type: a boolean"),
        (["templates", "list"], "fast_track"),
        (["templates", "show", "fast_track"], "contract: petty_cash"),
        (["--help"], "check"),
        (["--version"], "assent 0.1.0"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_installed_command_answers(arguments: list[str], expected: str) -> None:
    found = shell(*arguments)
    assert expected in found.stdout
    assert found.stderr == ""


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b" not in shell("check", FAST_TRACK).stdout
    assert "\x1b" not in shell("templates", "list").stdout


def test_help_waits_for_neither_compiler_nor_database() -> None:
    heavy = ("pydantic", "lark", "asyncpg", "yaml")
    code = f"import sys, assent.cli.main; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_check_prints_every_problem_with_its_line_and_counts_them(broken: Path) -> None:
    output = invoke("check", str(broken), code=1).output
    assert f"{broken}:4:12: UNKNOWN_STATE" in output
    assert "    4 │   initial: drft\n      │            ^\n" in output
    assert output.endswith("✗ 1 problem in 1 document, 0 workflows\n")


def test_check_as_json_gives_programs_the_same(broken: Path) -> None:
    found = json.loads(invoke("check", "--json", str(broken), FAST_TRACK, code=1).output)
    (problem,) = found["problems"]
    assert (problem["code"], problem["line"], problem["column"]) == ("UNKNOWN_STATE", 4, 12)
    assert problem["source"] == str(broken)
    assert [workflow["key"] for workflow in found["workflows"]] == ["petty_cash"]


def test_a_flood_of_problems_is_cut_on_the_screen_but_counted(tmp_path: Path) -> None:
    file = tmp_path / "flood.yaml"
    file.write_text(BROKEN.replace("drft", "draft") + "".join(f"key_{n}: 1\n" for n in range(500)))
    output = invoke("check", str(file), code=1).output
    assert output.count("UNKNOWN_KEY") == 99
    assert "TOO_MANY_PROBLEMS 500 problems, of which the first 99 are listed" in output
    assert "✗ at least 100 problems in 1 document" in output


def test_problems_of_many_documents_are_cut_on_the_screen_but_counted(tmp_path: Path) -> None:
    for document in range(5):
        flood = "".join(f"key_{n}: 1\n" for n in range(60))
        (tmp_path / f"flood_{document}.yaml").write_text(
            BROKEN.replace("drft", "draft").replace("contract: ", f"contract: d{document}_") + flood
        )
    output = invoke("check", str(tmp_path), code=1).output
    assert output.count("UNKNOWN_KEY") == 200
    assert "… and 100 more" in output
    assert "✗ 300 problems in 5 documents" in output


def test_check_reads_standard_input() -> None:
    text = (library() / "expense_approval" / "flow.yaml").read_text(encoding="utf-8")
    assert invoke("check", "-", text=text).output == "✓ 1 document, 1 workflow\n"


def test_a_scenario_is_recognised_and_said_not_to_run(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("scenario: something happens\nsteps: []\n")
    assert invoke("check", str(file)).output == "✓ 1 document, 0 workflows (1 scenario not run)\n"


@pytest.mark.parametrize("command", ["check", "compile", "diagram", "diff"])
def test_a_missing_path_is_a_usage_error(command: str) -> None:
    assert "there is no file or folder" in invoke(command, "/nowhere/at/all", code=2).output.replace(
        "\n│ ", " "
    )


@pytest.mark.parametrize("command", ["compile", "diagram", "diff"])
def test_problems_go_to_standard_error_where_standard_output_is_the_product(
    command: str, broken: Path
) -> None:
    found = shell(command, str(broken), code=1)
    assert found.stdout == ""
    assert "UNKNOWN_STATE" in found.stderr


def test_compile_gives_the_workflow_as_json_and_into_a_file(tmp_path: Path) -> None:
    out = tmp_path / "workflow.json"
    printed = invoke("compile", FAST_TRACK, "--json", "-o", str(out)).output
    found = json.loads(printed)
    assert json.loads(out.read_text(encoding="utf-8")) == found
    assert found["key"] == "petty_cash"
    assert found["hash"] in invoke("compile", FAST_TRACK).output


def test_compile_is_the_same_whatever_the_hash_seed() -> None:
    command = [str(Path(sys.executable).parent / "assent"), "compile", "--json", FAST_TRACK]
    outputs = {
        subprocess.run(
            command, capture_output=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(outputs) == 1


def test_several_workflows_are_a_list_and_their_diagrams_are_headed(tmp_path: Path) -> None:
    for name in ("expense_approval", "settlement"):
        text = (library() / name / "flow.yaml").read_text(encoding="utf-8")
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    found = json.loads(invoke("compile", str(tmp_path), "--json").output)
    assert [workflow["key"] for workflow in found] == ["expenses.approval", "payments.settlement"]
    heads = [line for line in invoke("diagram", str(tmp_path)).output.splitlines() if line.startswith("%%")]
    assert heads == ["%% expenses.approval 1", "%% payments.settlement 1"]


def test_a_contract_without_a_workflow_has_nothing_to_compile(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    states = (
        "{initial: a, states: {a: {edit: editable}, b: {edit: locked}}, transitions: {go: {from: a, to: b}}}"
    )
    file.write_text(f"contract: c\nversion: 1\nworkflow: none\nlifecycle: {states}\n")
    assert invoke("check", str(file)).output == "✓ 1 document, 0 workflows\n"
    invoke("compile", str(file), code=2)


def test_diff_of_two_versions_names_what_changed(tmp_path: Path) -> None:
    text = (library() / "fast_track" / "patch.yaml").read_text(encoding="utf-8")
    contract = (library() / "fast_track" / "contract.yaml").read_text(encoding="utf-8")
    (tmp_path / "new.yaml").write_text(contract + "---\n" + text.replace("5000", "9900"), encoding="utf-8")
    output = invoke("diff", FAST_TRACK, str(tmp_path)).output
    assert "entity.amount <= 5000" in output
    assert "entity.amount <= 9900" in output
    assert "manager" not in output
    found = json.loads(invoke("diff", FAST_TRACK, str(tmp_path), "--json").output)
    assert list(found["items"][0]["groups"]) == ["slot:submitted_to_approved"]


def test_diff_of_equal_versions_is_empty() -> None:
    assert "nothing changed" in invoke("diff", FAST_TRACK, FAST_TRACK).output


def test_diff_of_strangers_is_a_usage_error() -> None:
    invoke("diff", FAST_TRACK, EXPENSES, code=2)
    invoke("diff", EXPENSES, code=2)


def test_a_copied_template_checks_in_its_new_place(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    copied = invoke("templates", "copy", "fast_track", str(folder)).output.splitlines()
    assert str(folder / "patch.yaml") in copied
    assert invoke("check", str(folder)).output == "✓ 2 documents, 1 workflow\n"
    head = (folder / "contract.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert (folder / head.rpartition("$schema=")[2]).is_file()


def test_copying_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "patch.yaml").write_text("mine")
    assert "nothing was copied" in invoke("templates", "copy", "fast_track", str(tmp_path), code=2).output
    assert (tmp_path / "patch.yaml").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "patch.yaml"]


def test_an_unknown_template_is_a_usage_error_that_lists_them() -> None:
    assert "fast_track" in invoke("templates", "show", "nope", code=2).output
