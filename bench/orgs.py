"""One event in each of 20,000 orgs, beside as many events of one org: does a batch grow with the number of orgs?

The drains take turns on one server, each in a process of its own.
"""

from statistics import median

from bench.child import ChildRun, run_child
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server

ROUNDS = 3
EVENTS = 20_000
WARM_UP = 2_000
CASES = {"one org": 1, f"{EVENTS:,} orgs": EVENTS}
NAME = "orgs"


async def measure() -> BenchReport:
    runs: dict[str, list[ChildRun]] = {name: [] for name in CASES}
    async with fresh_server() as server:
        await server.create_ours(NAME)
        for number in range(ROUNDS):
            for name, orgs in CASES.items():
                runs[name].append(await _run(server, orgs))
            latest = ", ".join(f"{name} {made[-1].rate:,.0f}" for name, made in runs.items())
            progress(f"round {number + 1} of {ROUNDS}: {latest} steps/s")
    return _report(runs)


async def _run(server: BenchServer, orgs: int) -> ChildRun:
    await server.settle(NAME)
    return await run_child("bench.ours_steps", [server.url(NAME), EVENTS, WARM_UP, 1, orgs], EVENTS * 10)


def _report(runs: dict[str, list[ChildRun]]) -> BenchReport:
    one, many = runs.values()
    rates = {name: [run.rate for run in made] for name, made in runs.items()}
    facts = {
        name: {fact: max(run.facts[fact] for run in made) for fact in ("batch_s_max", "memory_mb")}
        | {fact: median(run.facts[fact] for run in made) for fact in ("python_us", "postgresql_us")}
        for name, made in runs.items()
    }
    grown = [run.facts["memory_mb"] / run.facts["memory_mb_warm"] for run in many]
    return BenchReport(
        NAME,
        f"{EVENTS:,} workflows of ten automatic steps, one worker process",
        [Measurement(name, "steps/s", made, facts[name]) for name, made in rates.items()],
        {
            "ratio": median(run.rate for run in many) / median(run.rate for run in one),
            "batch_s_max": max(run.facts["batch_s_max"] for run in many),
            "ratio_memory": max(grown),
        },
    )
