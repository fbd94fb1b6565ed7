"""Write `assent/runtime/sync_commands.py` from the commands of `OrgRuntime`: `make sync`."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import assent.runtime.sync_runtime as beside
from assent.runtime.runtime import OrgRuntime
from assent.runtime.submitted_task import SubmittedTask

FILE: Final = Path(str(beside.__file__)).with_name("sync_commands.py")
BLOCKING: Final = "blocking"
WAYS: Final = {SubmittedTask: "blocking_submission", list[SubmittedTask]: "blocking_submissions"}
"""What makes commands block whose results are not the same for threads, by what they return."""
_HEAD: Final = '''"""The commands that block, by noun: each is the asynchronous one of the same name, waited for.

Written by `make sync` from the commands of `OrgRuntime`; a test compares.
"""
'''


def nouns() -> dict[str, type[Any]]:
    """Return the commands of an org by noun, such as `approvals`."""
    bound: Any = OrgRuntime.__new__(OrgRuntime)
    bound.__init__(None)
    found = {name: type(getattr(bound, name)) for name in OrgRuntime.__slots__}
    return {name: kind for name, kind in sorted(found.items()) if kind.__name__.endswith("Commands")}


def commands(kind: type[Any]) -> list[str]:
    """Return the public commands of a noun, in the order of its file."""
    return [
        name
        for name, value in vars(kind).items()
        if not name.startswith("_") and inspect.iscoroutinefunction(value)
    ]


def text() -> str:
    """Return the text of the module."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    modules: dict[str, list[str]] = {}
    for kind in nouns().values():
        modules.setdefault(kind.__module__, []).append(kind.__name__)
    modules["assent.runtime.blocking"] = ["RunCommand", "SyncCommands", *sorted({*WAYS.values(), BLOCKING})]
    for module, names in sorted(modules.items()):
        line = f"from {module} import {', '.join(sorted(names))}"
        if len(line) <= 110:
            yield line
        else:
            yield f"from {module} import ("
            yield from (f"    {name}," for name in sorted(names))
            yield ")"
    for kind in nouns().values():
        yield f"\n\nclass Sync{kind.__name__}(SyncCommands):"
        yield f'    """{(kind.__doc__ or "").splitlines()[0]}"""\n'
        yield from (f"    {name} = {_way(kind, name)}({kind.__name__}.{name})" for name in commands(kind))
    yield "\n\nclass SyncNouns:"
    yield '    """The commands of an org by noun."""\n'
    yield "    def __init__(self, run: RunCommand) -> None:"
    for noun, kind in nouns().items():
        yield f'        self.{noun} = Sync{kind.__name__}(run, "{noun}")'
    yield ""


def _way(kind: type[Any], name: str) -> str:
    """Return what makes a command block: one that submits returns what blocks too."""
    return WAYS.get(inspect.signature(getattr(kind, name)).return_annotation, BLOCKING)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
