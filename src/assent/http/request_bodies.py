"""Bodies of requests: read up to a limit of bytes, and parsed as JSON in UTF-8 with each key once.

Parsing costs by the value and not by the byte: 2 MB of empty lists are 690,000 objects, and block the event loop for
most of a second. So brackets and commas outside of texts are counted first, which costs a millisecond a megabyte.
"""

import json
import re
from itertools import accumulate
from typing import Any, Final, Never

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from assent.http.problems import RefusedByHttp
from assent.model.canonical import DEPTH_MAX as DATA_DEPTH_MAX
from assent.model.mutation import Refused, Rejection
from assent.model.parse import shown

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
