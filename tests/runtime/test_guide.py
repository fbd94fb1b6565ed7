"""docs/python.md: its Python and its SQL run, one block after the other, and print what it says."""

import ast
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import assent
from assent.running import publish
from assent.store.database import Database
from tests.runtime.sync_commands import commands, nouns

GUIDE = Path(__file__).parents[2] / "docs" / "python.md"
_FENCE = re.compile(r"```(?P<kind>python|sql|)\n(?P<body>.*?)```\n", re.DOTALL)


async def run_block(body: str, names: dict[str, Any]) -> None:
    """As if typed at a prompt that knows `await`."""
    code = compile(body, str(GUIDE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    found = eval(code, names)  # noqa: S307 - the guide's own text
    if inspect.isawaitable(found):
        await found


@pytest.fixture
async def loans(postgres_url: str) -> AsyncIterator[None]:
    """The login role of the guide's other program, which an administrator of the server has made."""
    administrator = await asyncpg.connect(postgres_url)
    await administrator.execute("CREATE ROLE loans LOGIN")
    yield
    await administrator.execute("DROP ROLE loans")
    await administrator.close()


@pytest.mark.usefixtures("loans")
async def test_every_example_runs_and_prints_what_it_says(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = create_async_engine(database.url.replace("postgresql://", "postgresql+asyncpg://"))
    names: dict[str, Any] = {
        "url": database.url,
        "psycopg": psycopg,
        "engine": engine,
        "text": text,
        "AsyncSession": AsyncSession,
    }
    first, *others = _FENCE.finditer(GUIDE.read_text(encoding="utf-8"))
    await run_block(first["body"], names)
    await _furnish(database, names)
    printed = ""
    for block in others:
        if block["kind"] == "sql":
            await _run_sql(database.url, block["body"])
        elif block["kind"] == "python":
            await run_block(block["body"], names)
            printed = capsys.readouterr().out
        else:
            assert printed == block["body"]
    await names["database"].close()
    await engine.dispose()
    assert await _told(database) == ["booked:7", "booked:8"]
    assert await _submitted(database) == [5, 6, 7, 8, 9]


async def _furnish(database: Database, names: dict[str, Any]) -> None:
    await publish(database, "acme", names["app"].sources)
    async with database.transaction(None) as connection:
        await connection.execute("CREATE TABLE public.orders (number integer)")
        await connection.execute("CREATE TABLE public.payments (total integer)")
        await connection.execute("GRANT INSERT ON public.payments TO assent_engine")
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ('acme', 'max', 'Max', '{boss}')"
        )


async def _run_sql(url: str, body: str) -> None:
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute(body)
    await connection.close()


async def _submitted(database: Database) -> list[int]:
    async with database.transaction(None) as connection:
        rows = await connection.fetch("SELECT input FROM assent.task_submissions WHERE org_id = 'acme'")
    return sorted(row["input"]["number"] for row in rows)


async def _told(database: Database) -> list[str]:
    async with database.transaction(None) as connection:
        rows = await connection.fetch(
            "SELECT payload_json ->> 'key' AS key FROM assent.workflow_events_outbox WHERE org_id = 'acme'"
            " AND event_type = 'on_event' ORDER BY 1"
        )
    return [row["key"] for row in rows]


def test_page_lists_every_public_name_and_no_other() -> None:
    table = GUIDE.read_text(encoding="utf-8").partition("## Names")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(assent.__all__)


def test_page_lists_every_command_by_its_noun_and_no_other() -> None:
    rows = re.findall(r"^\| `acme\.(\w+)`: ([^|]+) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {noun: set(re.findall(r"`(\w+)`", names)) for noun, names in rows}
    assert listed == {noun: set(commands(kind)) for noun, kind in nouns().items()}


def test_every_name_that_a_page_shows_can_be_imported() -> None:
    pages = [*GUIDE.parent.rglob("*.md"), GUIDE.parents[1] / "README.md"]
    shown = {
        name
        for page in pages
        for name in re.findall(r"\bassent\.([A-Z]\w+)", page.read_text(encoding="utf-8"))
    }
    assert shown - {name for name in shown if hasattr(assent, name)} == set()
    assert {name for name in assent.__all__ if not hasattr(assent, name)} == set()
