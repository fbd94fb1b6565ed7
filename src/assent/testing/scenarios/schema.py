"""The JSON Schema of scenarios, made from the models, so that editors complete and check them.

A transition of a contract is a key that no schema knows: what is accepted here may still have problems.
"""

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from assent.compiler.schemas import titled
from assent.testing.scenarios.scenario import ScenarioHead
from assent.testing.scenarios.steps import AROUND, NAMED, AnswerStep, ChangeStep

_REF: Final = "#/$defs/{model}"


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema (Draft 2020-12) of a scenario."""
    named = dict.fromkeys(kind for kind, _ in NAMED.values())
    models = [ScenarioHead, *named, AnswerStep, ChangeStep]
    _, schema = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    definitions = schema["$defs"]
    head = definitions.pop("ScenarioHead")
    choices = [{"$ref": _REF.format(model=kind.__name__)} for kind in named]
    head["properties"]["steps"]["items"] = {"anyOf": [*choices, _free(definitions)]}
    return titled("scenario", {**head, "$defs": definitions})


def _free(definitions: dict[str, Any]) -> dict[str, Any]:
    """An answer to a step, a transition or an action, under whatever name it has."""
    answer, change = definitions.pop("AnswerStep"), definitions.pop("ChangeStep")
    known = {**answer["properties"], **change["properties"]}
    return {
        "type": "object",
        "properties": {name: known[name] for name in sorted(AROUND & known.keys())},
        "additionalProperties": {"type": ["string", "object"]},
        "minProperties": 2,
        "required": ["as"],
    }
