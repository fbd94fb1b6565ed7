"""The application that uvicorn serves: the one list of its routes, and what lies around them."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from assent.app import App
from assent.effects.callback_settings import CallbackSettings
from assent.http import (
    approvals,
    audit,
    chains,
    definitions,
    delegations,
    drafts,
    entities,
    entity_history,
    event_sources,
    events,
    evidence,
    forms,
    health,
    inbox,
    keys,
    members,
    metrics,
    operating,
    outside_requests,
    results,
    roles,
    secrets,
    streams,
    tasks,
    templates,
    workflow_control,
    workflows,
)
from assent.http.access_log import AccessLog
from assent.http.desk import Services
from assent.http.errors import handle_errors
from assent.http.examples import add_examples
from assent.http.hosts import ANY, AllowedHosts
from assent.http.limits import LimitsMiddleware
from assent.http.problems import ProblemBody
from assent.http.reference import add_document, add_reference
from assent.http.replies import REPLAYED
from assent.http.settings import HttpSettings
from assent.http.showing import show_again
from assent.http.tracing import TracingMiddleware
from assent.store.database import Database
from assent.telemetry.configure import use_metrics

ROUTERS: Final[Sequence[APIRouter]] = (
    health.router,
    workflows.router,
    workflow_control.router,
    entities.router,
    entity_history.router,
    approvals.router,
    events.router,
    outside_requests.router,
    results.router,
    inbox.router,
    delegations.router,
    chains.router,
    forms.router,
    evidence.router,
    definitions.router,
    drafts.router,
    templates.router,
    members.router,
    roles.router,
    keys.router,
    event_sources.router,
    secrets.router,
    tasks.router,
    audit.router,
    operating.router,
    metrics.router,
    streams.router,
)

_DESCRIPTION: Final = """
Workflows for business documents. Every answer that is no success is `application/problem+json` with a stable `code`.
Lists come in pages: `next` of one is `cursor` of the next. A write with an `Idempotency-Key` does nothing twice.
"""


def create_app(
    app: App,
    database: Database,
    settings: HttpSettings | None = None,
    callbacks: CallbackSettings | None = None,
) -> FastAPI:
    """The HTTP door of an application on an open database, which stays the caller's to close."""
    settings = settings or HttpSettings()
    callbacks = callbacks or CallbackSettings()
    if settings.metrics != "off":
        use_metrics()
    door = bare_app(settings)
    door.state.house = Services(app, database, settings, callbacks, show_again)
    return door


def bare_app(settings: HttpSettings) -> FastAPI:
    """The routes and what lies around them; without a house behind it, good for its document only."""
    door = FastAPI(
        title="Assent",
        version=version("assent"),
        description=_DESCRIPTION,
        openapi_url=None,  # see reference.py for this one too
        docs_url=None,  # FastAPI's own pages fetch scripts from elsewhere; see reference.py
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        door.include_router(router)
    add_document(door)
    if settings.docs == "on":
        add_reference(door)
    handle_errors(door)
    if settings.cors_origins:
        door.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "If-Match",
                "Last-Event-ID",
                "Assent-Reason",
            ],
            expose_headers=["ETag", "Location", "Retry-After", "RateLimit", "RateLimit-Policy", REPLAYED],
        )
    door.add_middleware(TracingMiddleware)
    door.add_middleware(LimitsMiddleware, request_bytes_max=settings.request_bytes_max)
    if settings.allowed_hosts and ANY not in settings.allowed_hosts:
        door.add_middleware(AllowedHosts, hosts=settings.allowed_hosts)
    if settings.access_log == "on":
        door.add_middleware(AccessLog)
    door.openapi = lambda: _openapi(door)  # type: ignore[method-assign]
    return door


def _operation_id(route: APIRoute) -> str:
    return route.name


def _openapi(door: FastAPI) -> dict[str, Any]:
    """The document, with the one shape that all problems have."""
    if door.openapi_schema is None:
        found = get_openapi(
            title=door.title, version=door.version, description=door.description, routes=door.routes
        )
        schemas = found["components"]["schemas"]
        problem = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs") | {"ProblemBody": problem}
        add_examples(found)
        door.openapi_schema = found
    return door.openapi_schema
