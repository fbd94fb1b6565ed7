"""The page about results says what is so: its flow, its bundle, its calls, its queries and its variables are real."""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from assent.definitions import publish_flow
from assent.effects.settings import CallbackSettings
from assent.http.app import bare_app
from assent.model.actor import SYSTEM
from assent.model.moves import OUTSIDE_REQUEST_MOVES
from assent.model.outside_request import Bundle, BundleItem, parse_bundle
from assent.refusals import TITLES
from assent.requests.messages import StreamMessage, StreamResult, StreamSource, read_message
from assent.transports.settings import StreamSettings
from tests.http.callers import SETTINGS
from tests.settings import defaults_of, read_from
from tests.workers import ResultsWorker
from tests.world import ORG

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
async def asked(results_worker: ResultsWorker) -> UUID:
    (flow,) = blocks("yaml")
    async with results_worker.database.transaction(None) as connection:
        await publish_flow(connection, ORG, yaml.safe_load(flow), SYSTEM, results_worker.clock.now())
    await results_worker.start("kyc.onboarding")
    found: UUID = (await results_worker.request())["id"]
    return found


async def test_the_flow_asks_and_the_bundle_is_one_of_its_results(
    results_worker: ResultsWorker, asked: UUID
) -> None:
    request = await results_worker.request()
    assert (request["name"], request["expected"]) == ("kyc.onboarding.screening", 2)
    bundle = json.loads(blocks("json")[0])
    assert parse_bundle(bundle)[1] == []
    await results_worker.runtime.org(ORG).requests.push_result(asked, bundle["key"], bundle["items"])
    await results_worker.work()
    assert (await results_worker.request())["status"] == "partial"


async def test_the_calls_in_python_are_calls(results_worker: ResultsWorker, asked: UUID) -> None:
    (code,) = blocks("python")
    async with results_worker.database.transaction(None) as session:
        given = {"runtime": results_worker.runtime, "request_id": asked, "session": session}
        body = "async def page():\n" + "".join(f"    {line}\n" for line in code.splitlines())
        exec(body, given)  # noqa: S102 - the page is ours
        await given["page"]()
    assert [row["key"] for row in await results_worker.deliveries()] == ["evt_17", "evt_18", "evt_19"]


async def test_the_call_in_sql_is_a_call(results_worker: ResultsWorker, asked: UUID) -> None:
    sql = blocks("sql")[0].replace("01890a5d-ac96-774b-bcce-b302099a8057", str(asked)).rstrip(";\n")
    async with results_worker.database.transaction(ORG) as connection:
        assert await connection.fetchval(sql) == "accepted"


async def test_inserted_rows_are_results(results_worker: ResultsWorker, asked: UUID) -> None:
    sql = blocks("sql")[1].replace("01890a5d-ac96-774b-bcce-b302099a8057", str(asked))
    async with results_worker.database.transaction(None) as connection:
        await connection.execute("SELECT set_config('assent.org_id', $1, true)", ORG)
        await connection.execute(sql)
    assert [row["key"] for row in await results_worker.deliveries()] == ["evt_20", "evt_21"]
    await results_worker.work()
    assert (await results_worker.request())["status"] == "completed"


def test_message_of_a_stream_is_one() -> None:
    (sent,) = re.findall(r"XADD task_result_stream '\*' body '(.*?)'", PAGE)
    assert isinstance(read_message(StreamMessage(sent.encode(), "0-1")), StreamResult)


def test_stream_of_the_page_is_read_as_it_says() -> None:
    variables = dict(re.findall(r"^export (ASSENT_STREAMS_\w+)=(\S+)", PAGE, re.MULTILINE))
    settings = read_from(StreamSettings, variables)
    assert settings.sources == [StreamSource("kafka", "workflow.task-results", "acme")]
    settings.require_brokers()


@pytest.mark.parametrize("sql", [one for one in blocks("sql")[2].split(";\n") if one.strip()])
async def test_query_runs(results_worker: ResultsWorker, sql: str) -> None:
    async with results_worker.database.transaction(None) as connection:
        await connection.fetch(sql)


def test_the_bundle_of_the_vendor_is_one() -> None:
    (sent,) = re.findall(r"-d '(.*?)'", PAGE)
    assert parse_bundle(json.loads(sent))[1] == []


def test_every_field_and_status_is_on_the_page() -> None:
    told = set(re.findall(r"^\| `([a-z_\[\].]+)` \|", PAGE, re.MULTILINE))
    wanted = {*Bundle.model_fields, *(f"items[].{name}" for name in BundleItem.model_fields)}
    columns_of_the_table = {"org_id", "payload"}
    assert told == wanted | set(OUTSIDE_REQUEST_MOVES) | columns_of_the_table


def test_every_answer_to_a_callback_is_on_the_page() -> None:
    told = {
        int(status)
        for row in re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE)
        for status in row.split(",")
    }
    document = bare_app(SETTINGS).openapi()["paths"]["/callbacks/{token}"]["post"]["responses"]
    plain = {400, 413}  # of any request that is no JSON, or too large
    assert told == {int(status) for status in document} - plain
    assert plain <= set(TITLES)


def test_every_variable_is_on_the_page_with_its_default() -> None:
    told = dict(re.findall(r"^\| `(ASSENT_\w+)` \| (\w*) ?\|", PAGE, re.MULTILINE))
    assert told == defaults_of(CallbackSettings, StreamSettings)
