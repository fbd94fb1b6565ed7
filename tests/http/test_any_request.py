"""Any request at all: what the OpenAPI document permits, and what it does not, gets an answer that it names.

The server is a real one, in a thread of this process; most ids are of things that are there.
"""

import zlib
from copy import deepcopy
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_schema_conformance,
    status_code_conformance,
)

from assent.http.settings import HttpSettings
from tests.http.application import CHAIN, INVOICE_DATA, LEAVE
from tests.http.callers import AUDIENCE, ISSUER, SECRET, bearer, token, token_of
from tests.http.doors import serving
from tests.http.route_table import DOCUMENT

EXAMPLES_MAX = 7
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    ignored_auth,
]
UNLIMITED = HttpSettings(
    jwt_key=SECRET,
    jwt_issuer=ISSUER,
    jwt_audience=AUDIENCE,
    roles_from="token",
    rate_workflows_per_minute=0,
    rate_entities_per_minute=0,
    rate_reads_per_minute=0,
    rate_checks_per_minute=0,
    rate_failed_sign_ins_per_minute=0,
)
ROLES = ["clerk", "approver", "finance_manager", "manager", "operator", "admin"]
STREAMS = ["stream_instance", "stream_inbox", "stream_task"]
"""They have no end; `test_streams` hears them."""

there: dict[str, list[str]] = {}
"""Path parameter → things that are there, known when the server runs."""

schema = schemathesis.openapi.from_dict(deepcopy(DOCUMENT)).exclude(operation_id=STREAMS)


@schema.hook
def map_path_parameters(context, path_parameters):
    """Random ids find nothing; most requests are about something real."""
    given = path_parameters or {}
    chosen = {name: zlib.crc32(str(value).encode()) for name, value in given.items() if name in there}
    known = {name: there[name][number % len(there[name])] for name, number in chosen.items() if number & 7}
    return {**given, **known}


@pytest.fixture(scope="module")
async def database_of_all(databases, furnished_template):
    async with databases.fresh(furnished_template) as url:
        yield url


@pytest.fixture(scope="module")
def server(database_of_all):
    with serving(database_of_all, UNLIMITED) as (host, port):
        url = f"http://{host}:{port}"
        _furnish(url)
        yield url


def _furnish(url: str) -> None:
    with httpx.Client(base_url=url, headers=_headers("alice"), timeout=60) as client:
        invoice = client.post("/api/entities/invoice", json={"data": INVOICE_DATA}).json()
        moved = client.post(f"/api/entities/invoice/{invoice['id']}/transitions/submit").json()
        expense = client.post("/api/entities/expense", json={"data": {"title": "T", "total": 1}}).json()
        flows = [client.post(f"/api/flows/{flow}/start", json={}).json() for flow in ("pair", "survey")]
        client.post("/api/flows/screening/start", json={"client": "c-1"})
        (asked,) = client.get("/api/outside-requests").json()["items"]
    with httpx.Client(base_url=url, headers=_headers("adam"), timeout=60) as client:
        drafts = [client.post("/api/drafts", json={"source": LEAVE | {"flow": flow}}) for flow in ("a", "b")]
        client.post(f"/api/drafts/{drafts[0].json()['id']}/publish", headers={"If-Match": "*"})
        found = client.get("/api/definitions?own=true").json()["items"]
        delegation = client.post("/api/delegations", json={"to_user": "max"}).json()
        key = client.post("/api/keys", json={"name": "mine"}).json()
        client.put("/api/approval-chains/submit", json=CHAIN)
        client.post("/api/event-sources", json={"name": "submit", "key_prefix": "payment:"})
        client.post("/api/members", json={"user_id": "dora", "name": "Dora"})
        task = {"type": "report.build", "input": {"month": "May"}}
        tasks = [client.post("/api/tasks", json=task).json() for _ in range(3)]
    there.update(
        task_id=[one["id"] for one in tasks],
        definition_id=[definition["id"] for definition in found],
        other_id=[definition["id"] for definition in found],
        step_id=[flows[1]["steps"][0]["step_id"]],
        taken_id=[flow["steps"][0]["step_id"] for flow in flows],
        delegation_id=[delegation["id"]],
        key_id=[key["id"]],
        user_id=["dora"],
        role=["clerk", "nobody"],
        key=["payment:7", "k"],
        flow=["pair", "survey", "orders.approval"],
        entity_type=["expense", "invoice"],
        entity_id=[invoice["id"], expense["id"]],
        instance_id=[moved["instance"]["id"], *(flow["id"] for flow in flows)],
        request_id=[moved["instance"]["steps"][0]["request_id"], asked["id"]],
        token=[
            token_of(UUID(asked["id"]), at=datetime.now(UTC)),
            token_of(uuid4(), at=datetime.now(UTC)),
            "x",
        ],
        verb=["update", "amend", "round"],
        name=["submit", "approve", "post", "cancel"],
        a=["1", "2"],
        b=["1", "2"],
    )


def _headers(user: str) -> dict[str, str]:
    return bearer(token(datetime.now(UTC), user, roles=ROLES))


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_MAX,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_any_request_gets_an_answer_that_the_document_names(case, server):
    headers = {**_headers("max"), "Idempotency-Key": str(uuid4())}
    headers |= {"If-Match": "*"} if case.method == "PATCH" else {}
    case.call_and_validate(base_url=server, headers=headers, checks=CHECKS)
