"""Makes decisions true: one batch, one transaction, whoever asks."""

from assent.runtime.runtime import Operation, Runtime
from assent.runtime.view import InstanceView, Waiting

__all__ = ["InstanceView", "Operation", "Runtime", "Waiting"]
