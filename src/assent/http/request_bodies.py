"""Bodies of requests: read up to a limit of bytes, and parsed as JSON in UTF-8 with each key once.

Parsing costs by the value and not by the byte: 2 MB of empty lists are 690,000 objects, and block the event loop for
most of a second. So brackets and commas outside of texts are counted first, which costs a millisecond a megabyte.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final, Never

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from assent.documents.files import OCTETS, NewFile
from assent.http.problems import RefusedByHttp
from assent.model.canonical import DEPTH_MAX as DATA_DEPTH_MAX
from assent.model.mutation import Refused, Rejection
from assent.model.parse import shown

MORE_TIME: Final = "assent.more_time"
"""Where the scope of a request has the function that gives its body the time limit of a body once more."""
TYPE_LENGTH_MAX: Final = 200
BYTES_PER_BODY_TIME: Final = 65_536
DEPTH_MAX: Final = DATA_DEPTH_MAX + 16
"""The levels of data, and of the objects around it."""

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_BUT_BRACKETS: Final = bytes(code for code in range(256) if code not in _STEPS)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Read a body into the request and return it; raise `RefusedByHttp` if it is larger than `bytes_max`."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and (len(announced) > len(str(bytes_max)) or int(announced) > bytes_max):
        raise _too_large(bytes_max)
    found = bytearray()
    try:
        async for part in request.stream():
            found += part
            if len(found) > bytes_max:
                raise _too_large(bytes_max)
    except ClientDisconnect:
        raise HTTPException(400, "the caller closed the connection before the body was complete") from None
    request._body = bytes(found)
    return request._body


def file_of(request: Request, name: str | None) -> NewFile:
    """Return what a request says of the file that is its body."""
    return NewFile(name, request.headers.get("content-type", "")[:TYPE_LENGTH_MAX].strip() or OCTETS)


@contextmanager
def closing_refused() -> Iterator[None]:
    """Have a refusal close the connection: the rest of the file is not read."""
    try:
        yield
    except RefusedByHttp:
        raise
    except Refused as refused:
        raise RefusedByHttp(refused.rejection, connection="close") from refused


async def file_parts(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    """Yield a body as it comes; raise `Refused` before a byte is read if it announces more than `bytes_max`.

    A connection of our server gives a body a time for each part of a size, so that a large file on a slow line comes
    through, and a client that sends a byte a second does not.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > bytes_max:
        raise Refused(Rejection("FILE_TOO_LARGE", f"a file may have {bytes_max:,} bytes", ("content",)))
    extend: Callable[[], None] = request.scope.get(MORE_TIME, _no_more_time)
    taken = 0
    try:
        async for part in request.stream():
            taken += len(part)
            if taken >= BYTES_PER_BODY_TIME:
                taken = 0
                extend()
            yield part
    except ClientDisconnect:
        raise HTTPException(400, "the caller closed the connection before the file was complete") from None


def _no_more_time() -> None:
    """Do nothing: another server has times of its own."""


def is_json(request: Request) -> bool:
    """Return whether FastAPI takes a body for JSON; the route's own shape refuses every other body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and (kind == "application/json" or kind.endswith("+json"))


def read_json(body: bytes, elements_max: int) -> Any:
    """Return the value of a body; raise `Refused` if it is not JSON or has more values than `elements_max`."""
    _require_few(body, elements_max)
    try:
        found = _DECODER.decode(body.decode("utf-8"))
        if _SURROGATE.search(body):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise _bad("the body is not JSON in UTF-8") from None
    except UnicodeEncodeError:
        raise _bad("the body holds half of a character: a surrogate without the other") from None
    except (ValueError, RecursionError):
        raise _bad("the body is not JSON") from None
    return found


def _require_few(body: bytes, elements_max: int) -> None:
    # A pair of backslashes escapes nothing but itself; after it, a backslash before a quote keeps the text open.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if plain.count(b'"') > 4 * elements_max:  # of each element at most a key and a value are texts
        raise _too_many(elements_max)
    outside = b"".join(plain.split(b'"')[::2])
    if outside.count(b",") + outside.count(b"[") + outside.count(b"{") > elements_max:
        raise _too_many(elements_max)
    brackets = outside.translate(None, _BUT_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEPTH_MAX:
        raise _bad(f"the body is nested deeper than {DEPTH_MAX} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _bad(f"the body has the key {shown(twice)} twice in one object")
    return found


def _refuse_constant(text: str) -> Never:
    raise _bad(f"the body is not JSON: {text} is no number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)


def _bad(message: str) -> Refused:
    return Refused(Rejection("BAD_JSON", message))


def _too_large(bytes_max: int) -> RefusedByHttp:
    rejection = Rejection("REQUEST_TOO_LARGE", f"a request to this route may have {bytes_max:,} bytes")
    return RefusedByHttp(rejection, connection="close")


def _too_many(elements_max: int) -> Refused:
    return Refused(Rejection("REQUEST_TOO_LARGE", f"a request may have {elements_max:,} values"))
