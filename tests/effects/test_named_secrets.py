"""Secrets that definitions name: sent to the hosts that they are for, and found nowhere else."""

import json
import logging
from typing import Any

import httpx
import pytest

from assent.effects.named_secrets import SecretHost, put_secret
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from assent.store.database import Database
from tests.receiver import Receiver, ReceiverReply, receiving, redirect_to, reply_json
from tests.workers import EffectsWorker
from tests.world import ORG, publish_webhook

VALUE = 'kT8vw-2fQ9x"L'
BEARER = {"Authorization": "Bearer {secret.erp}"}


async def keep(
    database: Database, host: str, name: str = "erp", value: str = VALUE, org_id: str = ORG
) -> None:
    async with database.transaction(None) as connection:
        await put_secret(connection, org_id, name, value, [host], "ann", database.clock.now())


def local(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.port}"


async def tables_with(database: Database, text: str) -> set[str]:
    """The tables that hold a text somewhere, in any column: as it is, in JSON, or in JSON that is kept as text."""
    once = json.dumps(text)[1:-1]
    forms = (text, once, json.dumps(once)[1:-1])
    async with database.transaction(None) as connection:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'assent'")
        found = set()
        for (name,) in names:
            rows = await connection.fetch(f"SELECT to_jsonb(t)::text AS row FROM assent.{name} t")  # noqa: S608
            if any(form in row["row"] for row in rows for form in forms):
                found.add(name)
    return found


async def test_secret_is_sent_and_kept_nowhere_but_in_its_table(
    effects_worker: EffectsWorker, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when the receiver repeats what it was sent, as text, in JSON or in the middle of its answer."""
    await keep(effects_worker.database, local(receiver))
    await publish_webhook(
        effects_worker.database, headers=BEARER | {"X-Order": "{workflow.order}"}, **{"await": True}
    )
    echo = {"you": f"sent Bearer {VALUE}", VALUE: [VALUE]}
    receiver.will(reply_json(echo), ReceiverReply(500, f"bad: {VALUE}".encode()))
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            await effects_worker.start("telling", url=receiver.url, order=7)
        await effects_worker.work()
    assert [one.headers["authorization"] for one in receiver.received] == [f"Bearer {VALUE}"] * 2
    assert await tables_with(effects_worker.database, VALUE) == {"named_secrets"}
    assert VALUE not in caplog.text
    assert not any(VALUE in str(record.__dict__) for record in caplog.records)
    sent, failed = await effects_worker.effects()
    assert sent["payload"]["secret_headers"] == {"Authorization": ["Bearer ", {"secret": "erp"}]}
    assert "[secret erp]" in sent["output"]["body"]
    assert "[secret erp]" in failed["output"]["body"]


async def test_beginning_of_a_secret_at_the_end_of_a_cut_answer_is_not_kept(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await keep(effects_worker.database, local(receiver))
    await publish_webhook(effects_worker.database, headers=BEARER)
    receiver.will(ReceiverReply(200, b"x" * (4_096 - 10) + VALUE.encode() * 3))
    await effects_worker.start("telling", url=receiver.url, order=7)
    assert await effects_worker.send() == {"done": 1}
    assert VALUE[:4] not in (await effects_worker.effect())["output"]["body"]


@pytest.mark.parametrize(
    "host", ["erp.example", "http://127.0.0.1:1", "127.0.0.1", "https://127.0.0.1:{port}", "*.127.0.0.1"]
)
async def test_secret_is_not_sent_to_another_host(
    effects_worker: EffectsWorker, receiver: Receiver, host: str
) -> None:
    await keep(effects_worker.database, host.replace("{port}", str(receiver.port)))
    await publish_webhook(effects_worker.database, headers=BEARER)
    await effects_worker.start("telling", url=receiver.url, order=7)
    assert await effects_worker.send() == {"dead": 1}
    assert receiver.received == []
    error = (await effects_worker.effect())["error"]
    assert error.startswith("SECRET_NOT_FOR_HOST: the secret `erp` is not for http://127.0.0.1")
    assert VALUE not in error


async def test_secret_does_not_follow_a_redirect_elsewhere(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await keep(effects_worker.database, local(receiver))
    await publish_webhook(effects_worker.database, headers=BEARER)
    with receiving() as other:
        receiver.will(redirect_to(other.url))
        await effects_worker.start("telling", url=receiver.url, order=7)
        assert await effects_worker.send() == {"done": 1}
        (received,) = other.received
    assert "authorization" not in received.headers


async def test_secret_that_is_not_there_is_a_dead_letter(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    """Another org's of the same name is none of ours."""
    await keep(effects_worker.database, local(receiver), org_id="globex")
    await publish_webhook(effects_worker.database, headers=BEARER)
    await effects_worker.start("telling", url=receiver.url, order=7)
    assert await effects_worker.send() == {"dead": 1}
    assert (await effects_worker.effect())["error"] == "SECRET_MISSING: there is no secret `erp`"
    assert receiver.received == []


async def test_each_org_sends_its_own(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await keep(effects_worker.database, local(receiver), value="globex-own-token", org_id="globex")
    await keep(effects_worker.database, local(receiver))
    await publish_webhook(effects_worker.database, headers=BEARER)
    await effects_worker.start("telling", url=receiver.url, order=7)
    assert await effects_worker.send() == {"done": 1}
    assert receiver.received[0].headers["authorization"] == f"Bearer {VALUE}"


async def test_data_cannot_name_a_secret(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    await keep(effects_worker.database, local(receiver))
    forged = {"secret": "erp"}
    await publish_webhook(
        effects_worker.database,
        headers=BEARER | {"X-Note": "{workflow.note}", "X-Other": "of {workflow.note}"},
    )
    for note in ("{secret.erp}", json.dumps(forged)):
        await effects_worker.start("telling", url=receiver.url, order="{secret.erp}", note=note)
    assert await effects_worker.send() == {"done": 2}
    for received in receiver.received:
        assert VALUE not in received.headers["x-note"] + received.headers["x-other"]
        assert VALUE.encode() not in received.body


async def test_header_that_cannot_be_said_does_not_show_its_secret(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await keep(effects_worker.database, local(receiver))
    await publish_webhook(effects_worker.database, headers={"X-Api-Key": "{secret.erp} {workflow.order}"})
    await effects_worker.start("telling", url=receiver.url, order="7\r\nX-Evil: 1")
    await effects_worker.start("telling", url=receiver.url, order=" ")
    assert await effects_worker.send() == {"dead": 1, "done": 1}
    assert await tables_with(effects_worker.database, VALUE) == {"named_secrets"}
    assert [one.headers["x-api-key"] for one in receiver.received] == [VALUE]


CREDENTIALS = [
    "Authorization",
    "x-api-key",
    "X-Auth-Token",
    "Cookie",
    "Ocp-Apim-Subscription-Key",
    "Private-Token",
]


@pytest.mark.parametrize("header", CREDENTIALS)
@pytest.mark.parametrize("text", ["Bearer abc", "{workflow.token}", "{org.token}", "x {{secret.erp}}"])
async def test_credential_that_is_no_secret_cannot_be_published(
    database: Database, header: str, text: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await publish_webhook(database, headers={header: text})
    (problem,) = refused.value.problems
    assert (problem.code, problem.path) == ("LITERAL_CREDENTIAL", ("steps", 0, "headers", header))
    assert "{secret.name}" in (problem.hint or "")
    await publish_webhook(database, headers={header: "{secret.erp}", "X-Order": text.replace("x ", "")})


@pytest.mark.parametrize(
    "step",
    [
        {"headers": {"X-A": "{secret.erp == 'x'}"}},
        {"headers": {"X-A": "{secret}"}},
        {"headers": {"X-A": "{secret.erp.part}"}},
        {"headers": {"X-A": "{secret.ERP}"}},
        {"url": "https://erp.example/{secret.erp}"},
        {"url": "https://erp.example/?key={secret.erp}"},
        {"body": {"token": "{secret.erp}"}},
    ],
)
async def test_secret_stands_alone_and_in_headers_only(database: Database, step: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await publish_webhook(database, **step)


@pytest.mark.parametrize(
    ("entry", "url", "fits"),
    [
        ("erp.example", "https://erp.example/x", True),
        ("ERP.example", "https://erp.EXAMPLE./x", True),
        ("erp.example", "https://erp.example:443/x", True),
        ("erp.example", "http://erp.example/x", False),
        ("erp.example", "https://erp.example:8443/x", False),
        ("erp.example:8443", "https://erp.example:8443/x", True),
        ("erp.example", "https://xerp.example/x", False),
        ("erp.example", "https://sub.erp.example/x", False),
        ("erp.example", "https://erp.example.evil.example/x", False),
        ("*.erp.example", "https://sub.erp.example/x", True),
        ("*.erp.example", "https://a.sub.erp.example/x", True),
        ("*.erp.example", "https://erp.example/x", False),
        ("*.erp.example", "https://xerp.example/x", False),
        ("http://erp.example", "http://erp.example/x", True),
        ("http://erp.example", "https://erp.example/x", False),
    ],
)
def test_host_is_the_very_one(entry: str, url: str, fits: bool) -> None:
    host = SecretHost.read(entry)
    assert host is not None
    assert host.fits(httpx.URL(url)) is fits


@pytest.mark.parametrize(
    ("name", "value", "hosts"),
    [
        ("Erp", VALUE, ["erp.example"]),
        ("", VALUE, ["erp.example"]),
        ("erp", "short", ["erp.example"]),
        ("erp", "two\nlines-of-it", ["erp.example"]),
        ("erp", "ümlauts-and-more", ["erp.example"]),
        ("erp", VALUE, []),
        ("erp", VALUE, ["*"]),
        ("erp", VALUE, ["*.example"]),
        ("erp", VALUE, ["https://erp.example/path"]),
        ("erp", VALUE, ["us:pw@erp.example"]),
        ("erp", VALUE, ["erp.example:0"]),
        ("erp", VALUE, ["erp.example"] * 21),
    ],
)
async def test_what_is_no_secret_is_refused_without_showing_it(
    database: Database, name: str, value: str, hosts: list[str]
) -> None:
    async with database.transaction(None) as connection:
        with pytest.raises(Refused) as refused:
            await put_secret(connection, ORG, name, value, hosts, "ann", database.clock.now())
    assert value not in refused.value.rejection.message
