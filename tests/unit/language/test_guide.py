"""docs/expressions.md says what is true."""

import json
import re
from pathlib import Path

import pytest
import yaml

from assent.language import check_verb, compile_expression, from_json, load_verbs, parse, parse_verb

GUIDE = (Path(__file__).parents[3] / "docs" / "expressions.md").read_text()
ROWS = re.findall(r"^\| `(.+?)` \| (true|false) \|", GUIDE, re.MULTILINE)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
VARIABLES = {"name": "Ann", "list": ["a", None]}


def test_the_guide_has_its_table() -> None:
    assert len(ROWS) > 15


@pytest.mark.parametrize(("text", "result"), ROWS)
def test_every_row_of_the_table_of_missing_values_is_true(text: str, result: str) -> None:
    expression, problems = parse(text)
    assert expression is not None, problems
    assert compile_expression(expression).value(VARIABLES) is (result == "true")


@pytest.mark.parametrize("text", [line for kind, block in BLOCKS if not kind for line in block.splitlines()])
def test_every_example_can_be_read(text: str) -> None:
    assert parse(text)[1] == []


@pytest.mark.parametrize("text", [block for kind, block in BLOCKS if kind == "json"])
def test_every_json_example_can_be_read(text: str) -> None:
    assert from_json(json.loads(text))[1] == []


def test_the_verb_and_its_declaration_fit() -> None:
    registry, problems = load_verbs(next(yaml.safe_load(block) for kind, block in BLOCKS if kind == "yaml"))
    assert registry is not None, problems
    call, problems = parse_verb(re.findall(r"`(\(.+?\))`", GUIDE)[0])
    assert call is not None, problems
    assert check_verb(call, registry, {"entity_id"}) == []
