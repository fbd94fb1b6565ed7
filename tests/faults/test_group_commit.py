"""Commands that share a transaction whose COMMIT is lost: each caller is given the truth about their own."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.store.errors import OutcomeUnknown
from tests.faults.company import ORG
from tests.faults.points import SHORT, Laboratory, Point, Trial, commits_in
from tests.faults.test_python import ALICE, FIN
from tests.http.application import INVOICE_DATA, app
from tests.world import rows

CALLERS = 12


@dataclass(frozen=True)
class Kind:
    """A command that several callers give at once, each about something of their own."""

    give: Callable[[Runtime, Any], Awaitable[Any]]
    count: Callable[[Runtime], Awaitable[Counter[Any]]]
    """How often each was done."""
    prepare: Callable[[Runtime], Awaitable[Sequence[Any]]] = field(default=lambda _: _numbers())


async def _numbers() -> list[str]:
    return [f"n-{number}" for number in range(CALLERS)]


async def _create(runtime: Runtime, number: str) -> UUID:
    data = {**INVOICE_DATA, "number": number}
    return (await runtime.core.kernel.mutate(Command(ORG, "invoice.create", ALICE, data))).entity.id


async def _invoices(runtime: Runtime) -> Counter[Any]:
    found = Counter(row["data"].get("number") for row in await rows(runtime.database, "entity_versions"))
    return Counter({number: count for number, count in found.items() if str(number).startswith("n-")})


async def _submitted(runtime: Runtime) -> Sequence[Any]:
    asked = []
    for number in await _numbers():
        view = await runtime.org(ORG, ALICE).entities.transition(await _create(runtime, number), "submit")
        asked.append(view.waiting[0].request_id)
    return asked


async def _decided(runtime: Runtime) -> Counter[Any]:
    return Counter(row["request_id"] for row in await rows(runtime.database, "approval_decisions"))


async def _drafts(runtime: Runtime) -> Sequence[Any]:
    return [await _create(runtime, number) for number in await _numbers()]


async def _moved(runtime: Runtime) -> Counter[Any]:
    entries = await rows(runtime.database, "audit_log")
    return Counter(row["entity_id"] for row in entries if row["to_state"] == "submitted")


async def _started(runtime: Runtime) -> Counter[Any]:
    found = await rows(runtime.database, "workflow_instances")
    return Counter(row["context_json"].get("number") for row in found)


KINDS = {
    "create": Kind(_create, _invoices),
    "decide": Kind(
        lambda runtime, which: runtime.org(ORG, FIN).approvals.decide(which, "approved"), _decided, _submitted
    ),
    "transition": Kind(
        lambda runtime, which: runtime.org(ORG, ALICE).entities.transition(which, "submit"), _moved, _drafts
    ),
    "start": Kind(
        lambda runtime, number: runtime.org(ORG, ALICE).instances.start("pair", {"number": number}), _started
    ),
}


@pytest.mark.parametrize("name", KINDS)
async def test_each_caller_is_given_the_truth(laboratory: Laboratory, name: str) -> None:
    kind = KINDS[name]
    # With its connections open, the first two commands are always alone, and the others wait for them together.
    laboratory = replace(laboratory, settings=SHORT.replace(pool_connections_min=3))

    async def give_all(trial: Trial[Any]) -> dict[Any, Any]:
        runtime = app.runtime(trial.database)
        which = await kind.prepare(app.runtime(trial.database))
        trial.proxy.clear()
        if trial.point is not None:
            trial.proxy.arm(trial.point.fault())
        given = (kind.give(runtime, one) for one in which)
        answers = dict(zip(which, await asyncio.gather(*given, return_exceptions=True), strict=True))
        trial.proxy.disarm()
        return answers

    async def disturb(point: Point) -> list[str]:
        async with laboratory.trial(point) as trial:
            answers = await give_all(trial)
            done = await kind.count(app.runtime(trial.database))
            return [
                f"{point}: {which} was done {done[which]} times, and its caller was given {answer!r}"
                for which, answer in answers.items()
                if not _is_true(answer, done[which])
            ]

    async with laboratory.trial() as trial:
        answers = await give_all(trial)
        order = list(trial.proxy.order)
        assert await kind.count(app.runtime(trial.database)) >= Counter(list(answers))
    commits = commits_in(order)
    assert 1 < len(commits) < CALLERS, "expected some of the callers to share a transaction"
    before = [Point(point.statement, point.nth, "before", "cut") for point in commits]
    wrong = [await disturb(point) for point in (*commits, *before)]
    assert not any(wrong), "\n".join(line for lines in wrong for line in lines)


def _is_true(answer: Any, times: int) -> bool:
    if isinstance(answer, OutcomeUnknown):
        return times <= 1
    return times == (0 if isinstance(answer, Exception) else 1)
