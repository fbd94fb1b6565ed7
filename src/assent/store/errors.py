"""Errors of the store that a person can do something about."""


class StoreError(Exception):
    """The database is not as it must be; the message says what was found and what to do."""
