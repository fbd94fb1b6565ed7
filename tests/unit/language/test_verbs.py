"""Verbs: read, declared, checked, bound."""

from decimal import Decimal
from typing import Any

import pytest

from assent.language import (
    ArgumentSpec,
    ArgumentType,
    VerbCall,
    VerbRegistry,
    VerbSpec,
    bind_verb,
    check_verb,
    load_verbs,
    parse_verb,
    render_verb,
)
from assent.language.syntax import Literal, Variable
from assent.language.types import TypeKind
from assent.language.verb_syntax import Argument, Entries, Items
from assent.model.problems import Position

ID = "018f4a5e-0000-7000-8000-00000000000a"

DECLARED = {
    "document": {
        "solicit": {
            "description": "Ask somebody outside for a document",
            "behavior": "plugin",
            "metadata": {"awaits_result": True},
            "args": [
                {"name": "subject-entity-id", "type": "uuid", "required": True},
                {"name": "document-type", "type": "string", "required": True},
                {
                    "name": "channel",
                    "type": "string",
                    "valid_values": ["portal", "email"],
                    "default": "portal",
                },
                {"name": "due", "type": "date"},
            ],
        },
        "solicit-set": {
            "args": [
                {"name": "subject-entity-id", "type": "uuid", "required": True},
                {"name": "doc-types", "type": "list", "of": "string", "required": True},
                {"name": "fee", "type": "decimal"},
                {"name": "attempts", "type": "integer", "default": 3},
                {"name": "urgent", "type": "boolean"},
                {"name": "until", "type": "datetime"},
                {"name": "details", "type": "json"},
            ]
        },
    }
}


@pytest.fixture(scope="module")
def registry() -> VerbRegistry:
    loaded, problems = load_verbs(DECLARED)
    assert loaded is not None, problems
    return loaded


def call_of(text: str) -> VerbCall:
    call, problems = parse_verb(text)
    assert call is not None, problems
    return call


def text(value: str) -> Literal:
    return Literal(TypeKind.TEXT, value)


@pytest.mark.parametrize(
    ("source", "name", "arguments"),
    [
        ("(document.list)", "document.list", {}),
        ("(document.solicit :doc-type passport)", "document.solicit", {"doc-type": text("passport")}),
        ("(a.b :x PASSPORT :y 'two words')", "a.b", {"x": text("PASSPORT"), "y": text("two words")}),
        (f"(a.b :id {ID.upper()})", "a.b", {"id": text(ID)}),
        (
            "(a.b :n -5 :d 1.50)",
            "a.b",
            {"n": Literal(TypeKind.INTEGER, -5), "d": Literal(TypeKind.DECIMAL, Decimal("1.5"))},
        ),
        (
            "(a.b :t true :n nil)",
            "a.b",
            {"t": Literal(TypeKind.BOOLEAN, True), "n": Literal(TypeKind.NULL, None)},
        ),
        (
            "(a.b :x $entity_id :y $entity.id)",
            "a.b",
            {"x": Variable(("entity_id",)), "y": Variable(("entity", "id"))},
        ),
        ("(a.b :l [x, y z])", "a.b", {"l": Items((text("x"), text("y"), text("z")))}),
        (
            "(a.b :m {:k [1]})",
            "a.b",
            {"m": Entries((Argument("k", Items((Literal(TypeKind.INTEGER, 1),))),))},
        ),
        ("(a.b\n  :x trueish\n  :y image/jpeg)", "a.b", {"x": text("trueish"), "y": text("image/jpeg")}),
    ],
)
def test_text_becomes_the_call_it_says(source: str, name: str, arguments: dict[str, Any]) -> None:
    call = call_of(source)
    assert call.name == name
    assert {argument.key: argument.value for argument in call.arguments} == arguments


@pytest.mark.parametrize(
    ("source", "code", "column"),
    [
        ("", "VERB_SYNTAX", 1),
        ("document.solicit", "VERB_SYNTAX", 1),
        ("(", "VERB_SYNTAX", 2),
        ("()", "VERB_SYNTAX", 2),
        ("(document.solicit", "VERB_SYNTAX", 18),
        ("(document.solicit :doc-type)", "VERB_SYNTAX", 28),
        ("(document.solicit :doc-type :other 1)", "VERB_SYNTAX", 29),
        ("(document.solicit passport)", "VERB_SYNTAX", 19),
        ("(document.solicit :l [1 2)", "VERB_SYNTAX", 26),
        ("(document.solicit) (document.solicit)", "VERB_SYNTAX", 20),
        ("(document.solicit :id <uuid>)", "VERB_SYNTAX", 23),
        ("(document.solicit :x 'open)", "VERB_SYNTAX", 22),
        ("(document.solicit :x 12ab)", "VERB_SYNTAX", 22),
        ("(solicit :x 1)", "BAD_NAME", 2),
        ("(Document.Solicit :x 1)", "BAD_NAME", 2),
        ("(a.b.c :x 1)", "BAD_NAME", 2),
        ("(a.b :x 1 :x 2)", "DUPLICATE", 11),
        ("(a.b :m {:x 1 :x 2})", "DUPLICATE", 15),
        (r"(a.b :x '\q')", "BAD_ESCAPE", 10),
        ("(a.b :x 9007199254740992)", "NUMBER_NOT_KEPT", 9),
    ],
)
def test_bad_text_gives_one_problem_at_its_column(source: str, code: str, column: int) -> None:
    call, problems = parse_verb(source)
    assert call is None
    assert [(problem.code, problem.position) for problem in problems] == [(code, Position(1, column))]


@pytest.mark.parametrize(
    ("source", "canonical"),
    [
        ('( document.solicit , :doc-type "passport" )', "(document.solicit :doc-type passport)"),
        ("(a.b :x \"it's\" :y 'true' :z '5')", r"(a.b :x 'it\'s' :y 'true' :z '5')"),
        (f"(a.b :x '{ID}' :y '{ID.upper()}')", f"(a.b :x {ID} :y '{ID.upper()}')"),
        ("(a.b :l [1,2.0,$x] :m {:k nil})", "(a.b :l [1 2 $x] :m {:k null})"),
    ],
)
def test_every_spelling_has_one_canonical_text(source: str, canonical: str) -> None:
    assert render_verb(call_of(source)) == canonical
    assert call_of(canonical) == call_of(source)


@pytest.mark.parametrize(
    "source",
    [
        "(document.solicit :subject-entity-id $entity_id :document-type passport)",
        f"(document.solicit :subject-entity-id {ID} :document-type 'a b' :channel email :due '2026-01-31')",
        "(document.solicit-set :subject-entity-id $entity.id :doc-types [passport $other])",
        f"(document.solicit-set :subject-entity-id {ID} :doc-types [] :fee 1.5 :attempts 2 :urgent true"
        " :until '2026-01-31T09:00:00Z' :details {:a [1 {:b null}]})",
        f"(document.solicit-set :subject-entity-id {ID} :doc-types [a] :fee '12.50')",
    ],
)
def test_calls_that_fit_have_no_problem(source: str, registry: VerbRegistry) -> None:
    assert check_verb(call_of(source), registry, {"entity_id", "entity", "other"}) == []


@pytest.mark.parametrize(
    ("source", "code", "culprit", "hint"),
    [
        ("(document.solict)", "UNKNOWN_VERB", "document.solict", "did you mean `document.solicit`?"),
        ("(x.y)", "UNKNOWN_VERB", "x.y", "known here: document.solicit, document.solicit-set"),
        ("(document.solicit :chanel email)", "UNKNOWN_ARGUMENT", ":chanel", "did you mean `channel`?"),
        ("(document.solicit :channel fax)", "WRONG_TYPE", "fax", None),
        ("(document.solicit :document-type 5)", "WRONG_TYPE", "5", None),
        ("(document.solicit :document-type [a])", "WRONG_TYPE", "[a]", None),
        ("(document.solicit :subject-entity-id ann)", "WRONG_TYPE", "ann", None),
        ("(document.solicit :due tomorrow)", "WRONG_TYPE", "tomorrow", None),
        ("(document.solicit :due '2026-01-31T09:00:00Z')", "WRONG_TYPE", "'2026-01-31T09:00:00Z'", None),
        ("(document.solicit-set :until '2026-01-31')", "WRONG_TYPE", "'2026-01-31'", None),
        ("(document.solicit-set :doc-types passport)", "WRONG_TYPE", "passport", None),
        ("(document.solicit-set :doc-types [passport 5])", "WRONG_TYPE", "[passport 5]", None),
        ("(document.solicit-set :fee much)", "WRONG_TYPE", "much", None),
        ("(document.solicit-set :attempts 1.5)", "WRONG_TYPE", "1.5", None),
        ("(document.solicit-set :attempts true)", "WRONG_TYPE", "true", None),
        ("(document.solicit-set :urgent 'true')", "WRONG_TYPE", "'true'", None),
        ("(document.solicit :document-type a)", "MISSING_ARGUMENT", "document.solicit", None),
        ("(document.solicit :document-type $docs)", "UNKNOWN_VARIABLE", "$docs", "did you mean `doc`?"),
        ("(document.solicit-set :doc-types [a $docs])", "UNKNOWN_VARIABLE", "$docs", "did you mean `doc`?"),
        ("(document.solicit-set :details {:a $docs})", "UNKNOWN_VARIABLE", "$docs", "did you mean `doc`?"),
    ],
)
def test_what_does_not_fit_is_a_problem_that_marks_it(
    source: str, code: str, culprit: str, hint: str | None, registry: VerbRegistry
) -> None:
    found = [problem for problem in check_verb(call_of(source), registry, {"doc"}) if problem.code == code]
    assert f"»{culprit}«" in found[0].message
    assert found[0].hint == hint


def test_all_problems_of_a_call_are_found(registry: VerbRegistry) -> None:
    problems = check_verb(call_of("(document.solicit :colour red :channel fax)"), registry)
    assert [problem.code for problem in problems] == [
        "UNKNOWN_ARGUMENT",
        "WRONG_TYPE",
        "MISSING_ARGUMENT",
        "MISSING_ARGUMENT",
    ]


def test_bound_arguments_are_json_with_variables_and_defaults(registry: VerbRegistry) -> None:
    call = call_of(
        "(document.solicit-set :subject-entity-id $entity.id :doc-types [passport $second] :fee 1.50"
        " :details {:n 2.5 :who $actor})"
    )
    variables = {"entity": {"id": ID.upper()}, "second": "visa", "actor": {"id": "ann"}}
    assert bind_verb(call, variables, registry.find(call.name)) == (
        {
            "subject-entity-id": ID,
            "doc-types": ["passport", "visa"],
            "fee": "1.5",
            "attempts": 3,
            "details": {"n": 2.5, "who": {"id": "ann"}},
        },
        [],
    )


def test_a_variable_without_a_value_leaves_an_optional_argument_out(registry: VerbRegistry) -> None:
    call = call_of(f"(document.solicit :subject-entity-id {ID} :document-type a :due $due :channel $how)")
    bound, problems = bind_verb(call, {"due": None}, registry.find(call.name))
    assert (bound, problems) == ({"subject-entity-id": ID, "document-type": "a", "channel": "portal"}, [])


@pytest.mark.parametrize(
    ("variables", "code"),
    [({}, "MISSING_ARGUMENT"), ({"id": None}, "MISSING_ARGUMENT"), ({"id": "ann"}, "WRONG_TYPE")],
)
def test_a_required_argument_needs_a_value_that_fits(
    variables: dict[str, Any], code: str, registry: VerbRegistry
) -> None:
    call = call_of("(document.solicit :subject-entity-id $id :document-type a)")
    bound, problems = bind_verb(call, variables, registry.find(call.name))
    assert bound is None
    assert [problem.code for problem in problems] == [code]


def test_an_undeclared_call_is_bound_as_it_stands() -> None:
    call = call_of("(a.b :x [1 $y] :z 0.1234567890123456789)")
    assert bind_verb(call, {"y": "w"}) == ({"x": [1, "w"], "z": "0.1234567890123456789"}, [])
    assert [problem.code for problem in bind_verb(call_of("(a.b :x $y)"), {})[1]] == ["MISSING_ARGUMENT"]


@pytest.mark.parametrize(
    ("data", "code", "where"),
    [
        (5, "WRONG_TYPE", ""),
        ({"document": 5}, "WRONG_TYPE", "document"),
        ({"document": {"solicit": 5}}, "WRONG_TYPE", "document.solicit"),
        ({"document": {"solicit": {"arguments": []}}}, "UNKNOWN_KEY", "document.solicit.arguments"),
        ({"document": {"solicit": {"behavior": "magic"}}}, "BAD_VALUE", "document.solicit.behavior"),
        ({"document": {"so licit": {}}}, "BAD_NAME", "document.so licit"),
        ({"a.b": {"c": {}}}, "BAD_NAME", "a.b.c"),
        ({"a": {"b": {"args": [{"type": "string"}]}}}, "MISSING_KEY", "a.b.args[0].name"),
        ({"a": {"b": {"args": [{"name": "x", "type": "text"}]}}}, "BAD_VALUE", "a.b.args[0].type"),
        ({"a": {"b": {"args": [{"name": "x"}, {"name": "x"}]}}}, "DUPLICATE", "a.b.args[1]"),
        (
            {"a": {"b": {"args": [{"name": "x", "type": "integer", "default": "1"}]}}},
            "BAD_VALUE",
            "a.b.args[0]",
        ),
        (
            {"a": {"b": {"args": [{"name": "x", "required": True, "default": "1"}]}}},
            "MISPLACED_KEY",
            "a.b.args[0]",
        ),
        ({"a": {"b": {"args": [{"name": "x", "of": "uuid"}]}}}, "MISPLACED_KEY", "a.b.args[0]"),
    ],
)
def test_a_bad_declaration_is_a_problem_at_its_path(data: Any, code: str, where: str) -> None:
    registry, problems = load_verbs(data)
    assert registry is None
    assert [(problem.code, problem.where) for problem in problems] == [(code, where)]


def test_verbs_declared_in_python_join_those_that_were_loaded(registry: VerbRegistry) -> None:
    spec = VerbSpec(args=(ArgumentSpec(name="days", type=ArgumentType.INTEGER, required=True),))
    more = registry.with_verb("client.remind", spec)
    assert check_verb(call_of("(client.remind :days 3)"), more) == []
    assert registry.find("client.remind") is None
    assert more.find("document.solicit") == registry.find("document.solicit")
