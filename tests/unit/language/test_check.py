"""Static checks: what is known to be wrong before anything runs."""

import pytest

from assent.language import Expression, TypeKind, check, check_condition, event_scope, parse, scope_of
from assent.language.types import OPEN
from assent.model.contract import FieldSpec, FieldType
from assent.model.problems import Position
from tests.unit.language.invoices import SCOPE


def expression_of(text: str) -> Expression:
    expression, problems = parse(text)
    assert expression is not None, problems
    return expression


@pytest.mark.parametrize(
    "text",
    [
        "entity.grand_total <= 50000 && entity.vendor_id in org.trusted_vendors",
        "entity.grand_total > 10000 && actor.roles contains 'finance_manager'",
        "entity.grand_total > org.limit",
        "entity.grand_total >= entity.copies",
        "entity.rate > 1.5 && entity.rate < 2 && entity.rate != entity.minimum_rate",
        "entity.rate == '1.50'",
        "entity.rate > entity.copies",
        "entity.rates contains 1.5",
        "entity.currency == 'EUR'",
        "entity.currency in ['EUR', 'USD']",
        "entity.currency == workflow.currency",
        "entity.currency startsWith 'E'",
        "entity.paid",
        "!entity.paid || entity.paid == true",
        "entity.due < now && entity.due >= '2026-01-31'",
        "entity.posted_at < now && entity.posted_at > entity.due",
        "entity.posted_at == '2026-01-31T09:00:00Z'",
        "entity.cost_center == null && null != entity.number",
        "entity.client == actor.id",
        "entity.state == 'draft' && entity.version > 1 && entity.type == 'invoice' && entity.id != ''",
        "entity.tags contains 'urgent' && 'urgent' in entity.tags",
        "entity.number contains '2026' && entity.number startsWith 'R' && entity.number endsWith '1'",
        "entity.number < 'M'",
        "entity.lines[0].sku == 'a' && entity.lines[0].amount > 5",
        "entity.address.city == 'Bonn' && entity.address['city'] != 'Köln'",
        "entity.address.geo.anything.goes > 1",
        "entity.tags == ['a', 'b']",
        "entity.cost_center in org.budget_owners",
        "org.budget_owners[entity.cost_center].level > 2",
        "workflow.whatever > 5 || context.tenant_id == 'acme'",
        "workflow.score > 5",
        "actor.user_id == actor.id && actor.kind == 'user' && actor.capabilities contains 'x'",
        "org.id == 'acme'",
        "true",
    ],
)
def test_sensible_conditions_have_no_problem(text: str) -> None:
    assert check_condition(expression_of(text), SCOPE) == []


@pytest.mark.parametrize(
    ("text", "code", "column", "hint"),
    [
        ("entity.grand_totl > 5", "UNKNOWN_VARIABLE", 8, "did you mean `grand_total`?"),
        ("entity.address.town == 'x'", "UNKNOWN_VARIABLE", 16, "known here: city, geo"),
        ("entity.number.length > 5", "UNKNOWN_VARIABLE", 15, None),
        ("entity.lines[0].sky == 'x'", "UNKNOWN_VARIABLE", 1, "did you mean `sku`?"),
        ("actor.role == 'x'", "UNKNOWN_VARIABLE", 7, "did you mean `roles`?"),
        ("entiti.number == 'x'", "UNKNOWN_VARIABLE", 1, "did you mean `entity`?"),
        ("True", "UNKNOWN_VARIABLE", 1, "known here: actor, entity, now, org, workflow"),
        ("entity.number > 5", "UNLIKE_TYPES", 1, None),
        ("entity.paid == 'yes'", "UNLIKE_TYPES", 1, None),
        ("entity.currency == entity.state", "UNLIKE_TYPES", 1, None),
        ("entity.paid == 1", "UNLIKE_TYPES", 1, None),
        ("entity.due > 20260131", "UNLIKE_TYPES", 1, None),
        ("entity.tags == 'x'", "UNLIKE_TYPES", 1, None),
        ("entity.grand_total == '5'", "UNLIKE_TYPES", 1, None),
        ("org.limit > 'many'", "UNLIKE_TYPES", 1, None),
        ("workflow.score == 'many'", "UNLIKE_TYPES", 1, None),
        ("context.tenant_id > 5", "UNLIKE_TYPES", 1, None),
        ("entity.copies in ['a', 2]", "UNLIKE_TYPES", 1, None),
        ("entity.tags contains 5", "UNLIKE_TYPES", 1, None),
        ("5 in entity.tags", "UNLIKE_TYPES", 1, None),
        ("entity.rate startsWith '1'", "UNLIKE_TYPES", 1, None),
        ("entity.number endsWith 5", "UNLIKE_TYPES", 24, None),
        ("entity.grand_total > 19.99", "UNLIKE_TYPES", 1, "money counts minor units: 19.99 is written 1999"),
        ("entity.copies == 1.5", "UNLIKE_TYPES", 1, None),
        ("true in entity.address", "UNLIKE_TYPES", 1, None),
        ("entity.currency == 'EURO'", "NOT_AN_ENUM_VALUE", 20, "did you mean 'EUR'?"),
        ("entity.currency in ['EUR', 'XXX']", "NOT_AN_ENUM_VALUE", 28, None),
        ("entity.state != 'submited'", "NOT_AN_ENUM_VALUE", 17, "did you mean 'submitted'?"),
        ("entity.type == 'order'", "NOT_AN_ENUM_VALUE", 16, None),
        ("entity.rate > 'much'", "BAD_LITERAL", 15, None),
        ("entity.due < 'tomorrow'", "BAD_LITERAL", 14, "write it as 2026-01-31 or 2026-01-31T09:00:00Z"),
        ("entity.due < '2026-02-30'", "BAD_LITERAL", 14, "write it as 2026-01-31 or 2026-01-31T09:00:00Z"),
        ("entity.currency < 'EUR'", "NOT_ORDERED", 1, "use == or !="),
        ("entity.tags > entity.tags", "NOT_ORDERED", 1, "use == or !="),
        ("entity.number > null", "NOT_ORDERED", 17, "use == or !="),
        ("'a' in entity.number", "NOT_A_COLLECTION", 8, "for a part of a text, write text contains 'part'"),
        ("1 in entity.copies", "NOT_A_COLLECTION", 6, None),
        ("entity.copies contains 1", "NOT_A_COLLECTION", 1, None),
        ("entity.number[0] == 'a'", "NOT_A_COLLECTION", 1, None),
        ("org.owners[entity.paid] == 'a'", "BAD_INDEX", 12, None),
        ("entity.lines[entity.number].sku == 'a'", "BAD_INDEX", 14, None),
        ("entity.number", "NOT_A_CONDITION", 1, "compare it with something"),
        ("!entity.grand_total", "NOT_A_CONDITION", 2, "compare it with something"),
        ("entity.paid && entity.tags", "NOT_A_CONDITION", 16, "compare it with something"),
        ("now", "NOT_A_CONDITION", 1, "compare it with something"),
    ],
)
def test_what_cannot_be_right_is_a_problem_at_its_column(
    text: str, code: str, column: int, hint: str | None
) -> None:
    problems = check_condition(expression_of(text), SCOPE)
    assert {problem.code for problem in problems} == {code}
    assert problems[0].position == Position(1, column)
    assert problems[0].hint == hint


def test_all_problems_are_found_and_not_only_the_first() -> None:
    text = "entity.nmber == 'x' && entity.currency == 'XXX' && entity.paid > 1"
    codes = [problem.code for problem in check_condition(expression_of(text), SCOPE)]
    assert codes == ["UNKNOWN_VARIABLE", "NOT_AN_ENUM_VALUE", "UNLIKE_TYPES"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("entity.grand_total", TypeKind.MONEY),
        ("entity.lines", TypeKind.LIST),
        ("entity.lines[0]", TypeKind.OBJECT),
        ("org.budget_owners[entity.cost_center]", TypeKind.UNKNOWN),
        ("entity.number == 'x'", TypeKind.BOOLEAN),
        ("now", TypeKind.DATETIME),
        ("'x'", TypeKind.TEXT),
    ],
)
def test_the_type_of_an_expression_is_known(text: str, kind: TypeKind) -> None:
    found, problems = check(expression_of(text), SCOPE)
    assert (found.kind, problems) == (kind, [])


def test_without_a_contract_there_is_no_entity() -> None:
    problems = check_condition(expression_of("entity.number == 'x'"), scope_of())
    assert [problem.code for problem in problems] == ["UNKNOWN_VARIABLE"]


def test_where_nothing_is_declared_everything_is_let_through() -> None:
    assert check_condition(expression_of("anything.at[all] > 5 || event.size in whatever"), OPEN) == []


def test_an_event_is_matched_by_the_bare_names_of_its_fields() -> None:
    fields = {"mimeType": FieldSpec(type=FieldType.TEXT), "size": FieldSpec(type=FieldType.INTEGER)}
    scope = event_scope(fields)
    for text in ("mimeType contains 'zip' AND size > 1024", "event.size > 0 && now > '2026-01-01'"):
        assert check_condition(expression_of(text), scope) == []
    problems = check_condition(expression_of("mimetype = 'x' OR size = 'big'"), scope)
    assert [problem.code for problem in problems] == ["UNKNOWN_VARIABLE", "UNLIKE_TYPES"]
