"""`assent worker`: run the background duties, until a signal or until nothing is left to do."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.options import JsonOption, OptionalAppOption, load_app
from assent.cli.output import console, print_json
from assent.cli.session import warn_of_contracts

if TYPE_CHECKING:
    from assent.app import App
    from assent.store.database import Database
    from assent.worker.duty import Duty, DutyRun, WorkerContext
    from assent.worker.journal import Tallies
    from assent.worker.options import Options
    from assent.worker.probes import ProbeSettings
    from assent.worker.supervisor import Supervisor

CUT_OFF = 3
"""The exit code when the grace period was over before the work was done."""

CLOSE_TIMEOUT_S = 5.0
"""How long leaving the database may take; what is not committed by then is rolled back by the server."""

_log = logging.getLogger(__name__)

OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="DUTY", help="Run only this duty; may be given several times."),
]
OnceOption = Annotated[
    bool, typer.Option("--once", help="Run until nothing is left to do, and say what was done.")
]


def worker(
    only: OnlyOption = None, once: OnceOption = False, json: JsonOption = False, app: OptionalAppOption = None
) -> None:
    """Run the background duties: events, effects, timers, timeouts and the sweeps.

    Ends with 0 when everything was finished, with 1 after an error, with 3 when the grace period was too short.
    """
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError
    from assent.telemetry.configure import NotConfigured

    names = _checked(only or [], app)
    application = load_app(app) if app else None
    try:
        code = asyncio.run(_run(names, application, once=once, json=json))
    except (StoreError, Invalid, NotConfigured) as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    raise typer.Exit(code)


def _checked(only: list[str], app: str | None) -> list[str]:
    from assent.worker.supervisor import DUTIES, NEED_RUNTIME

    known = [duty.name for duty in DUTIES]
    if unknown := [name for name in only if name not in known]:
        raise typer.BadParameter(f"expected any of {', '.join(known)}; found {', '.join(unknown)}")
    if app is None and (lacking := [duty.name for duty in NEED_RUNTIME if duty.name in only]):
        raise typer.BadParameter(
            f"{' and '.join(lacking)} need an application: name it with --app module:name"
        )
    return only


async def _run(only: list[str], application: "App | None", *, once: bool, json: bool) -> int:
    from assent.cli.logs import log_as_json
    from assent.telemetry.configure import configured, use_metrics
    from assent.worker.options import Options
    from assent.worker.probes import ProbeSettings

    options, probes = Options(), ProbeSettings()
    log_as_json()
    with configured():
        if probes.port:
            use_metrics()
        return await _work(only, application, options, probes, once=once, json=json)


async def _work(  # noqa: PLR0913
    only: list[str],
    application: "App | None",
    options: "Options",
    probes: "ProbeSettings",
    *,
    once: bool,
    json: bool,
) -> int:
    from assent.store.database import Database
    from assent.store.migrate import require_ready
    from assent.worker.journal import Tallies
    from assent.worker.supervisor import duties, with_nodes

    database = await Database.open()
    try:
        await require_ready(database)
        if application is not None:
            await warn_of_contracts(application, database, _log)
        place = _workplace(database, options, application)
        chosen = duties(place, only) if once else with_nodes(place, duties(place, only))
        tallies = Tallies([duty.name for duty in chosen])
        if once:
            return await _run_once(place, chosen, tallies, json=json)
        return await _run_until_stopped(place, chosen, tallies, probes, json=json)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await database.close()


@asynccontextmanager
async def _answering(
    database: "Database", probes: "ProbeSettings", supervisor: "Supervisor"
) -> AsyncIterator[None]:
    """Inside, orchestrators and Prometheus are answered, where a port is given."""
    from assent.worker.probes import Probes

    if not probes.port:
        yield
        return
    async with Probes(database, supervisor.overdue).serving(probes):
        yield


def _workplace(database: "Database", options: "Options", application: "App | None") -> "WorkerContext":
    from assent.cluster.settings import ClusterSettings
    from assent.effects.settings import SendingSettings
    from assent.transports.settings import StreamSettings
    from assent.worker.duty import WorkerContext

    streams, cluster = StreamSettings(), ClusterSettings()
    if application is None:
        return WorkerContext(database, options, streams=streams)
    runtime, sending = application.runtime(database), SendingSettings()
    events = application.event_processor(runtime)
    return WorkerContext(database, options, runtime, sending, streams=streams, events=events, cluster=cluster)


async def _run_once(
    place: "WorkerContext", chosen: "Sequence[Duty]", tallies: "Tallies", *, json: bool
) -> int:
    from assent.cli.worker_table import WorkerTable
    from assent.worker.instrumentation import watch_run
    from assent.worker.loop import exhaust
    from assent.worker.supervisor import require_connections

    # One duty after the other, one lane of each.
    require_connections(place.database.settings, chosen, place.options.replace(events_lanes=1, tasks_lanes=1))

    def observe(run: "DutyRun") -> None:
        tallies(run)
        watch_run(run)

    for duty in chosen:
        await exhaust(duty, observe, place.options)
    if json:
        print_json({name: tally.to_json() for name, tally in tallies.by_duty.items()})
    else:
        console().print(WorkerTable(tallies))
    return 1 if any(tally.errors for tally in tallies.by_duty.values()) else 0


async def _run_until_stopped(
    place: "WorkerContext",
    chosen: "Sequence[Duty]",
    tallies: "Tallies",
    probes: "ProbeSettings",
    *,
    json: bool,
) -> int:
    from assent.worker.instrumentation import watch_run
    from assent.worker.journal import Journal
    from assent.worker.process import collect_less_often
    from assent.worker.supervisor import Supervisor

    collect_less_often()
    journal = Journal(place.options.report_interval_ms / 1000)
    supervisor = Supervisor(place.database, chosen, place.options, [tallies, journal, watch_run])
    async with _answering(place.database, probes, supervisor):
        finished = await _supervise(place, chosen, supervisor, tallies, json=json)
    journal.close()
    _log.info("worker stopped", extra={"finished": finished})
    return 0 if finished else CUT_OFF


async def _supervise(
    place: "WorkerContext",
    chosen: "Sequence[Duty]",
    supervisor: "Supervisor",
    tallies: "Tallies",
    *,
    json: bool,
) -> bool:
    from assent.worker.process import stopping_on_signals

    with _watched(tallies, json=json) as end_watching:

        def stop(received: signal.Signals) -> None:
            end_watching()
            _log.info("worker stopping", extra={"signal": received.name})
            supervisor.stop()

        with stopping_on_signals(stop):
            names = [duty.name for duty in chosen]
            _log.info("worker started", extra={"pid": os.getpid(), "duties": names})
            if place.runtime is None:
                _log.warning(
                    "no application is named with --app: events and effects are left to other workers"
                )
            return await supervisor.run()


@contextmanager
def _watched(tallies: "Tallies", *, json: bool) -> Iterator[Callable[[], None]]:
    """Inside, a person at a terminal sees a table; gives a function that ends the showing early."""
    from rich.live import Live

    from assent.cli.logs import log_above
    from assent.cli.worker_table import WorkerTable

    screen = console(stderr=True)
    if json or not screen.is_terminal:
        yield lambda: None
        return
    log_above(screen)
    with Live(WorkerTable(tallies), console=screen, refresh_per_second=4) as live:

        def end() -> None:
            live.stop()
            screen.print("Finishing what runs. The same again ends at once; nothing is lost.", style="dim")

        yield end
