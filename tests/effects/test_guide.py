"""The page about effects says what is so: its variables and its queries are those of the code."""

import re
from pathlib import Path

import pytest

from assent.effects.settings import EffectSettings, PublicSettings, SmtpSettings
from assent.store.database import Database
from tests.settings import defaults_of

PAGE = (Path(__file__).parents[2] / "docs" / "effects.md").read_text()

QUERIES = [
    statement
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    for statement in block.split(";\n")
    if statement.strip()
]


def test_every_variable_is_on_the_page_with_its_default() -> None:
    told = dict(re.findall(r"^\| `(ASSENT_(?:EFFECTS|SMTP|PUBLIC)_\w+)` \| (\w*) ?\|", PAGE, re.MULTILINE))
    assert told == defaults_of(EffectSettings, SmtpSettings, PublicSettings)


@pytest.mark.parametrize("sql", QUERIES)
async def test_query_runs(database: Database, sql: str) -> None:
    async with database.transaction(None) as connection:
        await connection.fetch(sql)
