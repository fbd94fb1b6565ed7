"""The HTTP application for tests: with routes that are built once in a process, or served from a thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fastapi import APIRouter, FastAPI

from assent.app import App
from assent.http import app as product
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.store.database import Database
from tests.http.application import app as tested_app
from tests.http.callers import CALLBACKS

_ROUTERS: Final[dict[str, APIRouter]] = {}


def create_app(app: App, database: Database, settings: HttpSettings, *rest: Any) -> FastAPI:
    """Return `assent.http.app.create_app(…)` with the routes of the first one.

    FastAPI builds its routes at the first request and never lets go of them: 0.1 s and 1.6 MB for each application.
    They depend on `docs` only; middleware, error handlers and services are the application's own.
    """
    door = product.create_app(app, database, settings, *rest)
    door.router = _ROUTERS.setdefault(settings.docs, door.router)
    return door


@contextmanager
def serving(url: str, settings: HttpSettings) -> Iterator[tuple[str, int]]:
    """Serve the application from a thread with a loop and a database of its own; yield the host and the port."""
    listening = listen("127.0.0.1", 0)
    ready = threading.Event()
    held: list[Any] = []

    async def run() -> None:
        database = await Database.open(url)
        served = product.create_app(tested_app, database, settings, CALLBACKS)
        held.extend([Serving(served, listening, settings), asyncio.get_running_loop()])
        ready.set()
        await held[0].run()
        await database.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield listening.getsockname()[:2]
    finally:
        held[1].call_soon_threadsafe(held[0].stop)
        thread.join(30)
        listening.close()
