"""How an asynchronous command becomes one that blocks, with the same parameters and the same result."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from assent.runtime.runtime import OrgRuntime

P = ParamSpec("P")
R = TypeVar("R")

RunCommand: TypeAlias = "Callable[[Callable[[OrgRuntime], Coroutine[Any, Any, Any]]], Any]"
"""Runs what a function begins on the commands of an org, and waits for its result."""


class SyncCommands:
    """The commands of one noun, each waiting for its result."""

    def __init__(self, run: RunCommand, noun: str) -> None:
        self._run = run
        self._noun = noun


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that waits for what the asynchronous one returns."""

    @wraps(method)
    def command(commands: SyncCommands, /, *args: P.args, **kwargs: P.kwargs) -> R:
        noun = commands._noun
        result: R = commands._run(lambda org: method(getattr(org, noun), *args, **kwargs))
        return result

    return command
