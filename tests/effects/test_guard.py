"""Requests that try to reach what they must not: by a name, by a redirect, by DNS that changes its mind.

Each is tried against a server that really listens there; the control of each shows that it would have been reached.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from assent.effects.addresses import Allowed
from assent.effects.guard import Resolve, resolve
from assent.effects.http import HttpSender
from assent.effects.requests import HttpRequest, HttpResponse
from assent.effects.settings import EffectSettings
from assent.jobs.job import Failed
from tests.receiver import CERTIFICATES, Receiver, ReceiverReply, receiving, redirect_to
from tests.workers import LOCAL

NOTHING = LOCAL.replace(allow=Allowed())
PUBLIC = "8.8.8.8"


def request(url: str, method: str = "POST", **headers: str) -> HttpRequest:
    return HttpRequest(method, httpx.URL(url), headers, b"{}" if method != "GET" else None)


async def send(
    url: str | HttpRequest, settings: EffectSettings = NOTHING, **options: Any
) -> HttpResponse | Failed:
    sender = HttpSender(settings, **options)
    try:
        return await sender.send(request(url) if isinstance(url, str) else url, bytes_max=1_000)
    finally:
        await sender.close()


def names(**hosts: str | list[str]) -> Resolve:
    """A name server that knows these hosts, one answer after the other, the last of them for ever."""
    answers = {
        host.replace("_", "."): [where] if isinstance(where, str) else where for host, where in hosts.items()
    }

    async def look_up(host: str, port: int) -> list[str]:
        if host not in answers:
            return await resolve(host, port)
        found = answers[host]
        return [found.pop(0) if len(found) > 1 else found[0]]

    return look_up


def refused(outcome: HttpResponse | Failed) -> bool:
    return isinstance(outcome, Failed) and outcome.code == "ADDRESS_REFUSED" and outcome.permanent


LOOPBACK_IN_DISGUISE = [
    "127.0.0.1",
    "localhost",
    "2130706433",  # decimal
    "0x7f000001",  # hexadecimal
    "0x7f.1",
    "017700000001",  # octal
    "127.1",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "0",  # the unspecified address leads to this machine
    "0.0.0.0",  # noqa: S104
]


@pytest.mark.parametrize("host", LOOPBACK_IN_DISGUISE)
async def test_loopback_is_refused_however_it_is_written(receiver: Receiver, host: str) -> None:
    assert refused(await send(f"http://{host}:{receiver.port}/"))
    assert receiver.connections == 0


@pytest.mark.parametrize("host", LOOPBACK_IN_DISGUISE)
async def test_control_the_same_is_reached_where_it_is_allowed(receiver: Receiver, host: str) -> None:
    allowed = NOTHING.replace(allow=Allowed.read(["127.0.0.0/8", "0.0.0.0/32", "::1/128"]))
    outcome = await send(f"http://{host}:{receiver.port}/", allowed)
    if host == "localhost" and isinstance(outcome, Failed):
        pytest.skip("this machine has no name for itself")
    assert isinstance(outcome, HttpResponse), outcome
    assert len(receiver.received) == 1


async def test_name_that_leads_inside_is_refused(receiver: Receiver) -> None:
    url = f"http://partner.example:{receiver.port}/"
    assert refused(await send(url, resolve=names(partner_example="127.0.0.1")))
    assert receiver.connections == 0


async def test_control_name_that_an_operator_allows_is_reached(receiver: Receiver) -> None:
    url = f"http://partner.example:{receiver.port}/"
    allowed = NOTHING.replace(allow=Allowed.read(["partner.example"]))
    assert isinstance(await send(url, allowed, resolve=names(partner_example="127.0.0.1")), HttpResponse)


async def test_name_that_mixes_public_and_private_addresses_is_refused(receiver: Receiver) -> None:
    async def both(host: str, port: int) -> list[str]:
        return [PUBLIC, "127.0.0.1"]

    assert refused(await send(f"http://partner.example:{receiver.port}/", resolve=both))


async def test_dns_that_changes_between_judgement_and_connection_gains_nothing(receiver: Receiver) -> None:
    """The first answer is judged and connected to; nobody asks again, so that the second is never used."""
    asked = 0

    async def changing(host: str, port: int) -> list[str]:
        nonlocal asked
        asked += 1
        return ["127.0.0.1"] if asked == 1 else ["127.0.0.2"]

    allowed = NOTHING.replace(allow=Allowed.read(["127.0.0.1"]))
    url = f"http://partner.example:{receiver.port}/"
    assert isinstance(await send(url, allowed, resolve=changing), HttpResponse)
    assert asked == 1
    assert refused(await send(url, allowed, resolve=changing)), "a new connection is judged anew"
    assert receiver.connections == 1


async def test_redirect_to_loopback_is_refused() -> None:
    """From a receiver that is allowed to a server that is not: it really listens, and hears nothing."""
    with receiving() as outside, receiving() as inside:
        outside.will(redirect_to(f"http://127.0.0.1:{inside.port}/secrets"))
        allowed = NOTHING.replace(allow=Allowed.read(["outside.example"]))
        url = f"http://outside.example:{outside.port}/"
        outcome = await send(url, allowed, resolve=names(outside_example="127.0.0.1"))
        assert refused(outcome)
        assert (len(outside.received), inside.connections) == (1, 0)


async def test_redirect_to_a_name_that_leads_inside_is_refused_and_allowed_it_is_followed() -> None:
    with receiving() as outside, receiving() as inside:
        hosts = {"outside_example": "127.0.0.1", "inside_example": "127.0.0.1"}
        url = f"http://outside.example:{outside.port}/"
        for allow, reached in ((["outside.example"], 0), (["outside.example", "inside.example"], 1)):
            outside.will(redirect_to(f"http://inside.example:{inside.port}/"))
            settings = NOTHING.replace(allow=Allowed.read(allow))
            outcome = await send(url, settings, resolve=names(**hosts))
            assert refused(outcome) is not bool(reached)
            assert len(inside.received) == reached


async def test_redirect_that_changes_its_address_on_the_way_back_is_refused(receiver: Receiver) -> None:
    """The receiver redirects to itself, and its name leads elsewhere by then."""
    receiver.will(ReceiverReply(307, b"", {"Location": "/again", "Connection": "close"}))
    allowed = NOTHING.replace(allow=Allowed.read(["127.0.0.1"]))
    changing = names(partner_example=["127.0.0.1", "169.254.169.254"])
    assert refused(await send(f"http://partner.example:{receiver.port}/", allowed, resolve=changing))


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/"])
async def test_redirect_to_another_protocol_is_refused(receiver: Receiver, target: str) -> None:
    receiver.will(redirect_to(target))
    outcome = await send(receiver.url, LOCAL)
    assert isinstance(outcome, Failed)
    assert outcome.permanent


async def test_redirects_are_followed_so_often_and_no_more(receiver: Receiver) -> None:
    receiver.otherwise = lambda _: redirect_to("/again")
    outcome = await send(receiver.url, LOCAL.replace(redirects_max=3))
    assert isinstance(outcome, Failed)
    assert outcome.code == "TOO_MANY_REDIRECTS"
    assert len(receiver.received) == 4


async def test_other_host_sees_neither_signature_nor_credentials_nor_an_authors_headers() -> None:
    secret = {
        "authorization": "Bearer t",
        "cookie": "c=1",
        "webhook-id": "k",
        "webhook-timestamp": "1",
        "webhook-signature": "v1,s",
        "x-api-key": "s",
    }
    harmless = {"idempotency-key": "k", "content-type": "application/json", "user-agent": "Assent"}
    with receiving() as first, receiving() as second:
        first.will(redirect_to("/same"), redirect_to(second.url))
        await send(request(first.url, **secret, **harmless), LOCAL)
        same, other = first.received[1], second.received[0]
    assert {name: same.headers.get(name) for name in secret} == secret
    assert not secret.keys() & other.headers.keys()
    assert {name: other.headers.get(name) for name in harmless} == harmless
    assert other.body == b"{}"


@pytest.mark.parametrize("status", [301, 302])
async def test_redirect_that_would_lose_the_body_is_a_failure_that_names_the_new_place(
    receiver: Receiver, status: int
) -> None:
    receiver.will(redirect_to("/new", status))
    outcome = await send(receiver.url, LOCAL)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("MOVED", True)
    assert "/new" in outcome.message
    receiver.will(redirect_to("/new", status))
    assert isinstance(await send(request(receiver.url, "GET"), LOCAL), HttpResponse), "a GET has none to lose"


async def test_see_other_is_read_with_a_get(receiver: Receiver) -> None:
    receiver.will(redirect_to("/result", 303))
    assert isinstance(
        await send(request(receiver.url, **{"content-type": "application/json"}), LOCAL), HttpResponse
    )
    last = receiver.received[-1]
    assert (last.method, last.path, last.body, "content-type" in last.headers) == (
        "GET",
        "/result",
        b"",
        False,
    )


async def test_connecting_takes_no_longer_than_it_may_also_where_the_name_server_is_silent() -> None:
    async def silent(host: str, port: int) -> list[str]:
        await asyncio.sleep(30)
        return []

    outcome = await send("http://partner.example/", NOTHING.replace(connect_timeout_ms=50), resolve=silent)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.ambiguous, outcome.permanent) == ("TIMEOUT", False, False)


async def test_name_without_an_address_may_have_one_later() -> None:
    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    outcome = await send("http://partner.example/", resolve=nowhere)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("CONNECTION_FAILED", False)


async def test_whole_attempt_takes_no_longer_than_it_may(receiver: Receiver) -> None:
    """A receiver that is never silent for long, and never done."""
    receiver.otherwise = lambda _: redirect_to("/again")
    outcome = await send(receiver.url, LOCAL.replace(redirects_max=20, total_timeout_ms=10))
    assert isinstance(outcome, Failed | HttpResponse)
    # For every request: one of the attempt above may arrive only now.
    receiver.otherwise = lambda _: receiver.silence()
    outcome = await send(receiver.url, LOCAL.replace(read_timeout_ms=30_000, total_timeout_ms=1_000))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.ambiguous) == ("TIMEOUT", True)


async def test_proxy_of_the_environment_is_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind one no address could be judged."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(await send(receiver.url, LOCAL), HttpResponse)


@pytest.fixture
async def secure() -> AsyncIterator[Receiver]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / "receiver.pem", CERTIFICATES / "receiver.key")
    with receiving(context) as receiver:
        yield receiver


async def test_certificate_is_verified_against_the_name_although_an_address_is_connected_to(
    secure: Receiver,
) -> None:
    trusting = ssl.create_default_context(cafile=str(CERTIFICATES / "receiver.pem"))
    found = names(receiver_test="127.0.0.1", other_test="127.0.0.1")
    for host, is_answered in (("receiver.test", True), ("other.test", False)):
        outcome = await send(f"https://{host}:{secure.port}/", LOCAL, resolve=found, ssl_context=trusting)
        assert isinstance(outcome, HttpResponse) is is_answered
    assert isinstance(outcome, Failed)
    assert not outcome.ambiguous
    assert [one.headers["host"] for one in secure.received] == [f"receiver.test:{secure.port}"]


async def test_certificate_that_nobody_vouches_for_is_refused(secure: Receiver) -> None:
    found = names(receiver_test="127.0.0.1")
    outcome = await send(f"https://receiver.test:{secure.port}/", LOCAL, resolve=found)
    assert isinstance(outcome, Failed)
    assert "certificate" in outcome.message.lower()
    assert secure.received == []


async def test_redirect_from_encrypted_to_plain_is_refused(secure: Receiver, receiver: Receiver) -> None:
    trusting = ssl.create_default_context(cafile=str(CERTIFICATES / "receiver.pem"))
    secure.will(redirect_to(receiver.url))
    url, found = f"https://receiver.test:{secure.port}/", names(receiver_test="127.0.0.1")
    outcome = await send(url, LOCAL, resolve=found, ssl_context=trusting)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("INSECURE_REDIRECT", True)
    assert receiver.received == []


@pytest.mark.parametrize("address", ["10.20.30.40", "169.254.169.254", "fd00::17"])
async def test_refusal_does_not_say_what_a_name_leads_to(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await send("http://payroll.internal/x", resolve=names(payroll_internal=address))
    assert refused(outcome)
    assert isinstance(outcome, Failed)
    assert "payroll.internal" in outcome.message
    assert address not in outcome.message
    (record,) = [record for record in caplog.records if record.message == "address refused"]
    assert (record.host, record.refusal) == (  # type: ignore[attr-defined]
        "payroll.internal",
        f"{address} is not an address of the public internet",
    )


async def test_failed_connection_does_not_say_what_a_name_leads_to() -> None:
    """A name that an operator allows may lead to the inside, where its address is nobody's business."""
    settings = LOCAL.replace(allow=Allowed.read(["payroll.internal"]))
    with receiving() as receiver:
        port = receiver.port
    outcome = await send(
        f"http://payroll.internal:{port}/x", settings, resolve=names(payroll_internal="127.0.0.1")
    )
    assert isinstance(outcome, Failed)
    assert outcome.code == "CONNECTION_FAILED"
    assert "payroll.internal" in outcome.message
    assert "127.0.0.1" not in outcome.message
