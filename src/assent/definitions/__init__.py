"""Definitions at run time: published once and for ever, verified when loaded, compiled again when stale."""

from assent.definitions.definition import (
    EVERYBODY,
    Definition,
    DefinitionRef,
    DefinitionVersion,
    Pin,
    Publication,
)
from assent.definitions.drafts import (
    Draft,
    change_draft,
    create_draft,
    discard_draft,
    keep_draft,
    problems_of_draft,
    publish_draft,
    read_draft,
    show_draft,
    tag_of_draft,
)
from assent.definitions.history import archive, list_versions, rollback
from assent.definitions.load import Definitions
from assent.definitions.patches import publish_patch, publish_patches, rebase_patches
from assent.definitions.publish import publish_contract, publish_flow
from assent.definitions.recompile import Move, Recompiled, Repin, recompile

__all__ = [
    "EVERYBODY",
    "Definition",
    "DefinitionRef",
    "DefinitionVersion",
    "Definitions",
    "Draft",
    "Move",
    "Pin",
    "Publication",
    "Recompiled",
    "Repin",
    "archive",
    "change_draft",
    "create_draft",
    "discard_draft",
    "keep_draft",
    "list_versions",
    "problems_of_draft",
    "publish_contract",
    "publish_draft",
    "publish_flow",
    "publish_patch",
    "publish_patches",
    "read_draft",
    "rebase_patches",
    "recompile",
    "rollback",
    "show_draft",
    "tag_of_draft",
]
