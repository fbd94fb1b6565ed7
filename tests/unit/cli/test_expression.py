"""`assent expression` shows what an expression means, and marks what is wrong with it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from assent.cli.main import app
from assent.templates import library

INVOICE = str(library() / "invoice_approval")


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["expression", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_the_tree_and_the_type_are_shown() -> None:
    shown = run("entity.grand_total > 5 && !(org.closed)", "--contract", INVOICE)
    assert shown.split("\n\n")[0].splitlines()[:2] == ["and", "  >"]
    assert "type: a boolean" in shown


def test_the_value_is_explained_by_what_decided_it() -> None:
    shown = run(
        "entity.grand_total <= 50000 && entity.vendor_id in org.trusted",
        *("--contract", INVOICE, "--set", "entity.grand_total=60000", "--set", "entity.vendor_id=v-1"),
        *("--set", "org.trusted=[v-1, v-2]"),
    )
    assert "entity.grand_total is 60000" in shown
    assert "vendor_id is" not in shown.split("because")[1]


def test_an_unknown_field_is_marked_and_a_near_one_is_suggested() -> None:
    shown = run("entity.grand_totl > 5", "--contract", INVOICE, code=1)
    line, mark = shown.splitlines()[1:3]
    assert line[mark.index("^") :].startswith("grand_totl")
    assert "did you mean `grand_total`?" in shown


def test_without_a_contract_anything_may_be_named() -> None:
    assert "variable entity.whatever" in run("entity.whatever == 1")


def test_programs_get_json_with_the_evidence() -> None:
    found = json.loads(run("entity.total > 5", "--json", "--set", "entity.total=7"))
    assert found["result"] is True
    assert found["variables"] == {"entity.total": 7}
    assert found["type"] == "a boolean"


def test_programs_get_problems_as_json_too() -> None:
    (problem,) = json.loads(run("entity.total >", "--json", code=1))["problems"]
    assert (problem["code"], problem["line"]) == ("EXPRESSION_SYNTAX", 1)


def test_a_setting_without_a_value_is_a_usage_error() -> None:
    assert "NAME=VALUE" in run("a", "--set", "entity.total", code=2)
    assert "a value of its own" in run("a", "--set", "a=1", "--set", "a.b=1", code=2)
    assert "not YAML" in run("a", "--set", "a=[1", code=2)


def test_a_path_without_a_sound_contract_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("flow: x\n")
    assert "there is no contract" in run("a", "--contract", str(tmp_path), code=2)
    (tmp_path / "contract.yaml").write_text("contract: x\n")
    assert "has problems" in run("a", "--contract", str(tmp_path), code=2)
