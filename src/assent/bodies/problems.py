"""Bodies of refusals and of problems: RFC 9457 with a stable `code`, and a path for each field."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from assent.bodies.body import ResponseModel
from assent.model.mutation import Rejection
from assent.model.problems import Path, Problem, first_problems
from assent.refusals import TITLES, status_of

Names = Mapping[str, str]
"""The name of a part in the kernel or the engine → its name in the request's body; empty for the body itself."""


class PlacedProblem(ResponseModel):
    """One problem, with its position in the text."""

    code: str = Field(examples=["UNKNOWN_TASK"])
    message: str
    path: list[str | int] = Field(examples=[["transitions", 0, "to"]])
    hint: str | None = None
    source: str | None = Field(None, examples=["leave.flow.yaml"])
    line: int | None = None
    column: int | None = None

    @classmethod
    def first_of(cls, problems: Sequence[Problem]) -> "list[PlacedProblem]":
        """Return the bodies of as many problems as a reply lists."""
        return [cls.of_problem(problem) for problem in first_problems(problems)]

    @classmethod
    def of_problem(cls, problem: Problem) -> "PlacedProblem":
        """Return the body of a problem."""
        at = problem.position
        return cls(
            code=problem.code,
            message=problem.message,
            path=list(problem.path),
            hint=problem.hint,
            source=problem.source,
            line=at.line if at else None,
            column=at.column if at else None,
        )


class FieldProblem(BaseModel):
    """One error in the request, with its path."""

    code: str = Field(examples=["MISSING_FIELD"])
    message: str = Field(examples=["`number` is required"])
    path: list[str | int] = Field(
        description="Keys and indexes, from the body down.", examples=[["data", "number"]]
    )
    hint: str | None = None


class ProblemBody(BaseModel):
    """The reason why a request changed nothing."""

    type: str = Field(examples=["urn:assent:problem:NOT_FOUND"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    code: str = Field(description="Stable; programs match on it.", examples=["NOT_FOUND"])
    detail: str = Field(examples=["no instance 01890a5d-ac96-774b-bcce-b302099a8057"])
    instance: str | None = Field(
        None, description="The path of the request; none on the command line.", examples=["/api/instances/…"]
    )
    hint: str | None = None
    problems: Annotated[list[FieldProblem], Field(description="One for each field.")] = []

    @classmethod
    def of_rejection(
        cls,
        rejection: Rejection,
        path: str | None = None,
        *,
        names: Names | None = None,
        status: int | None = None,
    ) -> "ProblemBody":
        """Return the body of a rejection; `names` translates the first name of each path."""
        status = status or status_of(rejection.code)
        (alone,) = first_problems(
            [Problem(rejection.code, rejection.message, rejection.path, rejection.hint)]
        )
        return cls(
            type=f"urn:assent:problem:{rejection.code}",
            title=TITLES.get(status, "Refused"),
            status=status,
            code=rejection.code,
            detail=alone.message,
            instance=path,
            hint=alone.hint,
            problems=_problems(rejection.problems or ([alone] if rejection.path else []), names or {}),
        )


def _problems(problems: Sequence[Problem], names: Names) -> list[FieldProblem]:
    return [
        FieldProblem(
            code=found.code, message=found.message, path=_renamed(found.path, names), hint=found.hint
        )
        for found in first_problems(problems)
    ]


def _renamed(path: Path, names: Names) -> list[str | int]:
    head, *rest = path or ("",)
    name = names.get(str(head), head)
    return [name, *rest] if name != "" else rest
