"""Definitions at run time: published once and for ever, verified when loaded, compiled again when stale."""

from assent.runtime.definitions.definition import (
    EVERYBODY,
    Definition,
    DefinitionVersion,
    Pin,
    Publication,
    Wanted,
)
from assent.runtime.definitions.load import Definitions
from assent.runtime.definitions.patches import publish_patch, publish_patches, rebase_patches
from assent.runtime.definitions.publish import publish_contract, publish_flow

__all__ = [
    "EVERYBODY",
    "Definition",
    "DefinitionVersion",
    "Definitions",
    "Pin",
    "Publication",
    "Wanted",
    "publish_contract",
    "publish_flow",
    "publish_patch",
    "publish_patches",
    "rebase_patches",
]
