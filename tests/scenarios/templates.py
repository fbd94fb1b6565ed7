"""The library's templates, as they are shipped."""

from functools import cache
from pathlib import Path
from typing import Any

from assent import templates
from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.model.workflow import Workflow
from assent.testing.sources import sources_of

LIBRARY = Path(templates.__file__).parent
NAMES = sorted(page.parent.name for page in LIBRARY.glob("*/README.md"))


def read(name: str, file: str) -> Any:
    """One file of a template, as data."""
    return read_source((LIBRARY / name / file).read_bytes(), file).value(())


@cache
def workflow_of(name: str) -> Workflow:
    """What a template compiles to."""
    (workflow,) = compile_sources(sources_of([f"template:{name}"])).workflows
    return workflow
