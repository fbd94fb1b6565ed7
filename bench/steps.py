"""Steps a second, side by side with peers: workflows of ten automatic steps, one worker process each.

All use one PostgreSQL server with the same settings, each a database of its own. The rounds are interleaved,
so that a noisy machine is noisy for everybody, and every run is a new process with a warm-up of its own. Ours is run
by two worker processes as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.child import ChildRun, run_child
from bench.peers import absurd_steps
from bench.report import BenchReport, Measurement, progress
from bench.server import BenchServer, fresh_server

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Contender:
    """An engine that runs workflows of ten steps, and how many of them keep it busy for some seconds."""

    name: str
    mode: str
    module: str
    workflows: int
    warm_up: int
    processes: Sequence[int] = ()
    """How many worker processes there are, for ours; the others have one."""

    @property
    def database(self) -> str:
        return self.name.partition(",")[0]


OURS = Contender("ours", "batches, two connections", "bench.ours_steps", 4_000, 400)
TWO = Contender("ours, two processes", OURS.mode, OURS.module, OURS.workflows, OURS.warm_up, (2,))
DBOS = Contender("dbos", "direct calls, 4 at a time", "bench.peers.dbos_steps", 150, 20)
ABSURD = Contender("absurd", "async worker, 20 at a time", "bench.peers.absurd_steps", 300, 40)
CONTENDERS = (OURS, TWO, DBOS, ABSURD)


async def measure() -> BenchReport:
    runs: dict[Contender, list[ChildRun]] = {contender: [] for contender in CONTENDERS}
    async with fresh_server() as server:
        await _prepare(server)
        for number in range(ROUNDS + 1):
            for contender in CONTENDERS:
                runs[contender].append(await _run(server, contender))
            latest = ", ".join(f"{contender.name} {made[-1].rate:,.0f}" for contender, made in runs.items())
            progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {latest} steps/s")
    return _report({contender: made[1:] for contender, made in runs.items()})


async def _prepare(server: BenchServer) -> None:
    await server.create_ours(OURS.name)
    await server.create(DBOS.name)  # it makes its tables when it starts
    absurd_steps.prepare(await server.create(ABSURD.name))


async def _run(server: BenchServer, contender: Contender) -> ChildRun:
    await server.settle(contender.database)
    url = server.url(contender.database)
    arguments = [url, contender.workflows, contender.warm_up, *contender.processes]
    return await run_child(contender.module, arguments, contender.workflows * 10)


def _report(runs: dict[Contender, list[ChildRun]]) -> BenchReport:
    rates = {contender: [run.rate for run in made] for contender, made in runs.items()}
    medians = {contender: median(made) for contender, made in rates.items()}
    # A busy machine changes rates by half and these by a tenth: they say whether a change made steps cheaper.
    cpu = {name: median(run.facts[name] for run in runs[OURS]) for name in ("python_us", "postgresql_us")}
    return BenchReport(
        "steps",
        "Workflows of ten automatic steps",
        [Measurement(f"{c.name}: {c.mode}", "steps/s", made) for c, made in rates.items()],
        {contender.name: medians[contender] for contender in CONTENDERS}
        | {f"ratio_{peer.name}": medians[OURS] / medians[peer] for peer in (DBOS, ABSURD)}
        | {"ratio_two_processes": medians[TWO] / medians[OURS]}
        | {f"cpu_{name}_per_step": took for name, took in cpu.items()},
    )
