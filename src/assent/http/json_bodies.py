"""JSON as this door takes it: UTF-8, each key once, and counted before it is parsed.

Parsing costs by the value and not by the byte: 2 MB of empty lists are 690,000 objects and most of a second, in which
nobody else is served. So brackets and commas outside of texts are counted first, which costs a millisecond a megabyte.
"""

import json
import re
from itertools import accumulate
from typing import Any, Final, Never

from assent.model.canonical import DEPTH_MAX as DATA_DEPTH_MAX
from assent.model.mutation import Refused, Rejection
from assent.model.parse import shown

DEPTH_MAX: Final = DATA_DEPTH_MAX + 16
"""What lies around data takes some levels of its own."""

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_BUT_BRACKETS: Final = bytes(code for code in range(256) if code not in _STEPS)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(body: bytes, elements_max: int) -> Any:
    """What a body says; raises `Refused` for one that is no JSON, or more than is taken."""
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


def _too_many(elements_max: int) -> Refused:
    return Refused(Rejection("REQUEST_TOO_LARGE", f"a request may have {elements_max:,} values"))
