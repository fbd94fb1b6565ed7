"""`assent serve`: the HTTP door, alone or with a worker in the same process."""

import asyncio
import logging
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.options import OptionalAppOption, load_app
from assent.cli.output import console
from assent.cli.session import migrated_database, warn_of_contracts

if TYPE_CHECKING:
    from socket import socket

    from assent.app import App
    from assent.http.processes import ParentProcess
    from assent.http.settings import HttpSettings
    from assent.store.database import Database
    from assent.worker.supervisor import Supervisor

CUT_OFF = 3
"""The exit code when the grace period was over before the worker had finished."""

_log = logging.getLogger(__name__)

HostOption = Annotated[str, typer.Option("--host", envvar="ASSENT_HOST", help="The address to serve on.")]
PortOption = Annotated[
    int, typer.Option("--port", envvar="ASSENT_PORT", min=0, max=65_535, help="The port; 0 takes a free one.")
]
WorkerOption = Annotated[
    bool, typer.Option("--with-worker", help="Run the background duties in the same process.")
]
ProcessesOption = Annotated[
    int,
    typer.Option(
        "--processes", envvar="ASSENT_PROCESSES", min=1, max=64, help="How many processes serve on the port."
    ),
]


def serve(
    app: OptionalAppOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    with_worker: WorkerOption = False,
    processes: ProcessesOption = 1,
) -> None:
    """Serve the HTTP door until a signal: running requests are answered first.

    Ends with 0 when everything was finished, with 1 after an error, with 3 when a worker's grace period was too short.
    """
    require_http("assent serve")
    from assent.http.server import CannotListen, listen

    if app is None:
        raise typer.BadParameter("the HTTP door is an application's: name it with --app module:name")
    application = load_app(app)
    try:
        with listen(host, port) as listening:
            if processes == 1:
                code = _serve_here(application, listening, with_worker=with_worker)
            else:
                code = _serve_in_processes(application, listening, processes, with_worker=with_worker)
    except CannotListen as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    raise typer.Exit(code)


def _serve_here(
    application: "App", listening: "socket", *, with_worker: bool, parent: "ParentProcess | None" = None
) -> int:
    """Serve in this process; return the exit code."""
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError
    from assent.telemetry.configure import NotConfigured

    try:
        return asyncio.run(_run(application, listening, parent, with_worker=with_worker))
    except (StoreError, Invalid, NotConfigured) as error:
        console(stderr=True).print(str(error), style="red")
        return 1


def _serve_in_processes(application: "App", listening: "socket", number: int, *, with_worker: bool) -> int:
    from assent.cli.logs import log_as_json
    from assent.http.processes import ServerProcesses
    from assent.http.settings import HttpSettings
    from assent.model.problems import Invalid
    from assent.worker.options import Options

    try:
        grace_s = max(HttpSettings().grace_period_s, Options().grace_period_ms / 1000)
    except Invalid as error:
        console(stderr=True).print(str(error), style="red")
        return 1
    log_as_json()
    host, port = listening.getsockname()[:2]

    def serve(parent: "ParentProcess") -> int:
        return _serve_here(application, listening, with_worker=with_worker, parent=parent)

    def say_ready() -> None:
        about = {"host": host, "port": port, "pid": os.getpid(), "worker": with_worker, "processes": number}
        _log.info("server started", extra=about)

    code = ServerProcesses(serve, number, grace_s, say_ready).run()
    _log.info("server stopped", extra={"finished": code == 0})
    return code


def require_http(command: str) -> None:
    """Say what to install where the HTTP door is not."""
    try:
        import fastapi  # noqa: F401
        import jwt  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        message = f"`{command}` needs {error.name}, which is not installed. Run: pip install 'assent[http]'"
        console(stderr=True).print(message, style="red")
        raise typer.Exit(1) from None


async def _run(
    application: "App", listening: "socket", parent: "ParentProcess | None", *, with_worker: bool
) -> int:
    from assent.cli.logs import log_as_json
    from assent.http.settings import HttpSettings
    from assent.telemetry.configure import configured, use_metrics
    from assent.worker.probes import Probes, ProbeSettings

    settings, probes = HttpSettings(), ProbeSettings()
    log_as_json()
    with configured():
        async with migrated_database() as database, AsyncExitStack() as stack:
            worker = _worker(application, database) if with_worker else _presence(database)
            if probes.port:
                use_metrics()
                answering = Probes(database, worker.overdue) if with_worker else Probes(database)
                # Each process has counts of its own, and so a port of its own.
                own = probes.replace(port=probes.port + (parent.number if parent is not None else 0))
                await stack.enter_async_context(answering.serving(own))
            about = {"worker": with_worker}
            return await _serve(application, database, settings, listening, worker, parent, about)


async def _serve(  # noqa: PLR0913, PLR0917
    application: "App",
    database: "Database",
    settings: "HttpSettings",
    listening: "socket",
    worker: "Supervisor",
    parent: "ParentProcess | None",
    about: dict[str, bool],
) -> int:
    from assent.http.app import create_app
    from assent.http.server import Serving
    from assent.worker.process import REQUESTS_OBJECTS_MAX, collect_less_often, stopping_on_signals

    serving = Serving(create_app(application, database, settings), listening, settings, worker)
    collect_less_often(REQUESTS_OBJECTS_MAX)
    kind = "server" if parent is None else "server process"

    def stop(received: signal.Signals) -> None:
        _log.info(f"{kind} stopping", extra={"signal": received.name})
        serving.stop()

    with stopping_on_signals(stop):
        host, port = listening.getsockname()[:2]
        where = {"host": host, "port": port, "pid": os.getpid()}
        _log.info(f"{kind} started", extra={**where, **about})
        await warn_of_contracts(application, database, _log)
        if not settings.takes_tokens:
            _log.warning("neither ASSENT_HTTP_JWT_KEY nor ASSENT_HTTP_JWKS is set: only API keys sign in")
        if parent is not None:
            parent.call_when_gone(serving.stop)
            parent.note_ready()
        finished = await serving.run()
    _log.info(f"{kind} stopped", extra={"finished": finished})
    return 0 if finished else CUT_OFF


def _presence(database: "Database") -> "Supervisor":
    """Return what says that this process runs, where it has no worker."""
    from assent.worker.duty import WorkerContext
    from assent.worker.options import Options
    from assent.worker.supervisor import Supervisor, with_nodes

    place = WorkerContext(database, Options(), serves=True)
    return Supervisor(database, with_nodes(place, []), place.options)


def _worker(application: "App", database: "Database") -> "Supervisor":
    from assent.effects.settings import SendingSettings
    from assent.running import worker_of
    from assent.worker.instrumentation import watch_run
    from assent.worker.journal import Journal
    from assent.worker.options import Options

    options = Options()
    journal = Journal(options.report_interval_ms / 1000)
    sending = SendingSettings()
    return worker_of(application, database, sending, options, [journal, watch_run])
