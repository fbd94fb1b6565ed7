"""The application that uvicorn serves: its routers, its middleware and its exception handlers."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Final
from uuid import UUID

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute

from assent.app import App
from assent.effects.settings import CallbackSettings, DecisionLinkSettings
from assent.http.context import DemoPerson, Services, Transaction
from assent.http.errors import handle_errors
from assent.http.middleware import ANY, AccessLog, AllowedHosts, LimitsMiddleware, TracingMiddleware
from assent.http.openapi import add_document, add_reference, document_of, go_to_reference
from assent.http.replies import REPLAYED
from assent.http.routes import (
    approvals,
    attachments,
    audit,
    chains,
    comments,
    decision_links,
    definitions,
    delegations,
    documents,
    drafts,
    entities,
    entity_history,
    event_sources,
    events,
    filters,
    forms,
    health,
    inbox,
    instances,
    keys,
    mails,
    members,
    nodes,
    operations,
    org,
    outside_requests,
    resources,
    roles,
    rules,
    schedules,
    secrets,
    services,
    sessions,
    streams,
    tasks,
    templates,
    uploads,
    verbs,
)
from assent.http.routes.readable import ReadObject, show_again
from assent.http.routing import Route
from assent.http.settings import HttpSettings
from assent.http.web import add_web, is_built
from assent.runtime.rights import may_read_definitions
from assent.store.database import Database
from assent.telemetry.configure import use_metrics

ROUTERS: Final[Sequence[APIRouter]] = (
    health.router,
    sessions.router,
    instances.router,
    instances.control,
    entities.router,
    entity_history.router,
    attachments.router,
    approvals.router,
    comments.router,
    events.router,
    outside_requests.router,
    outside_requests.workflow,
    documents.router,
    documents.downloads,
    documents.requirements,
    documents.codes,
    uploads.router,
    verbs.router,
    inbox.router,
    decision_links.router,
    delegations.router,
    chains.router,
    forms.router,
    definitions.router,
    drafts.router,
    templates.router,
    members.router,
    roles.router,
    keys.router,
    event_sources.router,
    secrets.router,
    secrets.signing,
    services.router,
    org.router,
    mails.router,
    mails.preferences,
    rules.router,
    filters.router,
    tasks.router,
    resources.router,
    schedules.router,
    audit.router,
    operations.router,
    nodes.router,
    streams.router,
)


OLD_PREFIX: Final = "/ui/workflows"
NEW_PREFIXES: Final = ("/api/flows", "/api/instances")


def aliases() -> APIRouter:
    """Return other ways to the same handlers: the prefix that the first clients used, and HEAD for health."""
    router = APIRouter(route_class=Route)
    for route in (route for each in ROUTERS for route in each.routes if isinstance(route, APIRoute)):
        for prefix in NEW_PREFIXES:
            if route.path.startswith(prefix):
                path = OLD_PREFIX + route.path.removeprefix(prefix)
                methods = sorted(route.methods or ())
                router.add_api_route(
                    path, route.endpoint, methods=methods, name=route.name, include_in_schema=False
                )
    for probe in (health.healthz, health.readyz):
        # Load balancers ask with HEAD; the server sends the headers of GET, without its body.
        router.add_api_route(f"/{probe.__name__}", probe, methods=["HEAD"], include_in_schema=False)
    return router


async def _read_entity(tx: Transaction, name: str) -> object:
    entity_type, _, entity_id = name.partition("/")
    return await entities.read_visible_entity(tx, entity_type, UUID(entity_id))


async def _read_definitions(tx: Transaction, name: str) -> None:
    may_read_definitions(tx.actor)


READERS: Final[Mapping[str, ReadObject]] = {
    "entity": _read_entity,
    "instance": lambda tx, name: instances.read_instance(tx, UUID(name)),
    "approval": lambda tx, name: approvals.read_approval(tx, UUID(name)),
    "question": lambda tx, name: comments.read_question_of_caller(tx, UUID(name)),
    "form": lambda tx, name: forms.read_visible_form(tx, UUID(name)),
    "task": lambda tx, name: tasks.read_visible_task(tx, UUID(name)),
    "definitions": _read_definitions,
    "document": lambda tx, name: documents.read_visible_document(tx, UUID(name)),
    "requirement": lambda tx, name: documents.read_visible_requirement(tx, UUID(name)),
}
"""How the objects that a kept reply shows are read again."""

_DESCRIPTION: Final = """
Workflows for business documents. Every error is `application/problem+json` with a stable `code`.
Lists have pages: `next` of one is `cursor` of the next. A command with an `Idempotency-Key` runs once.
"""


def create_app(  # noqa: PLR0913, PLR0917
    app: App,
    database: Database,
    settings: HttpSettings | None = None,
    callbacks: CallbackSettings | None = None,
    links: DecisionLinkSettings | None = None,
    demo_people: Sequence[DemoPerson] = (),
) -> FastAPI:
    """Return the HTTP application on an open database, which the caller closes."""
    settings = settings or HttpSettings()
    callbacks, links = callbacks or CallbackSettings(), links or DecisionLinkSettings()
    if settings.metrics != "off":
        use_metrics()
    door = bare_app(settings)
    door.state.services = Services(
        app, database, settings, callbacks, partial(show_again, READERS), links, demo_people
    )
    return door


def bare_app(settings: HttpSettings) -> FastAPI:
    """Return the routes with their middleware; without services it can only make its document."""
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
    routers = (*ROUTERS, aliases())
    for router in routers:
        door.include_router(router)
    add_document(door)
    if settings.docs == "on":
        add_reference(door)
    handle_errors(door)
    if settings.web == "on" and is_built():
        paths = (route.path for router in routers for route in router.routes if isinstance(route, APIRoute))
        add_web(door, (*paths, "/docs", "/openapi.json"))
    elif settings.docs == "on":
        go_to_reference(door)
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
    door.openapi = lambda: document_of(door)  # type: ignore[method-assign]
    return door


def _operation_id(route: APIRoute) -> str:
    return route.name
