"""The page about effects says what is so: its variables and its queries are those of the code."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from assent.effects.settings import PREFIX, SMTP_PREFIX, EffectSettings, SmtpSettings
from assent.store.database import Database

PAGE = (Path(__file__).parents[2] / "docs" / "effects.md").read_text()

QUERIES = [
    statement
    for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    for statement in block.split(";\n")
    if statement.strip()
]


def test_every_variable_is_on_the_page_with_its_default() -> None:
    told = dict(re.findall(r"^\| `(ASSENT_(?:EFFECTS|SMTP)_\w+)` \| (\w*) ?\|", PAGE, re.MULTILINE))
    settings = ((PREFIX, EffectSettings), (SMTP_PREFIX, SmtpSettings))
    assert told == {
        prefix + setting.name.upper(): str(setting.default)
        if isinstance(setting.default, int)
        else told_text(setting)
        for prefix, cls in settings
        for setting in fields(cls)
    }


def told_text(setting: object) -> str:
    default = getattr(setting, "default", "")
    return default if isinstance(default, str) else ""


@pytest.mark.parametrize("sql", QUERIES)
async def test_query_runs(database: Database, sql: str) -> None:
    async with database.transaction(None) as connection:
        await connection.fetch(sql)
