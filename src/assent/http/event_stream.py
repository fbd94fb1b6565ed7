"""Server-sent events: what something is now, whenever it has changed.

Only the newest state is sent, however many were between; so a stream needs no memory, and one that comes back with
`Last-Event-ID` hears at once whether it missed something. Whoever does not read is dropped.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from assent.http.callers import Caller
from assent.http.changes import AWAY, Topic, Watched
from assent.http.desk import RequestContext
from assent.http.scopes import Scope as KeyScope
from assent.model.mutation import Refused

_log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "text/event-stream"
SEND_WITHIN_S: Final = 10.0
RETRY_MS: Final = 2_000
"""When a client that lost us comes back."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What something is now."""

    id: str
    event: str
    data: BaseModel
    is_last: bool = False
    """Whether it never changes again."""

    def text(self) -> str:
        return f"id: {self.id}\nevent: {self.event}\ndata: {self.data.model_dump_json()}\n\n"


Read = Callable[[RequestContext], Awaitable[StreamState]]


class EventStream(Response):
    """The states of a topic, one after the other, until it ends, the caller goes or may not see it any more."""

    def __init__(
        self, desk: RequestContext, topic: Topic, scope: KeyScope, read: Read, last_id: str | None
    ) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._desk = desk
        self._topic = topic
        self._scope = scope
        self._read = read
        self._last_id = last_id
        self._heartbeat_s = desk.house.settings.stream_heartbeat_s
        self._open_s = desk.house.settings.stream_s_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        whose = f"{self._desk.org_id} {self._desk.caller.key}"
        with self._desk.house.changes.watching(self._topic, whose) as watched:
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
            _log.warning("a stream was dropped: nobody reads it", extra={"caller": self._desk.caller.key})
            return
        except AWAY as error:
            _log.warning("a stream ended: the database is away", extra={"error": type(error).__name__})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _texts(self, watched: Watched) -> AsyncGenerator[str]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._open_s
        yield f"retry: {RETRY_MS}\n\n"
        while not self._desk.house.changes.stopped and loop.time() < ends_at:
            seen = watched.seen
            state = await self._allowed_state()
            if state is None:
                return
            if state.id != self._last_id:
                self._last_id = state.id
                yield state.text()
            if state.is_last:
                return
            wait_s = min(self._heartbeat_s, max(0.0, ends_at - loop.time()))
            if not await watched.change(seen, wait_s):
                yield ": \n\n"  # a comment: we are still here

    async def _allowed_state(self) -> StreamState | None:
        """What it is now, for whoever may still see it: rights, tokens and keys may have ended meanwhile."""
        request, house = self._desk.request, self._desk.house
        caller = await house.sign_in.caller(request.headers.get("authorization"), self._desk.caller.place)
        if not isinstance(caller, Caller) or caller.may_use(self._scope) is not None:
            return None
        try:
            return await self._read(replace(self._desk, caller=caller))
        except Refused:
            return None


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
