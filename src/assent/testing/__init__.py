"""A test kit for applications: a sandbox with a clock to move, and scenarios that people write in YAML."""

from assent.testing.databases import START
from assent.testing.sandbox import Sandbox

__all__ = ["START", "Sandbox"]
