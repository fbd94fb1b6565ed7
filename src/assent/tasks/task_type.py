"""A kind of task as an application declares it: a function, the input that its parameters ask for, and its limits."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import timedelta
from typing import Any, Final, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_jsonable_python

from assent.model.canonical import NotCanonical, require_canonical
from assent.model.job import PRIORITY, PRIORITY_MAX, TASK_ATTEMPTS_MAX, Submittable
from assent.model.parse import problems_of, shown
from assent.model.problems import Invalid, Problem
from assent.model.terms import DottedName
from assent.model.timing import require_duration
from assent.tasks.context import TaskContext

Function = Callable[..., Any]

_NAME: Final = TypeAdapter(DottedName)
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class InputBinding:
    """How a function takes its input: as a whole, under one name, or key by key."""

    adapter: TypeAdapter[Any]
    whole: str | None

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The input as the function's arguments; raises pydantic's `ValidationError`."""
        found = self.adapter.validate_python(given)
        # Not dict(found): that asks pydantic for each model's extra and private fields, of which there are none.
        return {self.whole: found} if self.whole is not None else dict(vars(found))


@dataclass(frozen=True, slots=True)
class TaskType:
    name: str
    run: Function
    asked: InputBinding
    task_parameter: str | None
    """The parameter that gets the `TaskContext`, where there is one."""
    is_async: bool
    attempts_max: int = TASK_ATTEMPTS_MAX
    timeout: timedelta | None = None
    """How long one attempt may take."""
    priority: int = PRIORITY

    def check(self, given: Any) -> Mapping[str, Any]:
        """An input as it is kept; raises `Invalid` with every problem."""
        kept = as_kept(given if given is not None else {}, "input")
        if not isinstance(kept, Mapping):
            raise Invalid([Problem("WRONG_TYPE", f"an object was expected, found {shown(kept)}", ("input",))])
        try:
            self.asked.arguments(kept)
        except ValidationError as error:
            raise Invalid([problem.under("input") for problem in problems_of(error)]) from None
        return kept

    def submittable(self, given: Any) -> Submittable:
        return Submittable(self.check(given), self.priority, self.attempts_max)

    def arguments(self, task: TaskContext, given: Mapping[str, Any]) -> dict[str, Any]:
        found = self.asked.arguments(given)
        if self.task_parameter is not None:
            found[self.task_parameter] = task
        return found


def declare(
    name: str,
    run: Function,
    *,
    attempts_max: int = TASK_ATTEMPTS_MAX,
    timeout: str | timedelta | None = None,
    priority: int = PRIORITY,
) -> TaskType:
    """A kind of task; raises `Invalid` where it cannot be one."""
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        raise Invalid(problems_of(error)) from None
    if attempts_max < 1 or not 0 <= priority <= PRIORITY_MAX:
        message = f"at least one attempt and a priority from 0 to {PRIORITY_MAX} were expected"
        raise Invalid([Problem("OUT_OF_RANGE", f"{message}, found {attempts_max} and {priority}", (name,))])
    task_parameter, asked = _read_signature(name, run)
    length = None if timeout is None else require_duration(timeout)
    is_async = inspect.iscoroutinefunction(run)
    return TaskType(name, run, asked, task_parameter, is_async, attempts_max, length, priority)


def as_kept(value: Any, place: str) -> Any:
    """A value as JSON keeps it, models and dataclasses as objects; raises `Invalid` for what it cannot keep."""
    try:
        kept = to_jsonable_python(value)
        require_canonical(kept)
    except PydanticSerializationError as error:
        raise Invalid([Problem("WRONG_TYPE", str(error), (place,))]) from None
    except NotCanonical as error:
        raise Invalid([Problem(error.code, str(error), (place, *error.path))]) from None
    return kept


def _read_signature(name: str, run: Function) -> tuple[str | None, InputBinding]:
    parameters = list(inspect.signature(run, eval_str=True).parameters.values())
    if unnamed := [one.name for one in parameters if one.kind not in _BY_NAME]:
        message = f"`{unnamed[0]}` of task `{name}` cannot be given by name; an input is an object"
        raise Invalid([Problem("BAD_VALUE", message, (name, unnamed[0]))])
    task_parameter = next((one.name for one in parameters if _is_task(one)), None)
    inputs = [one for one in parameters if one.name != task_parameter]
    if len(inputs) == 1 and _is_whole(inputs[0].annotation):
        return task_parameter, InputBinding(TypeAdapter(inputs[0].annotation), inputs[0].name)
    return task_parameter, InputBinding(TypeAdapter(_model_of(name, inputs)), None)


def _is_task(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is TaskContext or parameter.name == "task"


def _is_whole(annotation: Any) -> bool:
    """Whether a parameter is the input itself, and not one key of it."""
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and (issubclass(kind, BaseModel | Mapping) or is_dataclass(kind))


def _model_of(name: str, parameters: list[inspect.Parameter]) -> type[BaseModel]:
    # An input that the function does not take is a mistake of the caller, and is refused.
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())
    fields = {one.name: (_type_of(one), _default_of(one)) for one in parameters}
    return create_model(name, __config__=config, **fields)  # type: ignore[no-any-return, call-overload]


def _type_of(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is parameter.empty else parameter.annotation


def _default_of(parameter: inspect.Parameter) -> Any:
    return ... if parameter.default is parameter.empty else parameter.default
