"""The page for operators says what is so: its variables, its duties and its queries are those of the code."""

import re

import pytest

from assent.worker.options import Options
from assent.worker.supervisor import DUTIES
from tests.processes.commands import ROOT
from tests.settings import defaults_of

PAGE = (ROOT / "docs" / "operations.md").read_text()

QUERIES = [
    statement
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    for statement in block.split(";\n")
    if statement.strip()
]

LOGGED = re.findall(r"^\| `([^`…]+)…?` \| (?:error|warning) \|", PAGE, re.MULTILINE)


def test_every_option_is_on_the_page_with_its_default():
    told = dict(re.findall(r"^\| `(ASSENT_WORKER_\w+)` \| (\w+|\*) \|", PAGE, re.MULTILINE))
    assert told == defaults_of(Options)


def test_every_duty_is_on_the_page_in_its_order():
    table = PAGE.partition("## Duties")[2].partition("**Retention**")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [duty.name for duty in DUTIES]


@pytest.mark.parametrize("sql", QUERIES)
async def test_query_runs(database, sql):
    async with database.transaction(None) as connection:
        await connection.fetch(sql)


def test_messages_that_are_worth_an_alert_are_written_somewhere():
    assert len(LOGGED) == 7
    code = "".join(path.read_text() for path in (ROOT / "src" / "assent").rglob("*.py"))
    assert [message for message in LOGGED if f'"{message}' not in code] == []
