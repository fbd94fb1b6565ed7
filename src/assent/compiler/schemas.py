"""JSON Schemas of what authors write, made from the models, so that editors complete and check files.

A schema knows the form of a file and not its sense: what it accepts may still have problems for the compiler.
"""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from assent.model.contract import Contract
from assent.model.flow import Flow
from assent.model.parse import Declaration
from assent.model.patch import Patch

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_MODELS: Final[Mapping[str, type[Declaration]]] = {"contract": Contract, "patch": Patch, "flow": Flow}
SCHEMA_KINDS: Final = tuple(_MODELS)


class DescribedSchema(GenerateJsonSchema):
    """A schema with the sentences that stand below the fields of models."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        found, kind = super().model_schema(schema), schema["cls"]
        sentences = {name: text for base in reversed(kind.__mro__) for name, text in _sentences(base)}
        for name, field in kind.model_fields.items():
            shown = found.get("properties", {}).get(field.alias or name)
            if shown is not None and name in sentences:
                shown.setdefault("description", sentences[name])
        return found


def _sentences(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a model that have a sentence below them, with the sentence."""
    if not issubclass(kind, BaseModel) or kind is BaseModel:
        return
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in pairwise(tree.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (Draft 2020-12) of a contract, a patch or a flow."""
    return titled(kind, _MODELS[kind].model_json_schema(schema_generator=DescribedSchema))


def schema_text(kind: str) -> str:
    """Return the schema as it is checked in."""
    return text_of(schema_of(kind))


def titled(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return what pydantic makes of a model, as a schema of ours."""
    return {"$schema": DIALECT, "title": f"Assent {kind}", **_tidied(schema)}


def text_of(schema: Mapping[str, Any]) -> str:
    """Return a schema as text: indented, with keys in order."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _tidied(value: Any, key: str = "") -> Any:
    """Without the titles and null choices that pydantic adds, and closed to names that match no pattern."""
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = key in ("properties", "$defs")
    kept = {name: _tidied(item, name) for name, item in value.items() if named or name != "title"}
    if named:
        return kept
    if "patternProperties" in kept:
        kept.setdefault("additionalProperties", False)
    return _without_null(kept)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = schema.get("anyOf", [])
    if {"type": "null"} not in choices or schema.get("default", "") is not None:
        return schema
    rest = [choice for choice in choices if choice != {"type": "null"}]
    schema = {name: item for name, item in schema.items() if name not in ("anyOf", "default")}
    return schema | (rest[0] if len(rest) == 1 else {"anyOf": rest})
