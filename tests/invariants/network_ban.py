"""Inside, this process may connect to PostgreSQL and to nothing else; a name may not even be looked up."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

_allowed: set[Any] | None = None


class NetworkUsed(AssertionError):
    """Somebody tried to reach the outside."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _allowed is None:
        return
    if event == "socket.connect" and not _is_allowed(arguments[1]):
        raise NetworkUsed(f"connect to {arguments[1]}")
    if event in ("socket.getaddrinfo", "smtplib.connect") and not _is_allowed(arguments[:2]):
        raise NetworkUsed(f"{event} {arguments[:2]}")


# A hook of the interpreter, which nothing that uses sockets gets past; it can be added, and never taken away.
sys.addaudithook(_watch)


def _is_allowed(address: Any) -> bool:
    place = address if isinstance(address, str) else tuple(address[:2])
    return _allowed is not None and place in _allowed


@contextmanager
def only_postgres(url: str) -> Iterator[None]:
    global _allowed  # noqa: PLW0603 - the hook has no other way to know
    parts = urlsplit(url)
    port = parts.port or int(parse_qs(parts.query).get("port", ["5432"])[0])
    folder = parse_qs(parts.query).get("host", [""])[0]
    hosts = (parts.hostname, "127.0.0.1", "::1")
    _allowed = {f"{folder}/.s.PGSQL.{port}", *((host, port) for host in hosts)}
    try:
        yield
    finally:
        _allowed = None
