"""A kind of task as an application declares it: a function or a class with hooks, its input, its limits."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import timedelta
from typing import Any, Final, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_jsonable_python

from assent.model.canonical import NotCanonical, canonical_hash, require_canonical
from assent.model.job import (
    PRIORITY,
    PRIORITY_MAX,
    RATE_KEY_CHARACTERS_MAX,
    TASK_ATTEMPTS_MAX,
    RateLimit,
    Submittable,
    Throttle,
    require_rate_limit,
    require_resources,
)
from assent.model.parse import problems_of, shown
from assent.model.problems import Invalid, Problem
from assent.model.terms import DottedName
from assent.model.timing import require_duration
from assent.tasks.context import TaskContext
from assent.tasks.errors import RetryOn, is_transient
from assent.tasks.outcomes import TaskError

Function = Callable[..., Any]

_NAME: Final = TypeAdapter(DottedName)
CLUSTER: Final = "cluster"
"""The resource that tasks of the cluster use: only workers that reach the cluster claim them."""
ON_START: Final = "on_start"
ON_RESUME: Final = "on_resume"
ON_ERROR: Final = "on_error"
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class InputBinding:
    """How a function takes its input: as a whole, under one name, or key by key."""

    adapter: TypeAdapter[Any]
    whole: str | None

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the input as the function's arguments; raise pydantic's `ValidationError`."""
        found = self.adapter.validate_python(given)
        # Not dict(found): that asks pydantic for each model's extra and private fields, of which there are none.
        return {self.whole: found} if self.whole is not None else dict(vars(found))


@dataclass(frozen=True, slots=True)
class Hook:
    """A function of a task, and which of the arguments it takes."""

    run: Function
    names: frozenset[str]
    """The parts of the input, or the input as a whole."""
    task_parameter: str | None
    """The parameter that gets the `TaskContext`, where there is one."""
    error_parameter: str | None
    """The parameter that gets the `TaskError`, where there is one."""
    is_async: bool


@dataclass(frozen=True, slots=True)
class TaskType:
    name: str
    asked: InputBinding
    on_start: Hook
    on_resume: Hook
    """Runs once the subtasks have ended, where all went well; without one of its own, `on_start`."""
    on_error: Hook | None
    """Runs once the subtasks have ended, where one failed; without one, the task fails with it."""
    retry_on: RetryOn
    attempts_max: int = TASK_ATTEMPTS_MAX
    timeout: timedelta | None = None
    """How long one attempt may take."""
    priority: int = PRIORITY
    resources: tuple[str, ...] = ()
    """What each of its attempts uses."""
    rate_limit: RateLimit | None = None
    place: str = ""
    """Where its function is declared: `shop.reports:build`."""
    on_cluster: bool = False
    """Whether its function runs on the cluster, and not in the worker."""

    @property
    def is_limited(self) -> bool:
        """Whether it says something about when its tasks may run."""
        return bool(self.resources or self.rate_limit)

    @property
    def is_interruptible(self) -> bool:
        """Whether all of it can be interrupted: a thread cannot, a process of the cluster can."""
        return self.on_cluster or all(
            hook.is_async for hook in (self.on_start, self.on_resume, self.on_error) if hook is not None
        )

    def check(self, given: Any) -> Mapping[str, Any]:
        """Return an input as it is kept; raise `Invalid` with every problem."""
        kept = as_kept(given if given is not None else {}, "input")
        if not isinstance(kept, Mapping):
            raise Invalid([Problem("WRONG_TYPE", f"an object was expected, found {shown(kept)}", ("input",))])
        try:
            self.asked.arguments(kept)
        except ValidationError as error:
            raise Invalid([problem.under("input") for problem in problems_of(error)]) from None
        return kept

    def submittable(self, given: Any) -> Submittable:
        kept = self.check(given)
        return Submittable(kept, self.priority, self.attempts_max, self.throttle(kept))

    def throttle(
        self, given: Mapping[str, Any], resources: tuple[str, ...] = (), rate_limit: RateLimit | None = None
    ) -> Throttle | None:
        """Return what limits when a task with this input may run, also by its submission; None for nothing."""
        limit = self.rate_limit or rate_limit
        names = require_resources((*self.resources, *resources))
        if limit is None:
            return Throttle(names) if names else None
        return Throttle(names, _rate_key(self.name, limit, given), limit.max, limit.period)

    def arguments(
        self, hook: Hook, task: TaskContext, given: Mapping[str, Any], error: TaskError | None = None
    ) -> dict[str, Any]:
        """Return the arguments of one of its functions; raise pydantic's `ValidationError`."""
        found = self.asked.arguments(given)
        if len(hook.names) < len(found):
            found = {name: value for name, value in found.items() if name in hook.names}
        if hook.task_parameter is not None:
            found[hook.task_parameter] = task
        if hook.error_parameter is not None:
            found[hook.error_parameter] = error
        return found


def declare(  # noqa: PLR0913
    name: str,
    run: Function,
    *,
    attempts_max: int = TASK_ATTEMPTS_MAX,
    timeout: str | timedelta | None = None,
    priority: int = PRIORITY,
    retry_on: RetryOn | None = None,
    resources: Iterable[str] = (),
    rate_limit: RateLimit | None = None,
    cluster: bool = False,
) -> TaskType:
    """Return a kind of task, of a function or of a class with hooks; raise `Invalid` where it cannot be one."""
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        raise Invalid(problems_of(error)) from None
    if attempts_max < 1 or not 0 <= priority <= PRIORITY_MAX:
        message = f"at least one attempt and a priority from 0 to {PRIORITY_MAX} were expected"
        raise Invalid([Problem("OUT_OF_RANGE", f"{message}, found {attempts_max} and {priority}", (name,))])
    length = None if timeout is None else require_duration(timeout)
    asked, hooks = _read_class(name, run) if inspect.isclass(run) else _read_function(name, run)
    # A function was always tried again, whatever it raised; a class says in its outcome what is for good.
    retried = retry_on or (is_transient if inspect.isclass(run) else Exception)
    used = require_resources((*resources, CLUSTER) if cluster else resources)
    place = f"{run.__module__}:{run.__qualname__}"
    if cluster and ("<" in place or run.__module__ == "__main__"):
        message = f"a task of the cluster is declared in a module that its nodes can import, found `{place}`"
        raise Invalid([Problem("BAD_VALUE", message, (name, "cluster"))])
    limit = require_rate_limit(rate_limit, on_type=True) if rate_limit is not None else None
    return TaskType(name, asked, *hooks, retried, attempts_max, length, priority, used, limit, place, cluster)


def _rate_key(name: str, limit: RateLimit, given: Mapping[str, Any]) -> str:
    """Return what the starts of a task are counted under."""
    if limit.by is None:
        return limit.key or name
    value = given.get(limit.by)
    text = (
        value if isinstance(value, str) and len(value) <= RATE_KEY_CHARACTERS_MAX else canonical_hash(value)
    )
    return f"{name}: {text}"


def as_kept(value: Any, place: str) -> Any:
    """Return a value as JSON keeps it, models and dataclasses as objects; raise `Invalid` for what it cannot keep."""
    try:
        kept = to_jsonable_python(value)
        require_canonical(kept)
    except PydanticSerializationError as error:
        raise Invalid([Problem("WRONG_TYPE", str(error), (place,))]) from None
    except NotCanonical as error:
        raise Invalid([Problem(error.code, str(error), (place, *error.path))]) from None
    return kept


Hooks = tuple[Hook, Hook, Hook | None]


def _read_function(name: str, run: Function) -> tuple[InputBinding, Hooks]:
    hook, asked = _read_signature(name, run, run)
    return asked, (hook, hook, None)


def _read_class(name: str, declared: type) -> tuple[InputBinding, Hooks]:
    """Read the hooks of a class, of which each attempt makes one object; `on_start` says what the input is."""
    if not callable(getattr(declared, ON_START, None)):
        message = f"class `{declared.__name__}` of task `{name}` has no `{ON_START}`"
        raise Invalid([Problem("BAD_VALUE", message, (name,))])
    start, asked = _read_signature(name, *_method(declared, ON_START))
    resume = _read_hook(name, declared, ON_RESUME, start.names)
    return asked, (start, resume or start, _read_hook(name, declared, ON_ERROR, start.names))


def _read_hook(name: str, declared: type, hook_name: str, known: frozenset[str]) -> Hook | None:
    if not callable(getattr(declared, hook_name, None)):
        return None
    hook, _ = _read_signature(name, *_method(declared, hook_name), takes_error=hook_name == ON_ERROR)
    if unknown := sorted(hook.names - known):
        message = f"`{hook_name}` of task `{name}` takes `{unknown[0]}`, which `{ON_START}` does not"
        raise Invalid([Problem("BAD_VALUE", message, (name, hook_name, unknown[0]))])
    return hook


def _method(declared: type, hook_name: str) -> tuple[Function, Function]:
    """Return a method as a function without `self`, and as one whose signature can be read."""
    method: Function = getattr(declared, hook_name)

    def run(**arguments: Any) -> Any:
        return getattr(declared(), hook_name)(**arguments)

    return run, method


def _read_signature(
    name: str, run: Function, declared: Function, *, takes_error: bool = False
) -> tuple[Hook, InputBinding]:
    parameters = list(inspect.signature(declared, eval_str=True).parameters.values())
    if run is not declared:
        parameters = parameters[1:]  # self
    if unnamed := [one.name for one in parameters if one.kind not in _BY_NAME]:
        message = f"`{unnamed[0]}` of task `{name}` cannot be given by name; an input is an object"
        raise Invalid([Problem("BAD_VALUE", message, (name, unnamed[0]))])
    task_parameter = next((one.name for one in parameters if _is_task(one)), None)
    error_parameter = next((one.name for one in parameters if takes_error and _is_error(one)), None)
    inputs = [one for one in parameters if one.name not in {task_parameter, error_parameter}]
    names = frozenset(one.name for one in inputs)
    hook = Hook(run, names, task_parameter, error_parameter, inspect.iscoroutinefunction(declared))
    if len(inputs) == 1 and _is_whole(inputs[0].annotation):
        return hook, InputBinding(TypeAdapter(inputs[0].annotation), inputs[0].name)
    return hook, InputBinding(TypeAdapter(_model_of(name, inputs)), None)


def _is_task(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is TaskContext or parameter.name == "task"


def _is_error(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is TaskError or parameter.name == "error"


def _is_whole(annotation: Any) -> bool:
    """Return whether a parameter is the input itself, and not one key of it."""
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
