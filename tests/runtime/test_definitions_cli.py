"""publish, definitions and recompile, as a person and as a program run them."""

import json
import re

import pytest

from assent.templates import library
from tests.processes.commands import run_command
from tests.runtime.definitions import definition_rows, flow, older_compiler, statuses, tamper
from tests.world import publish

INVOICES = str(library() / "invoice_approval")
EXPENSES = str(library() / "expense_approval")
HELLO = """flow: hello
version: 1
start: ask
steps:
  - {id: ask, type: action}
  - {id: done, type: terminal}
transitions:
  - {from: ask, to: done}
"""


@pytest.fixture
def hello(tmp_path):
    file = tmp_path / "hello.yaml"
    file.write_text(HELLO)
    return file


def lines(output):
    return [re.sub(r"[0-9a-f]{64}", "<hash>", line) for line in output.splitlines()]


async def test_publish_says_what_was_published_with_version_and_hash(database, database_url):
    first = run_command("definitions", "publish", INVOICES, "--org", "acme", url=database_url)
    assert (first.returncode, first.stderr) == (0, "")
    assert lines(first.stdout) == [
        "published  *  envelope  invoice 1",
        "published  *  effective  invoice 1  <hash>",
        "published  acme  org_patch  invoice 1",
        "published  acme  effective  invoice 1  <hash>",
    ]
    (effective,) = await definition_rows(database, org_id="acme", definition_kind="effective")
    assert effective["compiled_hash"] in first.stdout


async def test_publishing_again_says_that_nothing_changed(database, database_url):
    for verb in ("published", "unchanged"):
        outcome = run_command("definitions", "publish", EXPENSES, "--org", "*", url=database_url)
        assert outcome.stdout.startswith(f"{verb}  *  flow  ")
    assert len(await definition_rows(database)) == 1


async def test_publish_as_json_gives_programs_the_same(database, database_url):
    found = json.loads(
        run_command(
            "definitions", "publish", INVOICES, EXPENSES, "--org", "acme", "--json", url=database_url
        ).stdout
    )
    published = found["publications"]
    kinds = [(one["definition"]["kind"], one["effective"]["org_id"]) for one in published]
    assert kinds == [("envelope", "*"), ("org_patch", "acme"), ("flow", "acme")]
    hashes = {row["compiled_hash"] for row in await definition_rows(database)} - {None}
    assert {one["effective"]["hash"] for one in published} == hashes


async def test_problems_are_shown_with_their_lines_and_nothing_is_published(database, database_url, hello):
    hello.write_text(HELLO.replace("to: done", "to: gone").replace("start: ask", "start: never"))
    outcome = run_command("definitions", "publish", str(hello), INVOICES, "--org", "acme", url=database_url)
    assert outcome.returncode == 1
    assert f"{hello}:3:8: UNKNOWN_NODE" in outcome.stderr
    assert f"{hello}:8:21: UNKNOWN_NODE" in outcome.stderr
    assert "  3 │ start: never" in outcome.stderr
    assert outcome.stderr.endswith("✗ 2 problems in 3 documents; nothing was published\n")
    assert await definition_rows(database) == []


async def test_conflict_with_what_is_published_is_shown_at_its_line(database, database_url, hello):
    await publish(database, flow(name="Another"), "acme")
    outcome = run_command("definitions", "publish", str(hello), "--org", "acme", url=database_url)
    assert outcome.returncode == 1
    assert f"{hello}:2:10: VERSION_TAKEN" in outcome.stderr
    assert "give it a new version" in outcome.stderr


def test_patch_meets_a_contract_that_was_published_before(database_url):
    contract, patch = library() / "invoice_approval/contract.yaml", library() / "invoice_approval/patch.yaml"
    alone = run_command("definitions", "publish", str(patch), "--org", "acme", url=database_url)
    assert (alone.returncode, "UNKNOWN_CONTRACT" in alone.stderr) == (1, True)
    assert (
        run_command("definitions", "publish", str(contract), "--org", "acme", url=database_url).returncode
        == 0
    )
    after = run_command("definitions", "publish", str(patch), "--org", "acme", url=database_url)
    assert lines(after.stdout)[0] == "published  acme  org_patch  invoice 1"


def test_every_template_can_be_published_together(database_url):
    outcome = run_command("definitions", "publish", str(library()), "--org", "acme", url=database_url)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_problems_of_a_contract_are_not_repeated_for_its_patches(database_url, tmp_path):
    for file in ("contract.yaml", "patch.yaml"):
        text = (library() / "fast_track" / file).read_text()
        (tmp_path / file).write_text(text.replace("initial: draft", "initial: nowhere"))
    outcome = run_command(
        "definitions", "publish", str(tmp_path), "--org", "acme", "--json", url=database_url
    )
    codes = [problem["code"] for problem in json.loads(outcome.stdout)["problems"]]
    assert (outcome.returncode, codes) == (1, ["UNKNOWN_STATE"])


def test_contract_without_a_workflow_is_skipped(database_url, tmp_path):
    file = tmp_path / "note.yaml"
    file.write_text(
        "contract: note\nversion: 1\nworkflow: none\n"
        "lifecycle: {initial: draft, states: {draft: {edit: editable}}}\n"
    )
    outcome = run_command("definitions", "publish", str(file), "--org", "*", url=database_url)
    assert (outcome.returncode, outcome.stdout) == (0, "skipped    note: runs without a workflow\n")


def test_text_that_declares_nothing_is_a_problem(database_url, tmp_path):
    file = tmp_path / "other.yaml"
    file.write_text("greeting: hello\n")
    outcome = run_command("definitions", "publish", str(file), "--org", "acme", url=database_url)
    assert (outcome.returncode, f"{file}:1:1: UNKNOWN_DECLARATION" in outcome.stderr) == (1, True)


@pytest.mark.without_twin("the command lists the definitions of all orgs")
async def test_definitions_lists_what_is_published_and_with_all_what_was(database, database_url):
    assert "Nothing is published yet" in run_command("definitions", "list", url=database_url).stdout
    await publish(database, flow(), "acme")
    await publish(database, flow(2), "acme")
    await publish(database, flow(), "globex")
    assert lines(run_command("definitions", "list", "--org", "acme", url=database_url).stdout) == [
        "published  acme  flow  hello 2  <hash>"
    ]
    listed = run_command("definitions", "list", "--all", "--json", url=database_url).stdout
    everything = json.loads(listed)["items"]
    assert [(one["org_id"], one["version"], one["status"]) for one in everything] == [
        ("acme", 2, "published"),
        ("acme", 1, "archived"),
        ("globex", 1, "published"),
    ]


async def test_recompile_makes_a_new_version_of_what_is_stale(database, database_url):
    with older_compiler():
        await publish(database, flow(), "acme")
    outcome = run_command("definitions", "recompile", url=database_url)
    assert (outcome.returncode, lines(outcome.stdout)) == (
        0,
        ["stale       acme  flow  hello 1  <hash>", "recompiled  acme  flow  hello 2  <hash>"],
    )
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]
    again = run_command("definitions", "recompile", url=database_url)
    assert (again.returncode, again.stdout) == (0, "Nothing is stale.\n")


async def test_recompile_fails_where_something_stays_stale(database, database_url):
    with older_compiler():
        published = (await publish(database, flow(), "acme")).source
    await tamper(database, published.id, source_json=flow(start="nowhere"))
    outcome = run_command("definitions", "recompile", "--json", url=database_url)
    (found,) = json.loads(outcome.stdout)["items"]
    assert (outcome.returncode, found["new"], found["problems"][0]["code"]) == (1, None, "UNKNOWN_NODE")


@pytest.mark.parametrize("arguments", [("publish", EXPENSES, "--org", "*"), ("list",), ("recompile",)])
def test_database_that_was_never_migrated_is_said_plainly(empty_database_url, arguments):
    outcome = run_command("definitions", *arguments, url=empty_database_url)
    assert (outcome.returncode, "Run `assent migrate` first" in outcome.stderr) == (1, True)
    assert "Traceback" not in outcome.stderr
