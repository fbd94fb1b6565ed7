"""A real HTTP server for effects to go to: keeps what it received, and answers as a test tells it to."""

import asyncio
import json
import socket
import ssl
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.plain_sql import WAIT_MAX_S
from tests.twin import assert_unseen

CERTIFICATES = Path(__file__).parent / "effects" / "certificates"


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


@dataclass(frozen=True)
class ReceiverReply:
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False
    """Read the request, and close the connection without an answer."""
    wait_for: threading.Event | None = None
    """Read the request, and say nothing until this is set."""
    claim_bytes: int | None = None
    """Say that the body has so many bytes, whatever it has."""


def reply_json(value: Any, status: int = 200, **headers: str) -> ReceiverReply:
    return ReceiverReply(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})


def redirect_to(url: str, status: int = 307) -> ReceiverReply:
    return ReceiverReply(status, b"", {"Location": url})


Answering = Callable[[Received], ReceiverReply]


class Receiver:
    """The server. Replies are given in order; then `otherwise` answers."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self._server = server
        self.port = server.server_port
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.received: list[Received] = []
        self.replies: deque[ReceiverReply] = deque()
        self.otherwise: Answering = lambda _: ReceiverReply()
        self.connections = 0
        self.on_connection: Callable[[], None] = lambda: None
        """Called when somebody has connected, before anything is read."""
        self._lock = threading.Lock()
        self._released = threading.Event()

    def will(self, *replies: ReceiverReply) -> None:
        self.replies.extend(replies)

    def silence(self) -> ReceiverReply:
        """No answer until the test is over."""
        return ReceiverReply(wait_for=self._released)

    @property
    def keys(self) -> Counter[str]:
        return Counter(received.key for received in self.received)

    def take(self, received: Received) -> ReceiverReply:
        with self._lock:
            self.received.append(received)
            return self.replies.popleft() if self.replies else self.otherwise(received)

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def setup(self) -> None:
        super().setup()
        self.receiver.connections += 1
        self.receiver.on_connection()

    def _handle(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # whoever sent it is gone: this is no request
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._reply(self.receiver.take(Received(self.command, self.path, headers, body)))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _reply(self, reply: ReceiverReply) -> None:
        if reply.wait_for is not None:
            reply.wait_for.wait(30)
        if reply.hang_up:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        length = len(reply.body) if reply.claim_bytes is None else reply.claim_bytes
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(reply.body)
        if length != len(reply.body):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Tests look at what was received."""


class ReceiverServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        """Whoever is killed leaves its connections as they are."""


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A server on a port of its own."""
    handler = type("Handler", (_Handler,), {})
    server = ReceiverServer(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(server, "https" if context else "http")
    handler.receiver = receiver  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
        for received in receiver.received:
            assert_unseen(f"{received.path} {received.headers} {received.body!r}")
    finally:
        receiver.close()
        thread.join(10)


async def wait_until_received(receiver: Receiver, number: int) -> None:
    """Return as soon as the receiver has so many requests."""
    async with asyncio.timeout(WAIT_MAX_S):
        while len(receiver.received) < number:  # noqa: ASYNC110 - the receiver is a thread of its own
            await asyncio.sleep(0.01)
