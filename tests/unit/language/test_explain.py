"""Explanations name the part that decided, with its values, in words."""

import pytest

from assent.language import explain, parse
from tests.unit.language.invoices import SCOPE

VARIABLES = {
    "entity": {"grand_total": 60_000, "vendor_id": "v-9", "paid": True, "rate": "10.5", "minimum_rate": "9"},
    "org": {"trusted_vendors": ["v-1"], "owners": {"R&D": "bea"}},
    "workflow": {"score": "high"},
}


def why(text: str) -> list[str]:
    expression, problems = parse(text)
    assert expression is not None, problems
    return str(explain(expression, VARIABLES, SCOPE)).splitlines()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "entity.grand_total <= 50000",
            ["entity.grand_total <= 50000 is false: entity.grand_total is 60000"],
        ),
        (
            "entity.paid && entity.grand_total <= 50000",
            [
                "entity.paid && entity.grand_total <= 50000 is false, because",
                "  entity.grand_total <= 50000 is false: entity.grand_total is 60000",
            ],
        ),
        (
            "entity.grand_total > 1 && entity.paid",
            [
                "entity.grand_total > 1 && entity.paid is true, because",
                "  entity.grand_total > 1 is true: entity.grand_total is 60000",
                "  entity.paid is true",
            ],
        ),
        (
            "entity.paid || entity.grand_total <= 50000",
            ["entity.paid || entity.grand_total <= 50000 is true, because", "  entity.paid is true"],
        ),
        (
            "entity.vendor_id in org.trusted_vendors || !entity.paid",
            [
                "entity.vendor_id in org.trusted_vendors || !entity.paid is false, because",
                "  entity.vendor_id in org.trusted_vendors is false: "
                "entity.vendor_id is 'v-9', org.trusted_vendors is ['v-1']",
                "  !entity.paid is false, because",
                "    entity.paid is true",
            ],
        ),
        (
            "entity.cost_center == 'R&D'",
            ["entity.cost_center == 'R&D' is false: entity.cost_center is missing"],
        ),
        (
            "entity.copies > 5",
            ["entity.copies > 5 is false: entity.copies is missing; a missing value is in no order"],
        ),
        (
            "workflow.score > 5",
            ["workflow.score > 5 is false: workflow.score is 'high'; these are of unlike types"],
        ),
        (
            "entity.rate > entity.minimum_rate",
            ["entity.rate > entity.minimum_rate is true: entity.rate is '10.5', entity.minimum_rate is '9'"],
        ),
        ("1 > 2", ["1 > 2 is false"]),
    ],
)
def test_the_deciding_parts_are_named_with_their_values(text: str, lines: list[str]) -> None:
    assert why(text) == lines


def test_long_values_are_cut() -> None:
    expression, _ = parse("a in b")
    assert expression is not None
    line = str(explain(expression, {"a": "x", "b": list(range(10_000))}))
    assert len(line) < 200
    assert line.endswith("…")
