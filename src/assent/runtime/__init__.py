"""Makes decisions true: one batch, one transaction, for every caller."""

from assent.runtime.core import Operation
from assent.runtime.runtime import OrgRuntime, Runtime
from assent.runtime.views import InstanceView, Waiting

__all__ = ["InstanceView", "Operation", "OrgRuntime", "Runtime", "Waiting"]
