"""Values in the URL of a webhook stay where their author put them: in one segment, in one parameter."""

import pytest

from assent.model.problems import Invalid
from tests.receiver import Receiver
from tests.workers import EffectsWorker
from tests.world import insert_org, publish_webhook


async def _sent(effects_worker: EffectsWorker, receiver: Receiver, path: str, value: object) -> str:
    await publish_webhook(effects_worker.database, url=f"{receiver.url}{path}")
    await effects_worker.start("telling", order=7, client=value)
    assert await effects_worker.send() == {"done": 1}
    return receiver.received[-1].path


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("../../admin/delete-all?x=", "/v1/clients/..%2F..%2Fadmin%2Fdelete-all%3Fx%3D/checks"),
        ("a b", "/v1/clients/a%20b/checks"),
        ("%2e%2e", "/v1/clients/%252e%252e/checks"),
        ("x#y", "/v1/clients/x%23y/checks"),
        ("..\\..", "/v1/clients/..%5C../checks"),
        ("Müller", "/v1/clients/M%C3%BCller/checks"),
        (17, "/v1/clients/17/checks"),
    ],
)
async def test_value_in_a_path_stays_one_segment(
    effects_worker: EffectsWorker, receiver: Receiver, value: object, path: str
) -> None:
    assert await _sent(effects_worker, receiver, "/v1/clients/{workflow.client}/checks", value) == path


async def test_value_in_a_query_stays_one_value(effects_worker: EffectsWorker, receiver: Receiver) -> None:
    found = await _sent(
        effects_worker, receiver, "/find?client={workflow.client}&role=guest", "7&role=admin#"
    )
    assert found == "/find?client=7%26role%3Dadmin%23&role=guest"


@pytest.mark.parametrize("value", ["..", ".", "", None])
async def test_segment_that_is_none_fails_the_step_and_sends_nothing(
    effects_worker: EffectsWorker, receiver: Receiver, value: object
) -> None:
    await publish_webhook(
        effects_worker.database, url=f"{receiver.url}/clients/{{workflow.client}}", method="DELETE"
    )
    view = await effects_worker.start("telling", order=7, client=value)
    assert view.status == "paused"
    assert (await effects_worker.step(view.id, "tell"))["output_json"]["error"]["code"] == "BAD_URL"
    assert await effects_worker.effects() == []


async def test_segment_of_text_and_value_cannot_become_a_way_up(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    await publish_webhook(effects_worker.database, url=f"{receiver.url}/a/.{{workflow.client}}/b")
    view = await effects_worker.start("telling", order=7, client=".")
    assert view.status == "paused"
    assert await effects_worker.effects() == []


@pytest.mark.parametrize(
    "url",
    [
        "{workflow.scheme}://erp.example/x",
        "https://{workflow.host}/x",
        "https://erp.example:{workflow.port}/x",
        "https://erp.example{workflow.path}",
        "https://{workflow.user}@erp.example/x",
        "https://{org.host}/x",
        "{workflow.base}/orders",
        "{org.erp_url}{workflow.path}",
        "{org.erp_url}.example/x",
        "erp.example/{workflow.path}",
    ],
)
async def test_value_cannot_stand_where_the_receiver_is_named(
    effects_worker: EffectsWorker, url: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await publish_webhook(effects_worker.database, url=url)
    assert {problem.code for problem in refused.value.problems} == {"VALUE_IN_HOST"}


@pytest.mark.parametrize("url", ["https://us:pw@erp.example/x", "https://us@erp.example/{workflow.x}"])
async def test_url_with_a_password_cannot_be_published(effects_worker: EffectsWorker, url: str) -> None:
    with pytest.raises(Invalid) as refused:
        await publish_webhook(effects_worker.database, url=url)
    (problem,) = refused.value.problems
    assert problem.code == "LITERAL_CREDENTIAL"
    assert "pw" not in problem.message


async def test_setting_of_the_org_is_a_base_as_it_is(
    effects_worker: EffectsWorker, receiver: Receiver
) -> None:
    settings = {"erp_url": f"{receiver.url}/api/v2?tenant=a%20b"}
    async with effects_worker.database.transaction(None) as connection:
        await insert_org(connection, settings=settings)
    await publish_webhook(effects_worker.database, key="whole", url="{org.erp_url}")
    await effects_worker.start("whole", order=7)
    await publish_webhook(effects_worker.database, key="base", url="{org.erp_url}&order={workflow.order}")
    await effects_worker.start("base", order="7&8")
    assert await effects_worker.send() == {"done": 2}
    assert sorted(one.path for one in receiver.received) == [
        "/api/v2?tenant=a%20b",
        "/api/v2?tenant=a%20b&order=7%268",
    ]
