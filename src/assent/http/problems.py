"""Problems in the format of RFC 9457: `application/problem+json`, with a stable `code` and a path for each field."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from assent.bodies.problems import Names, ProblemBody
from assent.http.replies import PROBLEM_JSON, Reply, T_co
from assent.model.canonical import NotCanonical
from assent.model.mutation import Refused, Rejection
from assent.model.problems import PROBLEMS_MAX, Invalid, Problem
from assent.refusals import TITLES, codes_of


class RefusedByHttp(Refused):
    """A refusal with headers."""

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
) -> Reply[Any]:
    """Return the reply to a rejection; `names` translates the first name of each path."""
    body = ProblemBody.of_rejection(rejection, path, names=names, status=status)
    return Reply(body.status, body.model_dump_json(exclude_none=True), headers or {}, PROBLEM_JSON)


def shown_once(reply: Reply[T_co], path: str, message: str) -> Reply[T_co]:
    """Return a reply that holds a secret; a repeat under the same key gets a problem in place of the secret."""
    hint = "only the first reply has it; replace the secret if that reply was lost"
    return replace(reply, again=problem_reply(Rejection("SHOWN_ONCE", message, hint=hint), path))


def summary_of(number: int, each: str) -> str:
    """Return the message for several problems."""
    listed = f"; the first {PROBLEMS_MAX} are listed" if number > PROBLEMS_MAX else ""
    return f"{number} problems, each at its {each}{listed}"


@contextmanager
def reporting_problems(*path: str) -> Iterator[None]:
    """Turn the problems of a declaration into one refusal; `path` leads to the declaration in the body."""
    try:
        yield
    except NotCanonical as error:
        raise _refused([Problem(error.code, str(error), (*path, *error.path))]) from None
    except Invalid as invalid:
        raise _refused([_with_source(problem).under(*path) for problem in invalid.problems]) from None


def _with_source(problem: Problem) -> Problem:
    """Return a problem whose message names its text: where several were sent, a path alone is ambiguous."""
    if problem.source is None:
        return problem
    line = f":{problem.position.line}" if problem.position else ""
    return replace(problem, message=f"{problem.source}{line}: {problem.message}")


def _refused(problems: Sequence[Problem]) -> Refused:
    message = problems[0].message if len(problems) == 1 else summary_of(len(problems), "place")
    return Refused(Rejection("INVALID_DECLARATION", message, problems=problems))


_ALWAYS: Final = (401, 403, 429, 503)
_DESCRIPTIONS: Final[Mapping[int, str]] = {
    400: "The body is not JSON.",
    401: "The token or API key is missing or refused.",
    403: "The caller may not do this.",
    404: "There is no such object in this org and partition.",
    409: "The current state does not allow it; nothing was changed.",
    410: "The object has ended, or was deleted.",
    412: "The object is not the version that `If-Match` names.",
    413: "The request is too large.",
    416: "The file has no such bytes.",
    422: "The request is invalid; `problems` has each field.",
    428: "`If-Match` is missing.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "Busy or not ready; nothing was changed, and a repeat may work.",
}
_UNSEEN: Final = {"description": "It was done; the caller may not read the object."}


_LIMITED: Final = {
    "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."},
    "RateLimit": {
        "schema": {"type": "string"},
        "description": "The remaining requests, and the seconds until there are more.",
    },
    "RateLimit-Policy": {"schema": {"type": "string"}, "description": "The name of the limit, and its size."},
}


def documented(*statuses: int, signs_in: bool = True) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the replies of a route besides its success; 204 is for callers who may not read."""
    always = _ALWAYS if signs_in else ()
    return {
        status: _UNSEEN if status == 204 else _documented(status) for status in sorted({*always, *statuses})
    }


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
        "instance": "/api/instances",
        "problems": [],
    }
