"""Group commit: a command runs at once if none is running, else with others, and none fails for another."""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar

import pytest

from assent.store import group_commit
from assent.store.errors import OutcomeUnknown
from assent.store.group_commit import GROUP_MAX, LANES, SHARED_LANES, GroupCommit
from tests.plain_sql import WAIT_MAX_S

_CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


class NameExecutor:
    """Carries out names; those of the busy would have to wait, and those of the bad make everything fail."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.waited: list[tuple[str, str]] = []
        self.open = asyncio.Event()
        self.group_commit: GroupCommit[str, str] = GroupCommit(self.together, self.alone)

    async def together(self, names: Sequence[str]) -> list[str | Exception | None]:
        self.batches.append(list(names))
        await self.open.wait()
        if any(name.startswith("bad") for name in names):
            raise ValueError("one of them is bad")
        return [self.result(name) for name in names]

    def result(self, name: str) -> str | Exception | None:
        if name.startswith("refused"):
            return KeyError(name)
        return None if name.startswith("busy") else name.upper()

    async def alone(self, name: str) -> str:
        self.waited.append((name, _CALLER.get()))
        if name.startswith("bad"):
            raise ValueError(f"{name} by itself")
        return f"{name} alone"

    def ask(self, name: str, org_id: str = "acme") -> "asyncio.Task[str]":
        return asyncio.create_task(self.group_commit.run(org_id, name))

    async def keep_busy(self) -> "list[asyncio.Task[str]]":
        """As many as may be at work at once; the next one has to wait."""
        tasks = [self.ask(f"first{n}") for n in range(LANES)]
        await asyncio.sleep(0)
        self.batches.clear()
        return tasks


async def test_whoever_comes_alone_is_carried_out_at_once_and_by_itself() -> None:
    executor = NameExecutor()
    executor.open.set()
    assert await executor.ask("ann") == "ANN"
    assert await executor.ask("bob") == "BOB"
    assert executor.batches == [["ann"], ["bob"]]


async def test_those_who_come_while_others_are_at_work_are_carried_out_together() -> None:
    executor = NameExecutor()
    first = await executor.keep_busy()
    later = [executor.ask(name) for name in ("ann", "bob", "cat")]
    await asyncio.sleep(0)
    assert executor.batches == []
    executor.open.set()
    assert await asyncio.gather(*later) == ["ANN", "BOB", "CAT"]
    assert executor.batches == [["ann", "bob", "cat"]]
    await asyncio.gather(*first)


async def test_nobody_fails_for_somebody_else() -> None:
    executor = NameExecutor()
    await executor.keep_busy()
    later = [executor.ask(name) for name in ("ann", "bad", "refused", "bob")]
    executor.open.set()
    found = await asyncio.gather(*later, return_exceptions=True)
    assert [str(one) for one in found] == ["ann alone", "bad by itself", "refused alone", "bob alone"]


async def test_a_refusal_is_of_the_one_who_is_refused() -> None:
    executor = NameExecutor()
    await executor.keep_busy()
    later = [executor.ask(name) for name in ("ann", "refused", "bob")]
    executor.open.set()
    found = await asyncio.gather(*later, return_exceptions=True)
    assert [str(one) for one in found] == ["ANN", "'refused'", "BOB"]
    assert executor.waited == []


@pytest.mark.parametrize("name", ["bad", "refused"])
async def test_the_failure_of_one_that_comes_alone_is_its_own_and_is_not_repeated(name: str) -> None:
    executor = NameExecutor()
    executor.open.set()
    with pytest.raises((ValueError, KeyError)):
        await executor.ask(name)
    assert (executor.batches, executor.waited) == ([[name]], [])


async def test_one_that_has_to_wait_keeps_nobody_waiting() -> None:
    """It leaves its place to others before it waits."""
    executor, waits = NameExecutor(), asyncio.Event()

    async def alone(name: str) -> str:
        await waits.wait()
        return f"{name} alone"

    executor.group_commit = GroupCommit(executor.together, alone)
    executor.open.set()
    busy = [executor.ask(f"busy{n}") for n in range(LANES + 1)]
    assert await executor.ask("ann") == "ANN"
    assert not any(task.done() for task in busy)
    waits.set()
    assert await busy[0] == "busy0 alone"


async def test_those_who_wait_long_go_on_beside_whoever_takes_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "WAIT_S_MAX", 0.01)
    executor, carry_out = NameExecutor(), NameExecutor.together

    async def together(names: Sequence[str]) -> list[str | Exception | None]:
        if names[0].startswith("first"):
            return await carry_out(executor, names)
        return [executor.result(name) for name in names]

    executor.group_commit = GroupCommit(together, executor.alone)
    slow = await executor.keep_busy()
    async with asyncio.timeout(WAIT_MAX_S):
        assert await asyncio.gather(executor.ask("ann"), executor.ask("bob")) == ["ANN", "BOB"]
    assert not any(task.done() for task in slow)
    executor.open.set()
    await asyncio.gather(*slow)


async def test_whoever_has_gone_is_not_carried_out() -> None:
    executor = NameExecutor()
    await executor.keep_busy()
    gone, stays = executor.ask("gone"), executor.ask("stays")
    await asyncio.sleep(0)
    gone.cancel()
    executor.open.set()
    assert await stays == "STAYS"
    assert executor.batches == [["stays"]]


async def test_orgs_do_not_wait_for_each_other() -> None:
    executor = NameExecutor()
    await executor.keep_busy()
    other = executor.ask("zoe", "zeta")
    await asyncio.sleep(0)
    assert executor.batches == [["zoe"]]
    executor.open.set()
    assert await other == "ZOE"


async def test_what_is_carried_out_alone_belongs_to_whoever_asked() -> None:
    executor = NameExecutor()
    await executor.keep_busy()
    _CALLER.set("ann")
    busy = [executor.ask("busy"), executor.ask("busy too")]
    await asyncio.sleep(0)
    _CALLER.set("bob")
    executor.open.set()
    await asyncio.gather(*busy)
    assert executor.waited == [("busy", "ann"), ("busy too", "ann")]


class SharingExecutor(NameExecutor):
    """One whose orgs share transactions; that of a broken org fails."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: list[dict[str, list[str]]] = []
        self.shares = asyncio.Event()
        self.group_commit = GroupCommit(self.together, self.alone, self.share)

    async def share(self, by_org: Mapping[str, Sequence[str]]) -> list[str | Exception | None]:
        self.shared.append({org_id: list(names) for org_id, names in by_org.items()})
        self.shares.set()
        await self.open.wait()
        names = [name for some in by_org.values() for name in some]
        if "unknown" in names:
            raise OutcomeUnknown
        if any(name.startswith("bad") for name in names):
            self.group_commit.set_apart("broken")
            raise ValueError("one of them is bad")
        return [self.result(name) for name in names]

    async def keep_all_lanes_busy(self) -> "list[asyncio.Task[str]]":
        tasks = [self.ask(f"first{n}", f"first{n}") for n in range(SHARED_LANES)]
        await asyncio.sleep(0)
        self.batches.clear()
        return tasks


async def test_commands_of_different_orgs_share_a_transaction_when_all_lanes_are_taken() -> None:
    executor = SharingExecutor()
    first = await executor.keep_all_lanes_busy()
    later = [executor.ask(name, org) for name, org in (("ann", "a"), ("bob", "b"), ("abe", "a"))]
    await asyncio.sleep(0)
    assert (executor.batches, executor.shared) == ([], [])
    executor.open.set()
    assert await asyncio.gather(*later) == ["ANN", "BOB", "ABE"]
    assert executor.shared == [{"a": ["ann", "abe"], "b": ["bob"]}]
    await asyncio.gather(*first)


async def test_org_with_many_commands_leaves_places_in_a_shared_transaction_to_others() -> None:
    executor = SharingExecutor()
    await executor.keep_all_lanes_busy()
    many = [executor.ask(f"m{n}", "many") for n in range(2 * GROUP_MAX)]
    few = [executor.ask(f"f{n}", f"few{n}") for n in range(10)]
    executor.open.set()
    await asyncio.gather(*many, *few)
    served = executor.shared[0]
    assert [len(served[f"few{n}"]) for n in range(10)] == [1] * 10
    assert len(served["many"]) == GROUP_MAX - 10


async def test_broken_shared_transaction_is_repeated_org_by_org_and_its_org_stays_apart() -> None:
    executor = SharingExecutor()
    await executor.keep_all_lanes_busy()
    later = [executor.ask(*one) for one in (("ann", "a"), ("bad", "broken"), ("bea", "broken"), ("bob", "b"))]
    executor.open.set()
    found = await asyncio.gather(*later, return_exceptions=True)
    assert [str(one) for one in found] == ["ANN", "bad by itself", "bea alone", "BOB"]
    assert sorted(executor.batches) == [["ann"], ["bad", "bea"], ["bob"]]

    executor.open.clear()
    await executor.keep_all_lanes_busy()
    apart = executor.ask("ben", "broken")
    await asyncio.sleep(0)
    assert executor.batches == [["ben"]]  # it waits for no lane of others
    executor.open.set()
    assert await apart == "BEN"


async def test_unknown_outcome_of_a_shared_transaction_goes_to_every_caller_and_is_not_repeated() -> None:
    executor = SharingExecutor()
    await executor.keep_all_lanes_busy()
    later = [executor.ask(*one) for one in (("unknown", "a"), ("bob", "b"))]
    executor.open.set()
    found = await asyncio.gather(*later, return_exceptions=True)
    assert [type(one) for one in found] == [OutcomeUnknown, OutcomeUnknown]
    assert (executor.batches, executor.waited, len(executor.shared)) == ([], [], 1)


async def test_what_runs_for_long_takes_no_lane_of_other_orgs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "WAIT_S_MAX", 0.0)
    executor = SharingExecutor()
    slow = await executor.keep_all_lanes_busy()
    other = executor.ask("zoe", "zeta")
    await asyncio.sleep(0)
    assert executor.batches == [["zoe"]]
    executor.open.set()
    await asyncio.gather(other, *slow)


async def test_orgs_that_wait_long_share_a_transaction_beside_those_that_take_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "WAIT_S_MAX", 0.01)
    executor = SharingExecutor()
    slow = await executor.keep_all_lanes_busy()
    later = [executor.ask(f"n{n}", f"org{n}") for n in range(3)]
    async with asyncio.timeout(WAIT_MAX_S):
        await executor.shares.wait()
    assert executor.shared == [{f"org{n}": [f"n{n}"] for n in range(3)}]
    executor.open.set()
    await asyncio.gather(*later, *slow)


async def test_nothing_is_kept_of_orgs_that_have_no_command() -> None:
    executor = SharingExecutor()
    first = await executor.keep_all_lanes_busy()
    later = [executor.ask(f"n{n}", f"org{n}") for n in range(2 * GROUP_MAX)]
    executor.open.set()
    await asyncio.gather(*first, *later)
    assert not executor.group_commit._orgs
    assert not executor.group_commit._running
