"""Fields: patterns that a text has to fit, and defaults for what was not sent."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from assent.app import App
from assent.compiler import compile_contract
from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.kernel import Kernel
from assent.model.actor import SYSTEM
from assent.model.contract import parse_contract
from assent.model.form import form_schema
from assent.model.mutation import Refused
from assent.store.database import Database
from tests.kernel.commands import command, counts

BILL: dict[str, Any] = {
    "contract": "bill",
    "version": 1,
    "workflow": "none",
    "fields": {
        "number": {"type": "text", "pattern": "INV-[0-9]{5}"},
        "currency": {"type": "enum", "values": ["EUR", "USD"], "default": "EUR"},
        "copies": {"type": "integer", "default": 1},
        "net": {"type": "money"},
        "gross": {"type": "money", "default": "{round(entity.net * 1.19)}"},
        "clerk": {"type": "text", "default": "{actor.id}", "required": True},
        "due": {"type": "datetime", "default": "{now + '14d'}"},
        "subject": {"type": "text", "default": "{entity.copies} × {entity.currency}"},
    },
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}},
}


@pytest.fixture
def app() -> App:
    return App([BILL])


async def create(kernel: Kernel, **payload: Any) -> dict[str, Any]:
    made = await kernel.mutate(command("bill.create", SYSTEM, payload=payload))
    return dict(made.entity.data)


async def test_what_was_not_sent_has_its_default(kernel: Kernel) -> None:
    before, data = kernel.database.clock.now(), await create(kernel, net=10_001)
    due = datetime.fromisoformat(data.pop("due")) - timedelta(days=14)
    assert before <= due <= kernel.database.clock.now()
    assert data == {
        "currency": "EUR",
        "copies": 1,
        "net": 10_001,
        "gross": 11_901,
        "clerk": SYSTEM.id,
        "subject": "1 × EUR",
    }


async def test_what_was_sent_stays_and_null_means_none(kernel: Kernel) -> None:
    data = await create(kernel, currency="USD", copies=None, gross=5, clerk="ann", due=None)
    assert data == {"currency": "USD", "gross": 5, "clerk": "ann", "subject": " × USD"}


async def test_an_update_brings_no_default_back(kernel: Kernel) -> None:
    made = await kernel.mutate(command("bill.create", SYSTEM, payload={"copies": 3}))
    changed = await kernel.mutate(command("bill.update", SYSTEM, made.entity, payload={"copies": None}))
    assert "copies" not in changed.entity.data


@pytest.mark.parametrize("number", ["INV-1", "INV-123456", "xINV-12345", "INV-12345\n", ""])
async def test_a_text_that_does_not_fit_its_pattern_is_refused(
    kernel: Kernel, database: Database, number: str
) -> None:
    with pytest.raises(Refused) as caught:
        await create(kernel, number=number)
    problem = caught.value.rejection.problems[0]
    assert (problem.code, problem.where) == ("PATTERN_MISMATCH", "payload.number")
    assert set((await counts(database)).values()) == {0}


async def test_a_text_that_fits_is_kept(kernel: Kernel) -> None:
    assert (await create(kernel, number="INV-00007"))["number"] == "INV-00007"


def test_forms_show_the_pattern() -> None:
    contract, _ = parse_contract(BILL)
    assert contract is not None
    assert form_schema(contract.fields, "Bill")["properties"]["number"]["pattern"] == "^(?:INV-[0-9]{5})$"


@pytest.mark.parametrize(
    ("field", "code", "path"),
    [
        ({"type": "text", "pattern": "("}, "BAD_PATTERN", ("fields", "x", "pattern")),
        ({"type": "integer", "pattern": "1"}, "MISPLACED_KEY", ("fields", "x", "pattern")),
        ({"type": "integer", "default": "many"}, "WRONG_TYPE", ("fields", "x", "default")),
        ({"type": "text", "pattern": "a", "default": "b"}, "PATTERN_MISMATCH", ("fields", "x", "default")),
        ({"type": "text", "default": "{entity.y}"}, "UNKNOWN_VARIABLE", ("fields", "x", "default")),
        ({"type": "text", "default": "{entity.x"}, "TEMPLATE_SYNTAX", ("fields", "x", "default")),
        ({"type": "text", "system": True, "default": "b"}, "MISPLACED_KEY", ("fields", "x", "default")),
        (
            {"type": "list", "of": {"type": "text", "default": "b"}},
            "MISPLACED_KEY",
            ("fields", "x", "of", "default"),
        ),
    ],
)
def test_what_cannot_be_right_is_a_problem_of_the_contract(
    field: dict[str, Any], code: str, path: Any
) -> None:
    lifecycle = {
        "initial": "open",
        "states": {"open": {"edit": "editable"}, "done": {"edit": "locked"}},
        "transitions": {"close": {"from": "open", "to": "done"}},
    }
    source = {**BILL, "fields": {"x": field}, "lifecycle": lifecycle}
    del source["workflow"]
    found = [(problem.code, problem.path) for problem in compile_contract(source).problems]
    assert found == [(code, path)]


def test_a_contract_without_a_workflow_is_checked_too() -> None:
    text = """
        contract: memo
        version: 1
        workflow: none
        fields: {x: {type: integer, default: "many"}}
        lifecycle: {initial: open, states: {open: {edit: editable}}}
    """
    found = compile_sources([read_source(text, "memo.yaml")]).problems
    assert [(problem.code, problem.position and problem.position.line) for problem in found] == [
        ("WRONG_TYPE", 5)
    ]
