"""An example for every body and every answer of the document, put together from those of their fields.

So an example has every field that the schema has, and cannot say anything else than the schema does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_DEPTH_MAX: Final = 6
"""Where a shape holds itself, its examples end."""
_FORMATS: Final = {
    "uuid": "01890a5d-ac96-774b-bcce-b302099a8057",
    "date-time": "2026-03-02T09:00:00Z",
    "date": "2026-03-02",
}
_PLAIN: Final[Mapping[str, Any]] = {"integer": 1, "number": 1, "boolean": True, "null": None, "string": "…"}


def add_examples(document: dict[str, Any]) -> None:
    """To every JSON body and answer that has none."""
    schemas = document["components"]["schemas"]
    for content in _contents(document):
        if "example" not in content and "examples" not in content:
            content["example"] = example_of(content["schema"], schemas)


def _contents(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        for operation in methods.values():
            for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
                yield from (
                    found for kind, found in holder.get("content", {}).items() if kind == "application/json"
                )


def example_of(schema: Schema, schemas: Mapping[str, Schema], depth: int = 0) -> Any:
    if "examples" in schema:
        return schema["examples"][0]
    for word in ("example", "const", "default"):
        if word in schema:
            return schema[word]
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, depth)
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return example_of(schema[word][0], schemas, depth)
    return _of_type(schema, schemas, depth)


def _of_type(schema: Schema, schemas: Mapping[str, Schema], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {}) if depth < _DEPTH_MAX else {}
        return {name: example_of(field, schemas, depth + 1) for name, field in fields.items()}
    if kind == "array":
        count = max(1 if depth < _DEPTH_MAX else 0, schema.get("minItems", 0))
        return [example_of(item, schemas, depth + 1) for item in _items(schema, count)]
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), _PLAIN["string"])
    return _PLAIN.get(str(kind), {})


def _items(schema: Schema, count: int) -> list[Schema]:
    return list(schema.get("prefixItems", ())) or [schema.get("items", {})] * count
