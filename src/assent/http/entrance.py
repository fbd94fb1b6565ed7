"""Failed sign-ins, counted by the address they come from: whoever tries keys is told to wait, and nothing is asked.

Many people may share an address. Whoever has signed in before with the same credentials is not held up by others there;
what they may do is asked anew all the same.
"""

import hashlib
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from assent.http.rates import Rates
from assent.http.statuses import status_of
from assent.model.mutation import Rejection

KNOWN_MAX: Final = 10_000
NETWORK_BITS: Final = 64
"""What one subscriber has of IPv6: an address of it is nobody's own."""


class SignInThrottle:
    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def wait_s(self, place: str | None, authorization: str | None) -> int:
        """Zero when somebody may try to sign in."""
        wait_s = self._rates.left_s("", _network(place), "sign_ins")
        return wait_s if wait_s and _digest(authorization) not in self._known else 0

    def passed(self, authorization: str | None) -> None:
        digest = _digest(authorization)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def refused(self, place: str | None, authorization: str | None, why: Rejection) -> None:
        """Counts what is wrong, and what comes without credentials: both cost us an answer. A 503 is our own fault."""
        self._known.pop(_digest(authorization), None)
        if status_of(why.code) in (401, 403):
            self._rates.wait_s("", _network(place), "sign_ins")


def _digest(authorization: str | None) -> bytes:
    """Credentials themselves are kept nowhere."""
    return hashlib.sha256((authorization or "").encode()).digest()


def _network(place: str | None) -> str:
    try:
        address = ip_address(place or "")
    except ValueError:
        return place or "?"
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, NETWORK_BITS), strict=False))
