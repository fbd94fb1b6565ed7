"""A server answers only to its own names, its pages are nobody's to frame, and keys come by ways nobody can change."""

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from assent.http.middleware import AllowedHosts, hosts_of
from assent.http.settings import HttpSettings
from assent.model.problems import Invalid
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SETTINGS, client_of, problem
from tests.http.doors import create_app
from tests.http.process import server
from tests.http.test_reference import browser


@pytest.mark.parametrize(
    ("bound", "changes", "hosts"),
    [
        ("127.0.0.1", {}, ("localhost", "127.0.0.1", "[::1]", "127.0.0.1")),
        ("::1", {}, ("localhost", "127.0.0.1", "[::1]", "[::1]")),
        ("192.0.2.1", {}, ("*",)),
        ("127.0.0.1", {"trusted_proxies": ("127.0.0.1",)}, ("*",)),
        ("127.0.0.1", {"allowed_hosts": ("a.example",)}, ("a.example",)),
        ("192.0.2.1", {"allowed_hosts": ("a.example",)}, ("a.example",)),
    ],
)
def test_without_a_word_only_names_of_this_machine_reach_a_server_of_this_machine(bound, changes, hosts):
    assert tuple(hosts_of(SETTINGS.replace(**changes), bound)) == hosts


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("a.example", 200),
        ("A.EXAMPLE:8000", 200),
        ("a.example.:8000", 200),
        ("x.b.example", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("b.example", 400),
        ("evil.example", 400),
        ("a.example.evil.example", 400),
        ("xa.example", 400),
        ("a.example:8000:1", 400),
        ("::1", 400),
        ("", 400),
    ],
)
async def test_a_request_to_another_name_is_refused(furnished, host, status):
    allowed = ("a.example", "*.b.example", "[::1]")
    async with client_of(create_app(app, furnished, SETTINGS.replace(allowed_hosts=allowed))) as client:
        answer = await client.get("/healthz", headers={"Host": host})
    assert answer.status_code == status
    if status == 400:
        assert problem(answer, 400)["code"] == "HOST_REFUSED"


async def test_a_server_of_this_machine_refuses_a_name_of_elsewhere(database_url):
    async with server(database_url) as served, httpx.AsyncClient(base_url=served.url) as client:
        assert (await client.get("/healthz")).status_code == 200
        rebound = await client.get("/healthz", headers={"Host": "attacker.example"})
        assert problem(rebound, 400)["code"] == "HOST_REFUSED"


async def test_whatever_is_no_request_goes_on():
    seen = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    await AllowedHosts(inner, ["a"])({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]


async def test_every_page_says_who_may_frame_it_and_what_it_may_load():
    async with browser() as client:
        page = await client.get("/docs")
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "script-src 'self' 'sha256-" in policy
        assert "unsafe-inline'; img" in policy.partition("style-src")[2]
        assert "unsafe" not in policy.partition("style-src")[0]
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "place", ["http://id.example/keys", "http://127.0.0.1.example/keys", "ftp://id.example/k"]
)
def test_keys_that_anybody_on_the_way_can_change_are_not_taken(place):
    with pytest.raises(Invalid) as refused:
        HttpSettings(jwks=place, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
    assert [problem.path for problem in refused.value.problems] == [("ASSENT_HTTP_JWKS",)]


@pytest.mark.parametrize(
    "place", ["https://id.example/keys", "http://127.0.0.1:9/keys", "http://[::1]/k", "keys.json"]
)
def test_keys_come_by_https_from_a_file_or_from_this_machine(place):
    assert HttpSettings(jwks=place, jwt_issuer=ISSUER, jwt_audience=AUDIENCE).takes_tokens
