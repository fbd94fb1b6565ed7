"""Where the keys that sign tokens come from: one that was set, or a key set that is read, kept and read again.

A key says by itself which algorithm it is for. A token's own word on that is only ever compared with it.
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
from assent.model.clock import Clock
from assent.model.mutation import Rejection

_log = logging.getLogger(__name__)

KEY_SET_BYTES_MAX: Final = 262_144
FETCH_TIMEOUT_S: Final = 5.0
PUBLIC_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""What a key of a set may be for. Secrets have no place in a set that everybody can read."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and the one algorithm that it is for."""

    algorithm: str
    material: Any


class Keys(Protocol):
    """Finds the key that a token says it was signed with."""

    async def find(self, key_id: str | None) -> Key | Rejection: ...


class OneKey:
    """The key that was set."""

    def __init__(self, text: str, algorithm: str) -> None:
        self._key = Key(algorithm, text)

    async def find(self, key_id: str | None) -> Key | Rejection:
        return self._key


class KeySet:
    """A key set (RFC 7517) at a URL or in a file.

    Read again when it is old, and when a token names a key that is not in it: the issuer may just have changed keys.
    Tokens with made-up keys make nobody read it more often than every `retry`.
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
                if self._is_due(key_id):  # whoever was before us may have read it
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
        """Take the new set; where it cannot be read, the old one is used on."""
        try:
            self._keys = keys_of(await _fetch(self._place))
            self._read_at = self._clock.now()
        except (OSError, ValueError, httpx.HTTPError) as error:
            _log.warning("cannot read the key set", extra={"place": self._place, "error": repr(error)})
        # Only now: whoever comes while it is read waits for it, instead of finding nothing.
        self._tried_at = self._clock.now()


async def _fetch(place: str) -> bytes:
    if "://" not in place:
        return await asyncio.to_thread(Path(place).read_bytes)
    # Without the proxies and credentials of the environment: whoever sets those would choose who signs in.
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
    """The public keys of a set by their ids; one that is alone is also that of tokens without an id."""
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
        return None  # of a kind that we do not know; others of the set may be
    algorithm = read.algorithm_name
    return Key(algorithm, read.key) if algorithm in PUBLIC_ALGORITHMS else None


def keys_from(settings: HttpSettings, clock: Clock) -> Keys | None:
    """What the settings say; nothing where nobody signs in by token."""
    if settings.jwt_key is not None:
        return OneKey(settings.jwt_key, settings.jwt_algorithm)
    if settings.jwks is None:
        return None
    keep, retry = timedelta(seconds=settings.jwks_keep_s), timedelta(seconds=settings.jwks_retry_s)
    return KeySet(settings.jwks, clock, keep=keep, retry=retry)
