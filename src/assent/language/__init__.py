"""Expressions, templates and verbs: read, check, evaluate, explain. Pure: no database, clock or network."""

from assent.language.check import check, check_condition
from assent.language.explain import Explanation, explain
from assent.language.json_form import from_json, to_json
from assent.language.parse import parse
from assent.language.program import (
    Condition,
    Evaluation,
    Program,
    compile_expression,
    parse_condition,
    prepare,
)
from assent.language.render import render, tree
from assent.language.syntax import (
    EXPRESSION_CHARACTERS_MAX,
    EXPRESSION_DEPTH_LEVELS_MAX,
    EXPRESSION_DEREFERENCES_MAX,
    Expression,
    variables_in,
)
from assent.language.templates import (
    TEMPLATE_CHARACTERS_MAX,
    TEMPLATE_EXPRESSIONS_MAX,
    Template,
    check_secrets,
    check_template,
    compile_template,
    default_scope,
    parse_template,
    prepare_template,
    render_template,
    secret_in,
    secrets_in,
    with_secrets,
)
from assent.language.types import (
    OPEN,
    Scope,
    Type,
    TypeKind,
    entity_type,
    event_scope,
    scope_of,
    type_of_field,
)
from assent.language.urls import UrlProgram, check_url
from assent.language.values import as_json
from assent.language.verb_syntax import VerbCall, parse_verb, render_verb
from assent.language.verbs import (
    ArgumentSpec,
    ArgumentType,
    VerbRegistry,
    VerbSpec,
    bind_verb,
    check_verb,
    load_verbs,
)

__all__ = [
    "EXPRESSION_CHARACTERS_MAX",
    "EXPRESSION_DEPTH_LEVELS_MAX",
    "EXPRESSION_DEREFERENCES_MAX",
    "OPEN",
    "TEMPLATE_CHARACTERS_MAX",
    "TEMPLATE_EXPRESSIONS_MAX",
    "ArgumentSpec",
    "ArgumentType",
    "Condition",
    "Evaluation",
    "Explanation",
    "Expression",
    "Program",
    "Scope",
    "Template",
    "Type",
    "TypeKind",
    "UrlProgram",
    "VerbCall",
    "VerbRegistry",
    "VerbSpec",
    "as_json",
    "bind_verb",
    "check",
    "check_condition",
    "check_secrets",
    "check_template",
    "check_url",
    "check_verb",
    "compile_expression",
    "compile_template",
    "default_scope",
    "entity_type",
    "event_scope",
    "explain",
    "from_json",
    "load_verbs",
    "parse",
    "parse_condition",
    "parse_template",
    "parse_verb",
    "prepare",
    "prepare_template",
    "render",
    "render_template",
    "render_verb",
    "scope_of",
    "secret_in",
    "secrets_in",
    "to_json",
    "tree",
    "type_of_field",
    "variables_in",
    "with_secrets",
]
