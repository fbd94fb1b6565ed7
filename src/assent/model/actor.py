"""Who acts: a user, a service account, or the system itself."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

ActorKind = Literal["user", "service_account", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts, with the roles and capabilities that were theirs when they signed in."""

    id: str
    kind: ActorKind = "user"
    roles: frozenset[str] = field(default=frozenset())
    capabilities: frozenset[str] = field(default=frozenset())

    def has_role(self, roles: Iterable[str]) -> bool:
        return not self.roles.isdisjoint(roles)

    def can(self, capability: str) -> bool:
        """Whether a capability such as `invoice:update` is held, itself or through `invoice:*` or `*`."""
        if capability in self.capabilities or "*" in self.capabilities:
            return True
        parts = capability.split(":")
        return any(":".join((*parts[:end], "*")) in self.capabilities for end in range(1, len(parts)))


SYSTEM: Final = Actor("system", kind="system", capabilities=frozenset({"*"}))
"""The engine itself; its acts are audited like everybody's."""
