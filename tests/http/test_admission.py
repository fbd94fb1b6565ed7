"""Who calls is asked before the body is read, for every route; and what a body may be is asked before it is parsed."""

from uuid import UUID

import pytest

from tests.http.application import app
from tests.http.callers import CALLBACKS, PLACE, SETTINGS, bearer, client_of, problem, token, token_of
from tests.http.doors import create_app
from tests.http.route_table import OPERATIONS, SOMETHING, TAKING_BODIES, WRITES, RouteOperation

SIGNED_IN = [operation for operation in OPERATIONS if operation.is_signed_in]
BY_LINK = {"download_by_link", "show_asked_uploads", "hand_in_document"}
BEGINNING = {"show_sign_in", "create_session"}
"""What begins a session: the body is read of a page of this server alone."""
NOT_SIGNED_IN = {"healthz", "readyz", "push_result_by_callback"} | BY_LINK | BEGINNING


async def answer_without_body(
    door, operation: RouteOperation, headers: dict[str, str]
) -> tuple[int, dict[str, str]]:
    """The answer to a request whose body nobody may ask for."""
    path, sent = operation.url(), []

    async def receive():
        raise AssertionError(f"{operation} asked for the body")

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": operation.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": (PLACE, 4711),
        "server": ("assent", 80),
        "state": {},
    }
    await door(scope, receive, send)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def with_body(**headers: str) -> dict[str, str]:
    return {"Host": "assent", "Content-Type": "application/json", "Content-Length": "1000", **headers}


def test_only_health_and_callbacks_are_without_sign_in():
    assert {operation.id for operation in OPERATIONS} - {
        operation.id for operation in SIGNED_IN
    } == NOT_SIGNED_IN


@pytest.mark.parametrize("operation", [each for each in WRITES if each.is_signed_in], ids=str)
async def test_no_body_is_read_of_a_caller_who_is_not_signed_in(door, operation):
    assert (await answer_without_body(door, operation, with_body()))[0] == 401
    bad = with_body(Authorization="Bearer ak_" + "x" * 43)
    assert (await answer_without_body(door, operation, bad))[0] == 401


async def test_no_body_is_read_of_a_session_that_another_page_begins(door):
    (operation,) = [each for each in WRITES if each.id == "create_session"]
    elsewhere = with_body(Origin="https://elsewhere.example", **{"Assent-Client": "web"})
    for headers in (with_body(), elsewhere):
        assert (await answer_without_body(door, operation, headers))[0] == 403


async def test_no_body_is_read_of_a_callback_whose_token_is_none(door):
    (operation,) = [each for each in WRITES if each.id == "push_result_by_callback"]
    assert (await answer_without_body(door, operation, with_body()))[0] == 401


async def test_no_body_is_read_of_a_caller_who_asks_too_often(furnished, clock):
    settings = SETTINGS.replace(
        rate_workflows_per_minute=1, rate_entities_per_minute=1, rate_checks_per_minute=1
    )
    narrow = create_app(app, furnished, settings, CALLBACKS)
    alice = bearer(token(clock.now(), "alice"))
    async with client_of(narrow, alice) as client:
        await client.post("/api/entities/expense", json={"data": {}})
        await client.post("/api/flows/none/start", json={})
        await client.post("/api/definitions/check", json={"sources": []})
    writes = [each for each in WRITES if each.is_signed_in]
    found = {str(each): (await answer_without_body(narrow, each, with_body(**alice)))[0] for each in writes}
    assert set(found.values()) == {429}, found


async def test_requests_without_credentials_are_counted_by_address(furnished):
    door = create_app(app, furnished, SETTINGS.replace(rate_failed_sign_ins_per_minute=3), CALLBACKS)
    async with client_of(door) as client:
        found = [(await client.post("/api/entities/expense", json={})).status_code for _ in range(5)]
    assert found == [401, 401, 401, 429, 429]


async def test_tries_of_callbacks_are_counted_by_address_before_their_bodies(furnished):
    door = create_app(app, furnished, SETTINGS.replace(rate_workflows_per_minute=3), CALLBACKS)
    async with client_of(door) as client:
        found = [(await client.post("/callbacks/x", content=b"{")).status_code for _ in range(5)]
    assert found == [401, 401, 401, 429, 429]


HOSTILE = {
    "deep lists": (b"[" * 5_000 + b"]" * 5_000, {400, 413}),
    "deep objects": (b'{"data":' * 500 + b"1" + b"}" * 500, {400}),
    "many lists": (b'{"data": [' + b",".join([b"[]"] * 60_000) + b"]}", {400, 413}),
    "many keys": (b"{" + b",".join(b'"k%d":1' % n for n in range(60_000)) + b"}", {400, 413}),
    "a key twice": (b'{"data": {"a": 1, "a": 2}}', {400}),
    "a key twice at the top": (b'{"data": {}, "data": {}}', {400}),
    "utf-16": ('{"data": {}}'.encode("utf-16"), {400}),
    "utf-32": ('{"data": {}}'.encode("utf-32"), {400}),
    "latin-1": ('{"data": {"a": "é"}}'.encode("latin-1"), {400}),
    "a surrogate as a value": (b'{"data": {"title": "\\ud800"}, "input": {"a": "\\udc00"}}', {400}),
    "a surrogate as a key": (b'{"data": {"\\ud800": 1}, "input": {"\\udfff": 1}}', {400}),
    "a surrogate deep down": (b'{"data": {"a": [{"b": {"x\\uDABCy": 1}}]}}', {400}),
    "no number": (b'{"data": {"total": NaN}}', {400}),
    "no end": (b'{"data": {"total": ', {400}),
    "an unescaped quote": (b'{"data": """"}', {400}),
}


@pytest.fixture
async def hostile_client(furnished, clock):
    unlimited = SETTINGS.replace(rate_workflows_per_minute=0, rate_entities_per_minute=0, roles_from="token")
    door = create_app(app, furnished, unlimited, CALLBACKS)
    roles = ["clerk", "approver", "finance_manager", "manager", "operator", "admin"]
    async with client_of(door, bearer(token(clock.now(), "adam", roles=roles))) as client:
        yield client


@pytest.mark.parametrize("operation", TAKING_BODIES, ids=str)
async def test_a_hostile_body_is_a_problem_of_the_sender(hostile_client, operation):
    url = operation.url(token=token_of(UUID(SOMETHING)))
    page = {"Assent-Client": "web", "Origin": "http://assent"}
    headers = {"Content-Type": "application/json", "If-Match": "*", **page}
    for name, (body, statuses) in HOSTILE.items():
        answer = await hostile_client.request(operation.method, url, content=body, headers=headers)
        assert answer.status_code in statuses, (name, answer.text)
        assert answer.json()["code"] in {"BAD_JSON", "REQUEST_TOO_LARGE"}, name


async def test_two_surrogates_that_are_one_character_are_a_text(hostile_client):
    body = b'{"data": {"title": "\\ud83d\\ude00 \\\\ud800", "total": 1}}'
    headers = {"Content-Type": "application/json"}
    made = await hostile_client.post("/api/entities/expense", content=body, headers=headers)
    assert made.json()["data"]["title"] == "\U0001f600 \\ud800"


async def test_what_stands_in_a_text_is_not_counted(hostile_client):
    text = '[{,"' * 60_000
    made = await hostile_client.post("/api/entities/expense", json={"data": {"title": text, "total": 1}})
    assert made.status_code in (201, 422), made.text


async def test_a_route_that_needs_little_takes_little(hostile_client):
    little = {"name": "mine", "user": "x" * 70_000}
    refused = await hostile_client.post("/api/keys", json=little)
    assert problem(refused, 413)["code"] == "REQUEST_TOO_LARGE"

    async def parts():
        for _ in range(10):
            yield b" " * 10_000

    refused = await hostile_client.post("/api/keys", content=parts())
    assert problem(refused, 413)["code"] == "REQUEST_TOO_LARGE"
    large = {"data": {"title": "T", "total": 1, "note": "x" * 500_000}}
    assert (await hostile_client.post("/api/entities/expense", json=large)).status_code in (201, 422)


async def test_a_length_beside_a_transfer_encoding_is_refused(door, clock):
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", "Content-Length": "2"}
    async with client_of(door, bearer(token(clock.now(), "alice"))) as client:
        request = client.build_request("POST", "/api/entities/expense", content=b"{}", headers=headers)
        assert {"content-length", "transfer-encoding"} <= set(request.headers)
        refused = await client.send(request)
    assert problem(refused, 400)["code"] == "BAD_REQUEST"
    assert refused.headers["connection"] == "close"
