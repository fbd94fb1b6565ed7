"""Replies to callers who may not read an object, or no longer may.

Each noun's module has one function that reads its object and raises the refusal of the object's own GET. A command that
is allowed to a caller who may not read its object gets an empty reply; so does a repeat of a kept reply.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from assent.http.context import Transaction
from assent.http.replies import Reply, T_co
from assent.model.mutation import Refused

ReadObject = Callable[[Transaction, str], Awaitable[object]]
"""Reads an object by its id; raises `Refused` if the caller may not."""


async def reply_if_readable(showing: Awaitable[Reply[T_co]], **headers: str) -> Reply[T_co]:
    """Return the reply with an object after a command, or 204 if the caller may not read the object."""
    try:
        return await showing
    except Refused:
        return Reply(204, "", headers)


async def show_again(readers: Mapping[str, ReadObject], tx: Transaction, kept: Reply[Any]) -> Reply[Any]:
    """Return a kept reply, or 204 if the caller may no longer read an object that it shows."""
    try:
        for noun, object_id in kept.about:
            await readers[noun](tx, object_id)
    except Refused:
        return Reply(204, "", {name: kept.headers[name] for name in kept.headers if name != "etag"})
    return kept
