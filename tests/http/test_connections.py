"""Connections: those that say nothing are closed, those that are too many are refused, and answers leave at once."""

import socket

import pytest

from assent.http.server import listen
from tests.http.callers import SETTINGS
from tests.http.doors import serving

ASK = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WAIT_S = 20


def connected(place) -> socket.socket:
    return socket.create_connection(place, timeout=WAIT_S)


def answer(connection: socket.socket, request: bytes = ASK) -> bytes:
    connection.sendall(request)
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65_536)
        if not part:
            break
        found += part
    return found


def is_closed(connection: socket.socket) -> bool:
    """Waits until the other side has closed; what it says before that does not count."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def is_over(connection: socket.socket, letter: int) -> bool:
    """Whether the other side has gone, a moment after one letter more."""
    try:
        connection.sendall(bytes([letter]))
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_an_accepted_connection_sends_at_once():
    with listen("127.0.0.1", 0) as listening, connected(listening.getsockname()[:2]):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"G",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /api/keys HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 999,
    ],
    ids=["nothing", "a letter", "half a head", "a long header"],
)
def test_a_connection_whose_head_does_not_come_is_closed(database_url, said):
    with serving(database_url, SETTINGS.replace(head_timeout_s=1)) as place, connected(place) as slow:
        slow.sendall(said)
        assert is_closed(slow)


def test_a_head_that_comes_letter_by_letter_has_no_more_time(database_url):
    with serving(database_url, SETTINGS.replace(head_timeout_s=1)) as place, connected(place) as slow:
        slow.settimeout(0.2)
        assert any(is_over(slow, letter) for letter in ASK[:-2])


def test_the_second_request_of_a_connection_has_its_own_time(database_url):
    with serving(database_url, SETTINGS.replace(head_timeout_s=1)) as place, connected(place) as kept:
        assert answer(kept).startswith(b"HTTP/1.1 200")
        kept.sendall(ASK[:10])
        assert is_closed(kept)


def test_a_body_that_does_not_come_is_not_waited_for(database_url):
    head = b"POST /api/entities/expense HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"
    with serving(database_url, SETTINGS.replace(body_timeout_s=1)) as place, connected(place) as slow:
        assert answer(slow, head).startswith(b"HTTP/1.1 401")
        assert is_closed(slow)


def test_slow_connections_make_room_for_those_who_ask(database_url):
    with serving(database_url, SETTINGS.replace(connections_max=20)) as place:
        slow = [connected(place) for _ in range(60)]
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        with connected(place) as honest:
            assert answer(honest).startswith(b"HTTP/1.1 200")
        for connection in slow:
            connection.close()


def test_when_all_are_busy_one_more_is_told_to_wait(database_url):
    with serving(database_url, SETTINGS.replace(connections_max=3)) as place:
        head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n"
        busy = [connected(place) for _ in range(3)]
        for connection in busy:
            answer(connection, head)  # it is answered, and the body is still to come
        with connected(place) as late:
            assert answer(late).startswith(b"HTTP/1.1 503")
            assert is_closed(late)
        for connection in busy:
            connection.close()
