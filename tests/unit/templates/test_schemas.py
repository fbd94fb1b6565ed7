"""JSON Schemas come from the models, are checked in, and accept what the models accept."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from assent.compiler.schemas import DIALECT, SCHEMA_KINDS, schema_of, schema_text
from assent.compiler.source import read_source
from assent.templates import library
from tests.golden import assert_golden

FILES = sorted(library().glob("*/*.yaml"))


def errors(kind: str, data: object) -> list[str]:
    return [error.json_path for error in Draft202012Validator(schema_of(kind)).iter_errors(data)]


@pytest.mark.parametrize("kind", SCHEMA_KINDS)
def test_a_schema_is_valid_draft_2020_12(kind: str) -> None:
    schema = schema_of(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT


@pytest.mark.parametrize("kind", SCHEMA_KINDS)
def test_the_schema_that_is_checked_in_is_what_the_models_say(kind: str) -> None:
    assert_golden(library() / "schema" / f"{kind}.json", schema_text(kind))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_template_fits_its_schema_and_tells_editors_where_it_is(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    data = read_source(text, file.name).data
    assert isinstance(data, dict)
    kind = next(iter(data))
    assert errors(kind, data) == []
    assert text.startswith(f"# yaml-language-server: $schema=../schema/{kind}.json\n")


def contract(**changes: Any) -> dict[str, Any]:
    states = {"draft": {"edit": "editable"}, "done": {"edit": "locked"}}
    lifecycle = {
        "initial": "draft",
        "states": states,
        "transitions": {"end": {"from": "draft", "to": "done"}},
    }
    return {"contract": "note", "version": 1, "lifecycle": lifecycle} | changes


def test_a_transition_may_name_one_source_or_a_list() -> None:
    listed = contract()
    listed["lifecycle"]["transitions"]["end"]["from"] = ["draft"]
    assert errors("contract", contract()) == errors("contract", listed) == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"colour": "red"}, "$"),
        ({"version": 0}, "$.version"),
        ({"fields": {"Total": {"type": "money"}}}, "$.fields"),
        ({"fields": {"total": {"type": "float"}}}, "$.fields.total.type"),
        ({"on_drift": "ignore"}, "$.on_drift"),
    ],
)
def test_what_is_wrong_in_form_does_not_fit(changes: dict[str, Any], path: str) -> None:
    assert errors("contract", contract(**changes)) == [path]


def test_editors_are_told_what_a_key_means() -> None:
    fields = schema_of("contract")["$defs"]["FieldSpec"]["properties"]
    assert fields["system"]["description"].startswith("Written by the workflow only")
