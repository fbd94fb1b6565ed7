"""Steps a second, side by side with peers: workflows of ten automatic steps, one worker process each.

All use one PostgreSQL server with the same settings, each a database of its own. The rounds are interleaved,
so that a noisy machine is noisy for everybody, and every run is a new process with a warm-up of its own.
"""

from dataclasses import dataclass
from statistics import median

from bench.child import Run, run_child
from bench.peers import absurd_steps
from bench.report import Measurement, Report, progress
from bench.server import Server, fresh_server

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who runs workflows of ten steps, and how many of them keep it busy for some seconds."""

    name: str
    mode: str
    module: str
    workflows: int
    warm_up: int


OURS = Contender("ours", "batches, two connections", "bench.ours_steps", 4_000, 400)
DBOS = Contender("dbos", "direct calls, 4 at a time", "bench.peers.dbos_steps", 150, 20)
ABSURD = Contender("absurd", "async worker, 20 at a time", "bench.peers.absurd_steps", 300, 40)
CONTENDERS = (OURS, DBOS, ABSURD)


async def measure() -> Report:
    runs: dict[Contender, list[Run]] = {contender: [] for contender in CONTENDERS}
    async with fresh_server() as server:
        await _prepare(server)
        for number in range(ROUNDS + 1):
            for contender in CONTENDERS:
                runs[contender].append(await _run(server, contender))
            latest = ", ".join(f"{contender.name} {made[-1].rate:,.0f}" for contender, made in runs.items())
            progress(f"{f'round {number} of {ROUNDS}' if number else 'warm-up'}: {latest} steps/s")
    return _report({contender: made[1:] for contender, made in runs.items()})


async def _prepare(server: Server) -> None:
    await server.create_ours(OURS.name)
    await server.create(DBOS.name)  # it makes its tables when it starts
    absurd_steps.prepare(await server.create(ABSURD.name))


async def _run(server: Server, contender: Contender) -> Run:
    await server.settle(contender.name)
    arguments = [server.url(contender.name), contender.workflows, contender.warm_up]
    return await run_child(contender.module, arguments, contender.workflows * 10)


def _report(runs: dict[Contender, list[Run]]) -> Report:
    rates = {contender: [run.rate for run in made] for contender, made in runs.items()}
    medians = {contender: median(made) for contender, made in rates.items()}
    # A busy machine changes rates by half and these by a tenth: they say whether a change made steps cheaper.
    cpu = {name: median(run.facts[name] for run in runs[OURS]) for name in ("python_us", "postgresql_us")}
    return Report(
        "steps",
        "Workflows of ten automatic steps, one worker process each",
        [Measurement(f"{c.name}: {c.mode}", "steps/s", made) for c, made in rates.items()],
        {contender.name: medians[contender] for contender in CONTENDERS}
        | {f"ratio_{peer.name}": medians[OURS] / medians[peer] for peer in (DBOS, ABSURD)}
        | {f"cpu_{name}_per_step": took for name, took in cpu.items()},
    )
