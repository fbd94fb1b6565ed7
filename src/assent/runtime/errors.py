"""What can go wrong while an instance advances, besides being refused."""

from collections.abc import Mapping
from uuid import UUID

import asyncpg

from assent.model.mutation import Refused, Rejection


class StepFailed(Exception):
    """A step raised: the attempt is rolled back with everything it did, and will be tried again (D10)."""

    def __init__(self, node_id: str, error: Exception) -> None:
        super().__init__(f"{node_id}: {type(error).__name__}: {error}")
        self.node_id = node_id
        self.error = error


class CommandsRefused(Refused):
    """Commands of a batch are refused for what they led to: the batch is rolled back, with everything it did."""

    def __init__(self, refusals: Mapping[UUID, Rejection]) -> None:
        super().__init__(next(iter(refusals.values())))
        self.refusals = refusals
        """The id of each refused command → why."""


class CallsApplication(Exception):
    """A step calls a function of the application, which may take long: other orgs are not to wait for it."""


class InstanceBusy(asyncpg.SerializationError):
    """Another transaction has locked the instance of an entity that a step wants to change.

    The event is postponed and loses no attempt (D28). It is a serialization error, so that a person's command is
    simply run again.
    """


class ReceiptTaken(Exception):
    """A step that the projection says is next has its receipt already: the projection is behind its steps."""

    def __init__(self, instance_id: object, node_id: str) -> None:
        super().__init__(f"instance {instance_id} has done {node_id} before; its projection must be rebuilt")
        self.instance_id = instance_id
        self.node_id = node_id
