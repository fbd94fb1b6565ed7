"""Errors of the store that a person can do something about."""

from uuid import UUID


class StoreError(Exception):
    """The database is not as it must be; the message says what was found and what to do."""


class RolledBack(StoreError):
    """A transaction was rolled back at COMMIT: nothing was changed, and it may be run again."""


class OutcomeUnknown(StoreError):
    """The connection was lost after COMMIT was sent: the transaction may have been committed or not.

    Where `audit_id` is given, the audit entry of that id exists if, and only if, it was committed.
    """

    def __init__(self, org_id: str | None = None, audit_id: UUID | None = None) -> None:
        look_up = (
            f"Look for audit entry {audit_id} of org {org_id}: it is there if it was committed"
            if audit_id is not None
            else "Look for what it would have written before you repeat it"
        )
        super().__init__(f"The connection was lost after COMMIT was sent; the outcome is unknown. {look_up}")
        self.org_id = org_id
        self.audit_id = audit_id

    def copy(self) -> "OutcomeUnknown":
        """Return one of its own for each caller: tracebacks are kept with the object."""
        other = OutcomeUnknown(self.org_id, self.audit_id)
        other.__cause__ = self.__cause__
        return other


class PoolBusy(StoreError):
    """No connection of this process's pool became free in time; nothing was sent to the database."""


class ServerSilent(StoreError):
    """The server did not answer within the deadline of a statement; the connection was dropped."""
