"""What authors declare, as it comes through this door: everything that is wrong with it is told, each at its place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from assent.http.problems import summary_of
from assent.model.canonical import NotCanonical
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid, Problem


@contextmanager
def reporting_problems(*place: str) -> Iterator[None]:
    """Problems of a declaration become a refusal; `place` is where in the body it is."""
    try:
        yield
    except NotCanonical as error:
        raise _refused([Problem(error.code, str(error), (*place, *error.path))]) from None
    except Invalid as invalid:
        raise _refused([_placed(problem).under(*place) for problem in invalid.problems]) from None


def _placed(problem: Problem) -> Problem:
    """Where several texts were sent, a path alone does not say in which."""
    if problem.source is None:
        return problem
    line = f":{problem.position.line}" if problem.position else ""
    return replace(problem, message=f"{problem.source}{line}: {problem.message}")


def _refused(problems: Sequence[Problem]) -> Refused:
    message = problems[0].message if len(problems) == 1 else summary_of(len(problems), "place")
    return Refused(Rejection("INVALID_DECLARATION", message, problems=problems))
