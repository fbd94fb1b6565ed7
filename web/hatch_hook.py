"""Has the pages for people built before a wheel is made of them."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import build


class WebBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the pages, unless they are built from the sources as they are."""

    def dependencies(self) -> list[str]:
        return [] if build.is_current() or build.has_node() else [build.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build.main()
