"""The one door for changes of entities: policy, window, lifecycle, rules, versions, audit, events."""

from assent.kernel.mutate import Kernel, Outcome
from assent.kernel.registry import RegisteredAction, Registry

__all__ = ["Kernel", "Outcome", "RegisteredAction", "Registry"]
