"""The keys that sign tokens: one key of the settings, or a key set that is read, cached and read again.

A key has one algorithm. The algorithm that a token names is only compared with it.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
import jwt
import orjson

from assent.http.settings import HttpSettings
from assent.model.mutation import Rejection
from assent.model.timing import Clock

_log = logging.getLogger(__name__)

KEY_SET_BYTES_MAX: Final = 262_144
FETCH_TIMEOUT_S: Final = 5.0
PUBLIC_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""The algorithms of keys in a set. A public set holds no secrets."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key and its one algorithm."""

    algorithm: str
    material: Any


class Keys(Protocol):
    """Finds the key that signed a token."""

    async def find(self, key_id: str | None) -> Key | Rejection: ...


class OneKey:
    """The key of the settings."""

    def __init__(self, text: str, algorithm: str) -> None:
        self._key = Key(algorithm, text)

    async def find(self, key_id: str | None) -> Key | Rejection:
        return self._key


class KeySet:
    """A key set (RFC 7517) at a URL or in a file.

    It is read again when it is old, and when a token names a key that is not in it: the issuer may have changed keys.
    Tokens with invented keys do not cause a read more often than every `retry`.
    """

    def __init__(self, place: str, clock: Clock, *, keep: timedelta, retry: timedelta) -> None:
        self._place = place
        self._clock = clock
        self._keep = keep
        self._retry = retry
        self._keys: Mapping[str | None, Key] = {}
        self._read_at: datetime | None = None
        self._tried_at: datetime | None = None
        self._reading = asyncio.Lock()

    async def find(self, key_id: str | None) -> Key | Rejection:
        if self._is_due(key_id):
            async with self._reading:
                if self._is_due(key_id):  # a concurrent request may have read it
                    await self._read()
        if self._read_at is None:
            return Rejection("KEYS_UNAVAILABLE", "the keys that sign tokens cannot be read now")
        found = self._keys.get(key_id)
        return found or Rejection("TOKEN_REFUSED", "the token was signed with a key that is not known")

    def _is_due(self, key_id: str | None) -> bool:
        now = self._clock.now()
        if self._tried_at is not None and now - self._tried_at < self._retry:
            return False
        is_old = self._read_at is None or now - self._read_at >= self._keep
        return is_old or key_id not in self._keys

    async def _read(self) -> None:
        """Read the set; keep the old one if that fails."""
        try:
            self._keys = keys_of(await _fetch(self._place))
            self._read_at = self._clock.now()
        except (OSError, ValueError, httpx.HTTPError) as error:
            _log.warning("cannot read the key set", extra={"place": self._place, "error": repr(error)})
        # Only now: a request that arrives during the read waits for it, instead of finding no key.
        self._tried_at = self._clock.now()


async def _fetch(place: str) -> bytes:
    if "://" not in place:
        return await asyncio.to_thread(Path(place).read_bytes)
    # Without the proxies and credentials of the environment: they would decide who can sign in.
    async with (
        httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, trust_env=False) as client,
        client.stream("GET", place) as response,
    ):
        response.raise_for_status()
        found = b""
        async for part in response.aiter_bytes():
            found += part
            if len(found) > KEY_SET_BYTES_MAX:
                raise ValueError(f"expected at most {KEY_SET_BYTES_MAX} bytes")
        return found


def keys_of(text: bytes) -> dict[str | None, Key]:
    """Return the public keys of a set by their ids; a single key is also the key of tokens without an id."""
    read = orjson.loads(text)
    entries = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(entries, list):
        raise ValueError("expected an object with a list under `keys`")  # noqa: TRY004 - it is what was sent
    found: dict[str | None, Key] = {}
    for entry in entries:
        if (key := _key(entry)) is not None:
            found[str(entry["kid"]) if "kid" in entry else None] = key
    if len(found) == 1:
        found[None] = next(iter(found.values()))
    return found


def _key(entry: Any) -> Key | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    try:
        read = jwt.PyJWK(entry)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None  # an unknown kind of key; others of the set may be usable
    algorithm = read.algorithm_name
    return Key(algorithm, read.key) if algorithm in PUBLIC_ALGORITHMS else None


def keys_from(settings: HttpSettings, clock: Clock) -> Keys | None:
    """Return the keys of the settings; None if the server takes no tokens."""
    if settings.jwt_key is not None:
        return OneKey(settings.jwt_key, settings.jwt_algorithm)
    if settings.jwks is None:
        return None
    keep, retry = timedelta(seconds=settings.jwks_keep_s), timedelta(seconds=settings.jwks_retry_s)
    return KeySet(settings.jwks, clock, keep=keep, retry=retry)
