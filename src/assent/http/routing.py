"""Routes: how every request is handled, written once.

    admit (sign in, scope, rate) → read the body → verify its signature → parse it → begin → find the kept reply
        → call the handler → keep the reply → commit, again if it lost a race → note a refused command

A handler takes a `Transaction`, or a `RequestContext` if it needs none, then the parameters and the body of the
request. It returns a body or a `Reply`. It may run more than once: only what it does in its transaction counts.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from assent.bodies.problems import Names
from assent.http.auth.admission import admit_caller, context_of_command, context_of_query
from assent.http.context import RequestContext, services_of
from assent.http.problems import documented, problem_reply
from assent.http.refusals import note_command
from assent.http.replies import RepeatKey, Reply, reply_with
from assent.http.request_bodies import closing_refused, file_of, file_parts, is_json, read_body, read_json
from assent.http.settings import RateClass
from assent.model.mutation import Refused, Rejection
from assent.model.problems import did_you_mean
from assent.people.api_keys import Scope
from assent.runtime.core import OrgScope
from assent.runtime.file_commands import receive_file
from assent.store.commit import CommitProof
from assent.store.database import Connection
from assent.store.errors import OutcomeUnknown

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
Check = Callable[[Request], Awaitable[None]]
"""Raises `Refused` for a request that goes no further."""
NO_NAMES: Final[Names] = MappingProxyType({})
NO_RESPONSES: Final[Mapping[int | str, dict[str, Any]]] = MappingProxyType({})
FILE_CONTENT: Final[dict[str, Any]] = {
    "*/*": {"schema": {"type": "string", "format": "binary"}, "example": "%PDF-1.7 …"}
}
_BODIES: Final = ("body", "data")
"""The parameters of handlers that are the body of the request."""


async def _admit_all(request: Request) -> None:
    """Admit every request."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What a request must pass before its body is parsed."""

    admit: Check = _admit_all
    """Checks the head, before the body is read."""
    verify: Check | None = None
    """Checks the bytes of the body, such as a signature."""
    takes_documents: bool = False
    """Whether a body may be as large as the server allows."""
    takes_file: bool = False
    """Whether the body is a file, which the handler reads as it comes."""
    refuses_unknown: bool = False
    """Whether a query parameter that the route does not have is refused. A misspelled filter would show everything."""


OPEN: Final = Admission()


class Route(APIRoute):
    """A route that admits a request before it reads the body; FastAPI alone would read and parse the body first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        admission: Admission = getattr(self.endpoint, "admission", OPEN)
        takes_json = self.body_field is not None
        known = _query_parameters(self.dependant)

        async def admit_and_handle(request: Request) -> Response:
            await admission.admit(request)
            if admission.refuses_unknown:
                _refuse_unknown(request, known)
            if request.method not in ("GET", "HEAD") and not admission.takes_file:
                settings = services_of(request).settings
                large, small = settings.request_bytes_max, settings.small_request_bytes_max
                takes_documents = admission.takes_documents and takes_json
                body = await read_body(request, large if takes_documents else min(large, small))
                if admission.verify is not None:
                    await admission.verify(request)
                if body and takes_json and is_json(request) and not hasattr(request, "_json"):
                    request._json = read_json(body, settings.request_elements_max)
            return await handle(request)

        return admit_and_handle


def _query_parameters(dependant: Dependant) -> frozenset[str]:
    """Return the names of the query parameters that a route takes, those of its dependencies included."""
    own = (field.alias for field in dependant.query_params)
    return frozenset(own).union(*map(_query_parameters, dependant.dependencies))


def _refuse_unknown(request: Request, known: frozenset[str]) -> None:
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        name = unknown[0]
        takes = f"takes {', '.join(sorted(known))}" if known else "takes no parameters"
        hint = did_you_mean(name, known) or f"{request.url.path} {takes}"
        raise Refused(
            Rejection("UNKNOWN_KEY", f"`{name}` is not a parameter here", ("query", name), hint=hint)
        )


@dataclass(frozen=True, slots=True)
class Operation:
    """A handler with what its route knows about it."""

    handler: Handler
    status: int
    names: Names
    owner_for: str | None = None
    """The capability that lets a caller work with rows that only the owner of the tables may read, such as secrets."""
    grouped: bool = False
    """Whether it may share a transaction with others; see `Router.command`."""
    takes_context: bool = False
    """Whether the handler takes a `RequestContext`, and begins no transaction or its own."""

    async def query(self, context: RequestContext, **arguments: Any) -> Response:
        """Call a handler that only reads."""
        if self.owner_for is not None:
            context.require(self.owner_for)
        if self.takes_context:
            result = await self.handler(context, **arguments)
        else:
            org_id = None if self.owner_for is not None else context.org_id
            result = await context.read_as(org_id, self.handler, **arguments)
        return result if isinstance(result, Response) else self._reply(result).response(_root_path(context))

    async def command(self, context: RequestContext, **arguments: Any) -> Response:
        """Call a handler once in a transaction: under a key that was used before, the caller gets the kept reply."""
        if self.owner_for is not None:
            context.require(self.owner_for)
        call = partial(self.handler, **arguments)
        if self.grouped and context.repeat_key is None:
            return (await self._run_grouped(context, call)).response(_root_path(context))
        repeat, proof, refused = await context.repeat_of(), CommitProof(), list[Rejection]()
        run = partial(
            context.database.run,
            partial(self._attempt, context, call, repeat, proof, refused),
            org_id=None if self.owner_for is not None else context.org_id,
            plans="kept",
            by=context.by,
            proof=proof,
        )
        reply: Reply[Any] = await (run() if repeat is None else _run_until_known(run))
        context.request.state.is_done = True
        for rejection in refused:
            await _note(context, rejection)
        return reply.response(_root_path(context))

    async def upload(self, context: RequestContext, check: "CheckUpload", **arguments: Any) -> Response:
        """Check a command, take its file in, and call its handler with it. No transaction is open while bytes flow.

        Under an `Idempotency-Key` the hash of the bytes stands for them.
        """
        request, scope = context.request, context.org_runtime().scope
        with closing_refused():
            bytes_max = await check(scope, arguments)
            described = file_of(request, arguments.get("name"))
            async with receive_file(scope, file_parts(request, bytes_max), described, bytes_max) as file:
                request._body = file.sha256.encode()
                return await self.command(context, file=file, **arguments)

    async def _attempt(  # noqa: PLR0913, PLR0917
        self,
        context: RequestContext,
        call: Handler,
        repeat: RepeatKey | None,
        proof: CommitProof,
        refused: list[Rejection],
        connection: Connection,
    ) -> Reply[Any]:
        """Run a command in a transaction that may have to be repeated. A refusal is a reply too, and is kept."""
        refused.clear()
        now = context.now()
        runtime, joined = context.joined_runtime(connection)
        tx = context.transaction(runtime, connection)
        if repeat is not None and (kept := await repeat.find(connection, now)) is not None:
            return await context.services.show_again(tx, kept)
        try:
            reply = self._reply(await call(tx))
        except Refused as refusal:
            refused.append(refusal.rejection)
            reply = self._problem(context, refusal.rejection)
        proof.audit_id = next(iter(joined.audit_ids), None)
        if repeat is not None:
            keep = timedelta(hours=context.services.settings.idempotency_keep_hours)
            await repeat.keep(connection, reply.again or reply, now, keep)
        return reply

    async def _run_grouped(self, context: RequestContext, call: Handler) -> Reply[Any]:
        """Run a command that may share a transaction with others: without a key, no reply is stored with it."""
        try:
            async with AsyncExitStack() as stack:
                return self._reply(await call(context.transaction(context.org_runtime(), None, stack)))
        except Refused as refusal:
            await _note(context, refusal.rejection)
            return self._problem(context, refusal.rejection)

    def _reply(self, result: Reply[Any] | BaseModel) -> Reply[Any]:
        return result if isinstance(result, Reply) else reply_with(result, self.status)

    def _problem(self, context: RequestContext, rejection: Rejection) -> Reply[Any]:
        is_stale = rejection.code == "VERSION_CONFLICT" and context.condition is not None
        path = context.request.url.path
        return problem_reply(rejection, path, names=self.names, status=412 if is_stale else None)


CheckUpload = Callable[[OrgScope, Mapping[str, Any]], Awaitable[int]]
"""Returns how many bytes a file may have; raises `Refused` for a command that would be refused without its file."""


async def _run_until_known(run: Callable[[], Awaitable[Reply[Any]]]) -> Reply[Any]:
    """Run a command under an `Idempotency-Key`; if its outcome is unknown, the kept reply of a second run tells it."""
    try:
        return await run()
    except OutcomeUnknown as unknown:
        try:
            return await run()
        except Exception as error:
            raise unknown from error


def _root_path(context: RequestContext) -> str:
    """Return the path under which an application has mounted the API; empty for none."""
    found: str = context.request.scope.get("root_path", "")
    return found


async def _note(context: RequestContext, rejection: Rejection) -> None:
    await note_command(context.database, context.caller, context.request, rejection, context.reason)


class Router(APIRouter):
    """A router of queries and commands. `errors` are the statuses of the handler's own refusals.

    The statuses of a missing sign-in, a bad or large body and a bad parameter are documented without being named.
    """

    def __init__(self, *, takes_documents: bool = False, **options: Any) -> None:
        super().__init__(route_class=Route, **options)
        self._takes_documents = takes_documents

    def query(  # noqa: PLR0913
        self,
        path: str,
        *,
        scope: Scope,
        rate: RateClass = "reads",
        method: str = "GET",
        owner_for: str | None = None,
        errors: Sequence[int] = (),
        **options: Any,
    ) -> Callable[[H], H]:
        """Register a handler that changes nothing."""

        def register(handler: H) -> H:
            operation = Operation(handler, 200, NO_NAMES, owner_for, takes_context=_takes_context(handler))
            admission = Admission(
                _admit(scope, rate), takes_documents=self._takes_documents, refuses_unknown=True
            )
            endpoint = _endpoint(handler, operation.query, context_of_query, admission)
            self._add(path, method, handler, endpoint, errors, options)
            return handler

        return register

    def command(  # noqa: PLR0913
        self,
        path: str,
        *,
        scope: Scope,
        rate: RateClass,
        method: str = "POST",
        status: int = 200,
        owner_for: str | None = None,
        grouped: bool = False,
        names: Names = NO_NAMES,
        verify: Check | None = None,
        errors: Sequence[int] = (),
        **options: Any,
    ) -> Callable[[H], H]:
        """Register a handler that changes something.

        `names` translates the paths of problems. A `grouped` command without an `Idempotency-Key` may share a
        transaction: its handler calls one command of the runtime, and then `begin_reading`.
        """

        def register(handler: H) -> H:
            operation = Operation(handler, status, names, owner_for, grouped)
            admission = Admission(_admit(scope, rate), verify, self._takes_documents, refuses_unknown=True)
            endpoint = _endpoint(handler, operation.command, context_of_command, admission)
            self._add(
                path, method, handler, endpoint, (*errors, 413, 422), {"status_code": status, **options}
            )
            return handler

        return register

    def upload(  # noqa: PLR0913
        self,
        path: str,
        *,
        scope: Scope,
        rate: RateClass,
        check: CheckUpload,
        method: str = "PUT",
        status: int = 201,
        errors: Sequence[int] = (),
        **options: Any,
    ) -> Callable[[H], H]:
        """Register a command whose body is a file: its handler gets the `file` that came."""

        def register(handler: H) -> H:
            operation = Operation(handler, status, NO_NAMES)
            run = partial(operation.upload, check=check)
            admission = Admission(_admit(scope, rate), takes_file=True, refuses_unknown=True)
            endpoint = _endpoint(handler, run, context_of_command, admission, leaves=("file",))
            body = {"requestBody": {"required": True, "content": FILE_CONTENT}}
            options.setdefault("openapi_extra", body)
            options["status_code"] = status
            self._add(path, method, handler, endpoint, (*errors, 400, 409, 413, 422, 503), options)
            return handler

        return register

    def unsigned(
        self,
        path: str,
        *,
        method: str = "POST",
        admission: Admission = OPEN,
        errors: Sequence[int] = (),
        responses: Mapping[int | str, dict[str, Any]] = NO_RESPONSES,
        **options: Any,
    ) -> Callable[[H], H]:
        """Register a plain FastAPI endpoint for callers who do not sign in; it begins its own transactions."""

        def register(endpoint: H) -> H:
            endpoint.admission = admission  # type: ignore[attr-defined]
            documents = {**responses, **documented(*errors, signs_in=False)}
            self.add_api_route(path, endpoint, methods=[method], responses=documents, **options)
            return endpoint

        return register

    def _add(  # noqa: PLR0913, PLR0917
        self,
        path: str,
        method: str,
        handler: Handler,
        endpoint: Handler,
        errors: Sequence[int],
        options: dict[str, Any],
    ) -> None:
        taken = inspect.signature(handler).parameters
        sent = (400, 413) if not taken.keys().isdisjoint(_BODIES) else ()
        own = options.pop("responses", {})
        self.add_api_route(
            path,
            endpoint,
            methods=[method],
            name=handler.__name__,
            response_model=_model_of(handler),
            responses={**own, **documented(*errors, *sent, 422)},
            **options,
        )


def _admit(scope: Scope, rate: RateClass) -> Check:
    return partial(admit_caller, scope=scope, rate=rate)


def _endpoint(
    handler: Handler, run: Handler, context: Handler, admission: Admission, leaves: Sequence[str] = ()
) -> Handler:
    """Return the function that FastAPI calls: it takes what the handler takes, with the context for the transaction.

    What it `leaves` is not of the request: the operation gives it to the handler.
    """

    async def endpoint(context: RequestContext, **arguments: Any) -> Response:
        response: Response = await run(context, **arguments)
        return response

    _, *parameters = inspect.signature(handler).parameters.values()
    depends = Annotated[RequestContext, Depends(context)]
    first = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=depends)
    rest = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters if each.name not in leaves
    ]
    endpoint.__signature__ = inspect.Signature([first, *rest])  # type: ignore[attr-defined]
    endpoint.__name__, endpoint.__doc__ = handler.__name__, handler.__doc__
    endpoint.admission = admission  # type: ignore[attr-defined]
    return endpoint


def _takes_context(handler: Handler) -> bool:
    first = next(iter(inspect.signature(handler).parameters.values()))
    return first.annotation is RequestContext


def _model_of(handler: Handler) -> Any:
    """Return the shape of a handler's body for the document of the API; None if it returns a response."""
    returned = inspect.signature(handler).return_annotation
    if get_origin(returned) is Reply:
        return get_args(returned)[0]
    return returned if isinstance(returned, type) and issubclass(returned, BaseModel) else None
