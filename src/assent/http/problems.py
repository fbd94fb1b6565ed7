"""Problems as RFC 9457 wants them: `application/problem+json`, with our stable `code` and a place for each field."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from assent.http.reply import PROBLEM_JSON, Reply
from assent.http.statuses import TITLES, codes_of, status_of
from assent.model.mutation import Refused, Rejection
from assent.model.problems import PROBLEMS_MAX, Path, Problem, first_problems

Names = Mapping[str, str]
"""What the kernel and the engine call a part of a command → what the request's body calls it; empty: the body."""


class FieldProblem(BaseModel):
    """One thing that is wrong with what was sent, and where."""

    code: str = Field(examples=["MISSING_FIELD"])
    message: str = Field(examples=["`number` is required"])
    path: list[str | int] = Field(
        description="Keys and indexes, from the body down.", examples=[["data", "number"]]
    )
    hint: str | None = None


class ProblemBody(BaseModel):
    """Why a request did nothing."""

    type: str = Field(examples=["urn:assent:problem:NOT_FOUND"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    code: str = Field(description="Stable; programs match on it.", examples=["NOT_FOUND"])
    detail: str = Field(examples=["no instance 01890a5d-ac96-774b-bcce-b302099a8057"])
    instance: str = Field(description="The path that was asked for.", examples=["/ui/workflows/…"])
    hint: str | None = None
    problems: Annotated[list[FieldProblem], Field(description="Each at its field.")] = []


class RefusedByHttp(Refused):
    """A refusal with something to say in headers."""

    def __init__(self, rejection: Rejection, **headers: str) -> None:
        super().__init__(rejection)
        self.headers = headers


def problem_reply(
    rejection: Rejection,
    path: str,
    *,
    names: Names | None = None,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """A rejection as an answer; `names` says what the request calls the parts that it talks about."""
    status = status or status_of(rejection.code)
    (alone,) = first_problems([Problem(rejection.code, rejection.message, rejection.path, rejection.hint)])
    body = ProblemBody(
        type=f"urn:assent:problem:{rejection.code}",
        title=TITLES.get(status, "Refused"),
        status=status,
        code=rejection.code,
        detail=alone.message,
        instance=path,
        hint=alone.hint,
        problems=_problems(rejection.problems or ([alone] if rejection.path else []), names or {}),
    )
    return Reply(status, body.model_dump_json(exclude_none=True), headers or {}, PROBLEM_JSON)


def shown_once(reply: Reply, path: str, message: str) -> Reply:
    """Return an answer that holds a secret; a repeat under the same key gets a problem in place of the secret."""
    hint = "the first answer showed it; replace it where that answer was lost"
    return replace(reply, again=problem_reply(Rejection("SHOWN_ONCE", message, hint=hint), path))


def summary_of(number: int, each: str) -> str:
    """What an answer says of several problems."""
    told = f"; the first {PROBLEMS_MAX} are told" if number > PROBLEMS_MAX else ""
    return f"{number} problems, each at its {each}{told}"


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


_ALWAYS: Final = (401, 403, 429, 503)
_DESCRIPTIONS: Final[Mapping[int, str]] = {
    400: "The body is not JSON.",
    401: "There is no token or API key, or it is refused.",
    403: "Whoever asks may not do this.",
    404: "There is no such thing in this org and partition.",
    409: "It cannot be done as things stand; nothing was changed.",
    410: "It was there, has ended and was deleted since.",
    412: "It is not any more what `If-Match` names.",
    413: "The request is larger than is taken.",
    422: "What was sent is not what was expected; `problems` has each field.",
    428: "`If-Match` is missing.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "Busy or not ready; nothing was changed, and trying again may help.",
}


_LIMITED: Final = {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."},
    "RateLimit": {"schema": {"type": "string"}, "description": "What is left, and when there is more."},
    "RateLimit-Policy": {"schema": {"type": "string"}, "description": "Which limit, and how much it takes."},
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides what it is for, for its documentation."""
    return {status: _documented(status) for status in sorted({*_ALWAYS, *statuses})}


def documented_alone(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The same for a route without sign-in."""
    return {status: _documented(status) for status in statuses}


def _documented(status: int) -> dict[str, Any]:
    examples = {code: {"value": _example(status, code)} for code in codes_of(status)}
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/ProblemBody"}, "examples": examples}}
    found: dict[str, Any] = {"description": _DESCRIPTIONS[status], "content": content}
    if status == 429:
        found["headers"] = _LIMITED
    return found


def _example(status: int, code: str) -> dict[str, Any]:
    return {
        "type": f"urn:assent:problem:{code}",
        "title": TITLES[status],
        "status": status,
        "code": code,
        "detail": "…",
        "instance": "/ui/workflows",
        "problems": [],
    }
