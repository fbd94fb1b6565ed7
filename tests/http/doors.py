"""The HTTP application for tests, with routes that are built once in a process."""

from typing import Any, Final

from fastapi import APIRouter, FastAPI

from assent.app import App
from assent.http import app as product
from assent.http.settings import HttpSettings
from assent.store.database import Database

_ROUTERS: Final[dict[str, APIRouter]] = {}


def create_app(app: App, database: Database, settings: HttpSettings, *rest: Any) -> FastAPI:
    """Return `assent.http.app.create_app(…)` with the routes of the first one.

    FastAPI builds its routes at the first request and never lets go of them: 0.1 s and 1.6 MB for each application.
    They depend on `docs` only; middleware, error handlers and services are the application's own.
    """
    door = product.create_app(app, database, settings, *rest)
    door.router = _ROUTERS.setdefault(settings.docs, door.router)
    return door
