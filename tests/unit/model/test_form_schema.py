"""The schema of a form: what it accepts, the server accepts; and it says to people what fields are."""

from datetime import datetime
from typing import Any

import jsonschema
import pytest

from assent.model.contract import FieldSpec
from assent.model.form import DIALECT, form_schema
from assent.model.values import check_changes, check_required

FIELDS = {
    name: FieldSpec.model_validate(spec)
    for name, spec in {
        "name": {"type": "text", "required": True, "min": 1, "max": 5, "label": "Full name"},
        "count": {"type": "integer", "min": "1", "max": 3},
        "fee_total": {"type": "money", "min": 0},
        "rate": {"type": "decimal", "min": "0.5"},
        "day": {"type": "date", "min": "2026-01-01"},
        "at": {"type": "datetime"},
        "agreed": {"type": "boolean", "required": True},
        "size": {"type": "enum", "values": ["S", "L"]},
        "invoice_id": {"type": "reference", "to": "invoice"},
        "tags": {"type": "list", "of": {"type": "text", "max": 3}, "max": 2},
        "address": {"type": "object", "fields": {"city": {"type": "text", "required": True}}},
        "anything": {"type": "object"},
        "seen_at": {"type": "datetime", "required": True, "system": True},
    }.items()
}
SCHEMA = form_schema(FIELDS, "Intake")
GOOD: dict[str, Any] = {"name": "Ann", "agreed": True}

RIGHT: list[dict[str, Any]] = [
    {"name": "abcde"},
    {"count": 3},
    {"fee_total": 0},
    {"rate": "12.50"},
    {"rate": ".5"},
    {"day": "2026-11-16"},
    {"at": "2026-11-16T09:30:00Z"},
    {"at": "2026-11-16T09:30:00+01:00"},
    {"size": "L"},
    {"invoice_id": "01890a5d-ac96-774b-bcce-b302099a8057"},
    {"tags": ["a", "abc"]},
    {"address": {"city": "Bern"}},
    {"anything": {"goes": [1]}},
]

WRONG: list[dict[str, Any]] = [
    {"name": ""},
    {"name": "abcdef"},
    {"name": 7},
    {"count": 0},
    {"count": 4},
    {"count": 1.5},
    {"count": True},
    {"fee_total": 2**53},
    {"rate": "1e5"},
    {"rate": 1.5},
    {"rate": "1" * 101},
    {"day": "16.11.2026"},
    {"at": "2026-11-16T09:30:00"},
    {"agreed": "yes"},
    {"size": "M"},
    {"invoice_id": "seven"},
    {"tags": ["abcd"]},
    {"tags": ["a", "b", "c"]},
    {"tags": "a"},
    {"address": {}},
    {"address": {"city": "Bern", "planet": "Earth"}},
    {"anything": []},
    {"unknown": 1},
]


FORMATS = jsonschema.FormatChecker(("date", "uuid"))


@FORMATS.checks("date-time")
def _is_rfc_3339(value: object) -> bool:
    """The library checks times only with another one installed."""
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


def accepts(data: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA, format_checker=FORMATS).is_valid(data)


def is_kept(data: dict[str, Any]) -> bool:
    kept, problems = check_changes(FIELDS, data)
    return not problems and not check_required(FIELDS, kept)


def test_it_is_a_schema_of_the_dialect_that_it_names() -> None:
    assert SCHEMA["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("data", RIGHT, ids=str)
def test_what_the_server_keeps_the_schema_accepts(data: dict[str, Any]) -> None:
    assert (is_kept(GOOD | data), accepts(GOOD | data)) == (True, True)


@pytest.mark.parametrize("data", WRONG, ids=lambda data: str(data)[:40])
def test_what_the_server_refuses_the_schema_refuses(data: dict[str, Any]) -> None:
    assert (is_kept(GOOD | data), accepts(GOOD | data)) == (False, False)


@pytest.mark.parametrize("missing", ["name", "agreed"])
def test_required_fields_are_required(missing: str) -> None:
    data = {key: value for key, value in GOOD.items() if key != missing}
    assert (is_kept(data), accepts(data)) == (False, False)


def test_what_the_workflow_fills_in_is_required_of_nobody() -> None:
    assert accepts(GOOD)
    assert SCHEMA["properties"]["seen_at"]["readOnly"] is True


def test_limits_that_json_schema_has_no_word_for_are_there_to_be_read() -> None:
    properties = SCHEMA["properties"]
    assert (properties["rate"]["formatMinimum"], properties["day"]["formatMinimum"]) == ("0.5", "2026-01-01")


def test_titles_are_labels_or_the_names_in_plain_words() -> None:
    titles = {name: spec["title"] for name, spec in SCHEMA["properties"].items()}
    assert (SCHEMA["title"], titles["name"], titles["fee_total"]) == ("Intake", "Full name", "Fee total")


def test_a_form_without_fields_takes_whatever_comes() -> None:
    open_form = form_schema({}, "Anything")
    assert jsonschema.Draft202012Validator(open_form).is_valid({"a": {"b": 1}})
    assert not jsonschema.Draft202012Validator(open_form).is_valid([])
