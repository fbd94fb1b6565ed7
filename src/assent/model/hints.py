"""Hints for names that are not known: the one that may have been meant.

Comparing costs by the length of both names and the number that is known. What a caller can make long is not compared.
"""

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice
from typing import Final

NAME_LENGTH_MAX: Final = 64
KNOWN_MAX: Final = 200


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that is most like this one, if one is."""
    if len(name) > NAME_LENGTH_MAX:
        return None
    near = get_close_matches(name, list(islice(known, KNOWN_MAX)), n=1)
    return near[0] if near else None
