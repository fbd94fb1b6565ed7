"""Mutations a second, one at a time and in sets, with the statements that each call takes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from assent.app import App
from assent.kernel import Kernel
from assent.model.actor import SYSTEM
from assent.model.mutation import Command, Entity, Mutation
from bench.report import BenchReport, Measurement
from bench.server import fresh_database

RUNS = 5
SINGLE = 500
SET = 500
CLIENTS = 8

CONTRACT: dict[str, Any] = {
    "contract": "invoice",
    "version": 1,
    "fields": {
        "number": {"type": "text", "required": True, "max": 40},
        "vendor_id": {"type": "text", "required": True},
        "grand_total": {"type": "money", "required": True, "min": 0},
        "currency": {"type": "enum", "values": ["EUR", "USD"], "required": True},
        "note": {"type": "text"},
    },
    "lifecycle": {"initial": "draft", "states": {"draft": {"edit": "editable"}}},
}
PAYLOAD = {
    "number": "2026-1",
    "vendor_id": "v-1",
    "grand_total": 129_900,
    "currency": "EUR",
    "note": "x" * 200,
}

Run = Callable[[Kernel, Sequence[Command]], Awaitable[list[Entity]]]


async def measure() -> BenchReport:
    async with fresh_database(connections=CLIENTS + 2) as database:
        kernel = App([CONTRACT]).kernel(database)
        measurements = []
        for name, run, count in (
            ("mutate, one client", one_by_one, SINGLE),
            (f"mutate, {CLIENTS} clients", concurrently, SINGLE),
            (f"mutate_many, sets of {SET}", in_a_set, SET),
        ):
            measurements += await _measure_case(kernel, name, run, count)
    return BenchReport("kernel", "Mutations: entity, version, audit row and event each", measurements)


async def _measure_case(kernel: Kernel, name: str, run: Run, count: int) -> list[Measurement]:
    created, updated = [], []
    statements: dict[str, int] = {}
    for number in range(RUNS + 1):
        create = [Command("acme", "invoice.create", SYSTEM, PAYLOAD)] * count
        rate, entities, statements["create"] = await _timed(kernel, run, create)
        change = {"grand_total": 1_000 + number}
        update = [Command("acme", "invoice.update", SYSTEM, change, entity.id) for entity in entities]
        update_rate, _, statements["update"] = await _timed(kernel, run, update)
        if number:  # the first round warms caches and plans
            created.append(rate)
            updated.append(update_rate)
    return [
        Measurement(f"{verb}: {name}", "mutations/s", rates, _facts(statements[verb], count))
        for verb, rates in (("create", created), ("update", updated))
    ]


def _facts(statements: int, count: int) -> dict[str, object]:
    return {"statements": statements, "per mutation": round(statements / count, 3)}


async def _timed(kernel: Kernel, run: Run, commands: Sequence[Command]) -> tuple[float, list[Entity], int]:
    statements = 0

    def count(_: object) -> None:
        nonlocal statements
        statements += 1

    with kernel.database.observe(count):
        started = time.perf_counter()
        entities = await run(kernel, commands)
        elapsed = time.perf_counter() - started
    return len(commands) / elapsed, entities, statements


async def one_by_one(kernel: Kernel, commands: Sequence[Command]) -> list[Entity]:
    return [(await kernel.mutate(command)).entity for command in commands]


async def concurrently(kernel: Kernel, commands: Sequence[Command]) -> list[Entity]:
    shares = [one_by_one(kernel, commands[client::CLIENTS]) for client in range(CLIENTS)]
    return [entity for share in await asyncio.gather(*shares) for entity in share]


async def in_a_set(kernel: Kernel, commands: Sequence[Command]) -> list[Entity]:
    outcomes = await kernel.mutate_many(commands)
    return [outcome.entity for outcome in outcomes if isinstance(outcome, Mutation)]
