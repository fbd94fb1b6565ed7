"""`assent entities`: documents and their history, with the rights of the member who acts."""

import pytest

from assent.store.database import Database
from tests.cli.desk import Desk, lines
from tests.world import rows

INVOICE = ("-d", 'number="17"', "-d", "vendor_id=v-9", "-d", "grand_total=120000", "-d", "currency=EUR")
TAXI = ("-d", "title=Taxi", "-d", "total=40")


async def create(desk: Desk, entity_type: str, *data: str) -> str:
    made: str = (await desk.json("entities", "create", entity_type, *data))["id"]
    return made


async def test_an_entity_is_created_changed_and_submitted(desk: Desk) -> None:
    invoice = await create(desk, "invoice", *INVOICE)
    changed = await desk.json(
        "entities",
        "change",
        "invoice",
        invoice[:-4],
        "--version",
        1,
        "-d",
        "grand_total=130000",
        "--reason",
        "typo",
    )
    assert (changed["version"], changed["data"]["grand_total"]) == (2, 130000)
    moved = await desk.json("entities", "transition", "invoice", invoice, "submit", "--version", 2)
    assert (moved["entity"]["state"], moved["instance"]["status"]) == ("submitted", "running")
    assert [one["id"] for one in await desk.items("entities", "list", "invoice", "--state", "submitted")] == [
        invoice
    ]
    assert await desk.items("entities", "list", "invoice", "--state", "draft") == []
    history = await desk.items("entities", "audit", "invoice", invoice)
    assert [(one["action"], one["channel"], one["reason"]) for one in reversed(history)][:2] == [
        ("invoice.create", "cli", None),
        ("invoice.update", "cli", "typo"),
    ]


async def test_an_entity_without_a_workflow_is_moved_by_the_kernel(desk: Desk) -> None:
    expense = await create(desk, "expense", *TAXI)
    moved = await desk.json(
        "entities", "transition", "expense", expense, "post", "--version", "*", user="max"
    )
    assert (moved["entity"]["state"], moved["instance"]) == ("posted", None)


@pytest.mark.parametrize(
    "words",
    [("change", "-d", "total=41"), ("act", "update", "-d", "total=41"), ("transition", "post")],
    ids=lambda words: words[0],
)
async def test_what_is_about_an_older_version_is_refused(desk: Desk, company: Database, words) -> None:
    expense = await create(desk, "expense", *TAXI)
    await desk.json("entities", "change", "expense", expense, "--version", 1, "-d", "total=50")
    verb, *rest = words
    refused = await desk.refusal("entities", verb, "expense", expense, *rest, "--version", 1)
    assert (refused["code"], refused["problems"][0]["path"]) == ("VERSION_CONFLICT", ["version"])
    assert len(await rows(company, "entity_versions")) == 2


async def test_a_transition_of_a_workflow_is_about_a_version(desk: Desk) -> None:
    invoice = await create(desk, "invoice", *INVOICE)
    await desk.json("entities", "change", "invoice", invoice, "--version", 1, "-d", "grand_total=7")
    refused = await desk.refusal("entities", "transition", "invoice", invoice, "submit", "--version", 1)
    assert refused["code"] == "VERSION_CONFLICT"
    assert (await desk.json("entities", "show", "invoice", invoice))["state"] == "draft"


async def test_a_change_names_its_version_or_any(desk: Desk) -> None:
    expense = await create(desk, "expense", *TAXI)
    change = ("entities", "change", "expense", expense, "-d", "total=41")
    assert "Missing option '--version'" in (await desk.run(*change, code=2)).stderr
    assert "expected a version or *" in (await desk.run(*change, "--version", "new", code=2)).stderr
    assert (await desk.json(*change, "--version", "*"))["version"] == 2


async def test_a_problem_is_at_the_field_of_the_data(desk: Desk) -> None:
    refused = await desk.refusal("entities", "create", "expense", "-d", "title=Taxi")
    assert [(one["code"], one["path"]) for one in refused["problems"]] == [
        ("MISSING_FIELD", ["data", "total"])
    ]
    result = await desk.run("entities", "create", "expense", "-d", "title=Taxi", code=1)
    assert "data.total" in result.stderr


async def test_what_is_not_there_or_of_another_type_is_refused(desk: Desk) -> None:
    expense = await create(desk, "expense", *TAXI)
    for words, code in (
        (("show", "nothing", expense), "UNKNOWN_ENTITY_TYPE"),
        (("show", "invoice", expense), "NOT_FOUND"),
        (("show", "invoice", expense[:-4]), "NOT_FOUND"),
        (("transition", "invoice", expense, "submit"), "NOT_FOUND"),
        (("change", "invoice", expense, "--version", "1", "-d", "grand_total=8"), "NOT_FOUND"),
        (("act", "expense", expense, "create"), "UNKNOWN_ACTION"),
        (("diff", "expense", expense, "1", "2"), "NOT_FOUND"),
        (("create", "nothing"), "UNKNOWN_ENTITY_TYPE"),
    ):
        assert (await desk.refusal("entities", *words))["code"] == code, words


async def test_a_type_that_is_not_for_the_member_shows_nothing(desk: Desk) -> None:
    secret = await create(desk, "secret", "-d", "number=Plan", "-d", "total=1")
    for words in (
        ("list", "secret"),
        *((verb, "secret", text) for verb in ("show", "versions", "audit") for text in (secret, secret[:8])),
        ("diff", "secret", secret, "1", "1"),
        ("transition", "secret", secret[:8], "submit"),
    ):
        refused = await desk.refusal("entities", *words, user="fin")
        assert refused["code"] == "POLICY_DENIED", words
        assert secret[8:] not in str(refused)


async def test_a_member_of_another_org_finds_nothing(desk: Desk, company: Database) -> None:
    expense = await create(desk, "expense", *TAXI)
    async with company.transaction(None) as connection:
        await connection.execute("INSERT INTO assent.orgs (org_id, name) VALUES ('globex', 'Globex')")
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ('globex', 'gil', 'gil', '{clerk}')"
        )
    for text in (expense, expense[:8]):
        refused = await desk.refusal("entities", "show", "expense", text, "--org", "globex", user="gil")
        assert refused["code"] == "NOT_FOUND"
    assert await desk.json("entities", "list", "expense", "--org", "globex", user="gil") == {
        "items": [],
        "next": None,
    }


async def test_people_get_lines_and_tables(desk: Desk) -> None:
    made = await desk.run("entities", "create", "expense", *TAXI)
    assert made.stdout.startswith("✓ created\n  expense ")
    (expense,) = [one["id"] for one in await desk.items("entities", "list", "expense")]
    await desk.run("entities", "change", "expense", expense, "--version", 1, "-d", "total=41")
    shown = await desk.run("entities", "show", "expense", expense)
    assert shown.stdout.splitlines()[1:] == ["  title: Taxi", "  total: 41"]
    assert lines(await desk.run("entities", "diff", "expense", expense, 1, 2))[1] == ["total", "40", "41"]
    assert lines(await desk.run("entities", "list", "expense"))[1][:3] == [expense, "draft", "2"]
    assert [line[0] for line in lines(await desk.run("entities", "versions", "expense", expense))] == [
        *("version", "2", "1")
    ]
    assert "total: 40 → 41" in (await desk.run("entities", "audit", "expense", expense)).stdout
