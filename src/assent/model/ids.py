"""Identities: UUIDv7 ids that sort by time, and the keys that make things happen once."""

import hashlib
import os
from datetime import datetime
from random import Random
from threading import Lock
from uuid import UUID

from assent.model.canonical import canonical_hash


class IdSource:
    """Makes UUIDv7 ids (RFC 9562) from a given time, strictly increasing within one source.

    The 12 bits after the timestamp count within a millisecond; when they overflow the source borrows from the
    next millisecond, so ids stay ordered even when a batch makes thousands at one instant.
    """

    def __init__(self) -> None:
        self._last = 0
        self._lock = Lock()
        # Ids must be distinct, not secret; asking the kernel for each would cost more than all the rest.
        self._random = Random(os.urandom(32))  # noqa: S311
        os.register_at_fork(after_in_child=self._reseed)

    def _reseed(self) -> None:
        self._random.seed(os.urandom(32))

    def new(self, now: datetime) -> UUID:
        stamp = int(now.timestamp() * 1000) << 12
        with self._lock:
            self._last = max(self._last + 1, stamp)
            ticks, random = self._last, self._random.getrandbits(62)
        millis, counter = ticks >> 12, ticks & 0xFFF
        return UUID(int=(millis & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | random)


_process_source = IdSource()


def new_id(now: datetime) -> UUID:
    """A fresh UUIDv7 for this process, at `now`."""
    return _process_source.new(now)


def step_key(instance_id: UUID | str, node_id: str, token_id: str, entity_version: int) -> str:
    """WF-02: one step per instance, node, token and entity version."""
    return _digest(str(instance_id), node_id, token_id, str(entity_version))


def join_key(instance_id: UUID, join_node_id: str, entity_version: int, epoch: str) -> str:
    """WF-16: a join fires once per epoch, which is the id of the token that was split, generations included."""
    return _digest(str(instance_id), join_node_id, str(entity_version), "join", epoch)


def event_key(instance_id: UUID, event_type: str, payload: object, entity_version: int) -> str:
    """WF-11 for the engine's outbox."""
    return _digest(str(instance_id), event_type, canonical_hash(payload), str(entity_version))


def effect_key(key_of_step: str, effect_type: str, content: object) -> str:
    """WF-11 for the side-effect outbox.

    It comes from the key of the step (WF-02), never from ids that are made while the step runs: a step that runs again
    after a restore sends under the key that the receiver knows.
    """
    return _digest(key_of_step, effect_type, canonical_hash(content))


def derived_id(kind: str, key_of_step: str) -> UUID:
    """Return the id (UUIDv8) of what a step makes once: the same whenever the step runs again after a restore."""
    number = int(_digest(kind, key_of_step)[:32], 16)
    return UUID(int=number & ~(0xF << 76) & ~(0b11 << 62) | 0x8 << 76 | 0b10 << 62)


def _digest(*parts: str) -> str:
    # Each part carries its length: without it, ("a", "bc") and ("ab", "c") would be one key.
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()
