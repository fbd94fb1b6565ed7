"""The checker: intents and answers against the tables, and effects against what the receiver got."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from tests.faults.chaos.application import NODES
from tests.faults.chaos.load import NO_ANSWER, UNKNOWN, Intent
from tests.receiver import Receiver

SETTLED_MAX_S: Final = 90.0
"""By when nothing may be left in a queue after the last fault."""

QUEUES: Final = {
    "events": "SELECT count(*) FROM assent.workflow_events_outbox WHERE status NOT IN ('completed')",
    "jobs": "SELECT count(*) FROM assent.jobs WHERE status NOT IN ('done')",
    "requests": "SELECT count(*) FROM assent.outside_requests WHERE status NOT IN ('completed')",
    "batches": "SELECT count(*) FROM assent.workflow_batches",
    "errands": "SELECT count(*) FROM assent.workflow_instances WHERE entity_id IS NULL AND status <> 'completed'",
}
_DOCUMENTS: Final = """
SELECT e.org_id, v.data ->> 'number' AS number, e.state
  FROM assent.entities e
  JOIN assent.entity_versions v ON (v.org_id, v.entity_id, v.version) = (e.org_id, e.id, 1)
"""
_DECISIONS: Final = """
SELECT v.org_id, v.data ->> 'number' AS number, d.decision
  FROM assent.approval_decisions d
  JOIN assent.approval_requests r ON (r.org_id, r.id) = (d.org_id, d.request_id)
  JOIN assent.entity_versions v ON (v.org_id, v.entity_id, v.version) = (r.org_id, r.entity_id, 1)
"""
_STEPS: Final = """
SELECT i.org_id, i.context_json ->> 'number' AS number, i.status, s.node_id, s.status AS step, i.id
  FROM assent.workflow_instances i
  JOIN assent.workflow_step_executions s ON (s.org_id, s.instance_id) = (i.org_id, i.id)
 WHERE i.entity_id IS NULL
"""
_MARKS: Final = "SELECT what, of FROM public.marks"
_EFFECTS: Final = "SELECT key FROM assent.effects"


@dataclass(frozen=True)
class Findings:
    """What is wrong, and how much was looked at."""

    wrong: list[str]
    counts: dict[str, int]
    left: dict[str, int]


async def wait_until_settled(url: str) -> dict[str, int]:
    """Wait until every queue is empty; return what is left in them when the time is over."""
    deadline_s = time.monotonic() + SETTLED_MAX_S
    while True:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(url)
        try:
            left = {name: await connection.fetchval(sql) for name, sql in QUEUES.items()}
        finally:
            await connection.close()
        if not any(left.values()) or time.monotonic() > deadline_s:
            return {name: number for name, number in left.items() if number}
        await asyncio.sleep(0.5)


async def check(url: str, intents: Sequence[Intent], receiver: Receiver) -> Findings:
    """Compare everything."""
    left = await wait_until_settled(url)
    connection: asyncpg.Connection[Any] = await asyncpg.connect(url)
    try:
        documents = await connection.fetch(_DOCUMENTS)
        decisions = await connection.fetch(_DECISIONS)
        steps = await connection.fetch(_STEPS)
        marks = Counter((row["what"], row["of"]) for row in await connection.fetch(_MARKS))
        keys = {row["key"] for row in await connection.fetch(_EFFECTS)}
    finally:
        await connection.close()
    wrong = [f"{number} left in {name}" for name, number in left.items()]
    wrong += _answers(intents)
    wrong += _documents(intents, documents)
    wrong += _decisions(intents, decisions)
    wrong += _errands(intents, steps, marks)
    wrong += _received(intents, receiver, keys)
    counts = {
        "commands": len(intents),
        "requests": sum(len(intent.answers) for intent in intents),
        "answers that were lost or unknown": sum(
            answer in (NO_ANSWER, UNKNOWN) for intent in intents for answer in intent.answers
        ),
        "documents": len(documents),
        "decisions": len(decisions),
        "errands": len({row["id"] for row in steps}),
        "steps of errands": len(steps),
        "effects": len(keys),
        "calls that the receiver got": len(receiver.received),
    }
    return Findings(wrong, counts, left)


def _times(intent: Intent, found: int) -> Iterator[str]:
    """Compare how often something was done with what was said of it."""
    way = "under a key" if intent.keyed else "without a key"
    said = f"{intent.kind} {intent.org} {intent.number}, {way}, was answered {intent.answers}"
    possible = {1} if intent.is_done else {0, 1} if intent.is_open else {0}
    if found not in possible:
        yield f"{said}, and was done {found} times"


def _answers(intents: Sequence[Intent]) -> Iterator[str]:
    """Report answers that no fault of these explains, such as a mistake of ours."""
    for intent in intents:
        if strange := set(intent.answers) - {"2xx", NO_ANSWER, UNKNOWN, "UNAVAILABLE", "BUSY"}:
            yield f"{intent.kind} {intent.org} {intent.number} was answered {sorted(strange)}"


def _documents(intents: Sequence[Intent], documents: Sequence[Any]) -> Iterator[str]:
    made = Counter((row["org_id"], row["number"]) for row in documents)
    states = {(row["org_id"], row["number"]): row["state"] for row in documents}
    for intent in intents:
        place = (intent.org, intent.number)
        if intent.kind == "create":
            yield from _times(intent, made[place])
        elif intent.kind == "submit" and intent.is_done and states.get(place) == "draft":
            yield f"{place} was submitted, and is a draft"
        elif intent.kind == "decide" and intent.is_done and states.get(place) != "active":
            yield f"{place} was approved, and is {states.get(place)}"
    wanted = {(intent.org, intent.number) for intent in intents if intent.kind == "create"}
    yield from (f"{place} was made {number} times" for place, number in made.items() if place not in wanted)


def _decisions(intents: Sequence[Intent], decisions: Sequence[Any]) -> Iterator[str]:
    made = Counter((row["org_id"], row["number"]) for row in decisions)
    for intent in intents:
        if intent.kind == "decide":
            yield from _times(intent, made[intent.org, intent.number])


def _errands(intents: Sequence[Intent], steps: Sequence[Any], marks: Counter[Any]) -> Iterator[str]:
    instances: dict[Any, set[Any]] = {}
    nodes: Counter[Any] = Counter()
    for row in steps:
        place = (row["org_id"], row["number"])
        instances.setdefault(place, set()).add(row["id"])
        nodes[place, row["node_id"]] += 1
    for intent in intents:
        if intent.kind != "start":
            continue
        place = (intent.org, intent.number)
        yield from _times(intent, len(instances.get(place, ())))
        if not intent.is_done:
            continue
        counted = {node: nodes[place, node] for node in NODES}
        if set(counted.values()) != {1}:
            yield f"errand {place} made its steps {counted}"
        for of in ("step", "task"):
            if marks[intent.number, of] != 1:
                yield f"errand {place}: its {of} took effect {marks[intent.number, of]} times"


def _received(intents: Sequence[Intent], receiver: Receiver, keys: set[str]) -> Iterator[str]:
    messages: dict[str, set[tuple[str, bytes]]] = {}
    for received in receiver.received:
        messages.setdefault(received.key, set()).add((received.path, received.body))
    yield from (f"effect {key} came as {found}" for key, found in messages.items() if len(found) != 1)
    yield from (f"effect {key} was never received" for key in keys - messages.keys())
    yield from (f"{key} was received, and no effect has that key" for key in messages.keys() - keys)
    effects = Counter(found for messages_of_key in messages.values() for found in messages_of_key)
    yield from (f"{message} came under {number} keys" for message, number in effects.items() if number > 1)
