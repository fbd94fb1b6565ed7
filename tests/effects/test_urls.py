"""Values in the URL of a webhook stay where their author put them: in one segment, in one parameter."""

import pytest

from assent.model.problems import Invalid
from tests.effects.receiver import Receiver
from tests.effects.sending import Office, publish_webhook
from tests.world import insert_org


async def _sent(office: Office, receiver: Receiver, path: str, value: object) -> str:
    await publish_webhook(office.database, url=f"{receiver.url}{path}")
    await office.start("telling", order=7, client=value)
    assert await office.send() == {"done": 1}
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
    office: Office, receiver: Receiver, value: object, path: str
) -> None:
    assert await _sent(office, receiver, "/v1/clients/{workflow.client}/checks", value) == path


async def test_value_in_a_query_stays_one_value(office: Office, receiver: Receiver) -> None:
    found = await _sent(office, receiver, "/find?client={workflow.client}&role=guest", "7&role=admin#")
    assert found == "/find?client=7%26role%3Dadmin%23&role=guest"


@pytest.mark.parametrize("value", ["..", ".", "", None])
async def test_segment_that_is_none_fails_the_step_and_sends_nothing(
    office: Office, receiver: Receiver, value: object
) -> None:
    await publish_webhook(office.database, url=f"{receiver.url}/clients/{{workflow.client}}", method="DELETE")
    view = await office.start("telling", order=7, client=value)
    assert view.status == "paused"
    assert (await office.step(view.id, "tell"))["output_json"]["error"]["code"] == "BAD_URL"
    assert await office.effects() == []


async def test_segment_of_text_and_value_cannot_become_a_way_up(office: Office, receiver: Receiver) -> None:
    await publish_webhook(office.database, url=f"{receiver.url}/a/.{{workflow.client}}/b")
    view = await office.start("telling", order=7, client=".")
    assert view.status == "paused"
    assert await office.effects() == []


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
async def test_value_cannot_stand_where_the_receiver_is_named(office: Office, url: str) -> None:
    with pytest.raises(Invalid) as refused:
        await publish_webhook(office.database, url=url)
    assert {problem.code for problem in refused.value.problems} == {"VALUE_IN_HOST"}


@pytest.mark.parametrize("url", ["https://us:pw@erp.example/x", "https://us@erp.example/{workflow.x}"])
async def test_url_with_a_password_cannot_be_published(office: Office, url: str) -> None:
    with pytest.raises(Invalid) as refused:
        await publish_webhook(office.database, url=url)
    (problem,) = refused.value.problems
    assert problem.code == "LITERAL_CREDENTIAL"
    assert "pw" not in problem.message


async def test_setting_of_the_org_is_a_base_as_it_is(office: Office, receiver: Receiver) -> None:
    settings = {"erp_url": f"{receiver.url}/api/v2?tenant=a%20b"}
    async with office.database.transaction(None) as connection:
        await insert_org(connection, settings=settings)
    await publish_webhook(office.database, key="whole", url="{org.erp_url}")
    await office.start("whole", order=7)
    await publish_webhook(office.database, key="base", url="{org.erp_url}&order={workflow.order}")
    await office.start("base", order="7&8")
    assert await office.send() == {"done": 2}
    assert sorted(one.path for one in receiver.received) == [
        "/api/v2?tenant=a%20b",
        "/api/v2?tenant=a%20b&order=7%268",
    ]
