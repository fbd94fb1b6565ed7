"""What somebody fills in: declared fields, with problems by field."""

from collections.abc import Mapping
from typing import Any

from assent.model.contract import FieldSpec
from assent.model.problems import Problem
from assent.model.values import check_changes, check_required


class FilledForm:
    """The fields of a form or of an approval. Without any, whatever comes is taken."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.fields = {name: FieldSpec.model_validate(spec) for name, spec in declared.items()}

    def check(self, data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        """What is kept, and every problem, each at its field."""
        if not self.fields:
            return dict(data), []
        kept, problems = check_changes(self.fields, data, ("data",))
        # What was sent and is wrong is not missing as well.
        return kept, [*problems, *check_required(self.fields, data, ("data",))]
