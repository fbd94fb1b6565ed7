"""Server-sent events: the current state of an object, whenever it has changed.

Only the newest state is sent, however many were between; so a stream needs no memory, and a client that reconnects with
`Last-Event-ID` knows at once whether it missed a change. A client that does not read is disconnected.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from assent.http.auth.callers import Caller
from assent.http.auth.cookies import credentials_of
from assent.http.changes import AWAY, Topic, Watched
from assent.http.context import RequestContext, Transaction
from assent.model.mutation import Refused
from assent.people.api_keys import Scope as KeyScope

_log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "text/event-stream"
SEND_WITHIN_S: Final = 10.0
RETRY_MS: Final = 2_000
"""How long a client waits before it reconnects."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """The current state of an object."""

    id: str
    event: str
    data: BaseModel
    is_last: bool = False
    """Whether it never changes again."""
    before: Sequence[tuple[str, str, BaseModel]] = ()
    """Events with an id, a name and data that lead to it, and that are sent before it."""
    has_more: bool = False
    """Whether there are more of these."""

    def text(self) -> str:
        events = (*self.before, (self.id, self.event, self.data))
        return "".join(
            f"id: {id}\nevent: {name}\ndata: {data.model_dump_json()}\n\n" for id, name, data in events
        )


ReadState = Callable[[Transaction], Awaitable[StreamState]]


class EventStream(Response):
    """The states of a topic, until it ends, the client disconnects or the caller may no longer read it."""

    def __init__(
        self, context: RequestContext, topic: Topic, scope: KeyScope, read: ReadState, last_id: str | None
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._context = context
        self._topic = topic
        self._scope = scope
        self._read = read
        self._last_id = last_id
        self._heartbeat_s = context.services.settings.stream_heartbeat_s
        self._open_s = context.services.settings.stream_s_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        whose = f"{self._context.org_id} {self._context.caller.key}"
        with self._context.services.changes.watching(self._topic, whose) as watched:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            sending = asyncio.create_task(self._send(watched, send), name="stream")
            gone = asyncio.create_task(_until_gone(receive), name="stream client")
            try:
                await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (sending, gone):
                    task.cancel()
                await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send(self, watched: Watched, send: Send) -> None:
        try:
            async with aclosing(self._texts(watched)) as texts:
                async for text in texts:
                    async with asyncio.timeout(SEND_WITHIN_S):
                        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        except TimeoutError:
            _log.warning(
                "a stream was dropped: the client does not read", extra={"caller": self._context.caller.key}
            )
            return
        except AWAY as error:
            _log.warning("a stream ended: the database is away", extra={"error": type(error).__name__})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _texts(self, watched: Watched) -> AsyncGenerator[str]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._open_s
        yield f"retry: {RETRY_MS}\n\n"
        while not self._context.services.changes.stopped and loop.time() < ends_at:
            seen = watched.seen
            state = await self._allowed_state()
            if state is None:
                return
            if state.id != self._last_id:
                self._last_id = state.id
                yield state.text()
            if state.has_more:
                continue
            if state.is_last:
                return
            wait_s = min(self._heartbeat_s, max(0.0, ends_at - loop.time()))
            if not await watched.change(seen, wait_s):
                yield ": \n\n"  # a comment, as a heartbeat

    async def _allowed_state(self) -> StreamState | None:
        """Return the current state; None if the caller may no longer read it: rights, tokens and keys can end."""
        request, services = self._context.request, self._context.services
        caller = await services.sign_in.caller(credentials_of(request), self._context.caller.place)
        if not isinstance(caller, Caller) or caller.may_use(self._scope) is not None:
            return None
        try:
            return await replace(self._context, caller=caller).read(self._read)
        except Refused:
            return None


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
