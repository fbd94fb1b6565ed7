"""Blank names in SQL: the same set of characters as in Python, refused by the functions of other programs."""

import pytest

from assent.model.names import is_blank
from tests.plain_sql import refused

BLANKS = ["", " ", "\t", "\u00a0", "\u200b"]
INVALID = "22023"


async def test_every_code_point_is_blank_in_sql_exactly_when_it_is_in_python(owner):
    codes = [code for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    found = await owner.fetch(
        "SELECT code FROM unnest($1::integer[]) AS code WHERE assent.is_blank(chr(code))", codes
    )
    assert {row["code"] for row in found} == {code for code in codes if is_blank(chr(code))}


@pytest.mark.parametrize("text", ["", " \t\u00a0\u200b", " a", "a", "\u200ba", "名"])
async def test_text_is_blank_in_sql_exactly_when_it_is_in_python(owner, text):
    assert await owner.fetchval("SELECT assent.is_blank($1)", text) is is_blank(text)


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
async def test_blank_org_is_none(owner, blank):
    await owner.execute("SELECT set_config('assent.org_id', $1, true)", blank)
    assert await owner.fetchval("SELECT assent.org_id()") is None


FUNCTIONS = {
    "emit_event key": "SELECT assent.emit_event($1)",
    "emit_event cause": "SELECT assent.emit_event('paid:7', NULL, $1)",
    "submit_task type": "SELECT assent.submit_task($1)",
    "submit_task key": "SELECT assent.submit_task('report.build', '{}', $1)",
    "push_result key": "SELECT assent.push_result('00000000-0000-0000-0000-000000000007', $1, '[]', 'failed')",
}
ORGS = {
    "emit_event": "SELECT assent.emit_event('paid:7')",
    "submit_task": "SELECT assent.submit_task('report.build')",
    "push_result": "SELECT assent.push_result('00000000-0000-0000-0000-000000000007', 'k', '[]', 'failed')",
}


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
@pytest.mark.parametrize("sql", FUNCTIONS.values(), ids=FUNCTIONS)
async def test_function_refuses_a_blank_name(owner, sql, blank):
    await owner.execute("SELECT set_config('assent.org_id', 'acme', true)")
    async with refused(owner, INVALID):
        await owner.execute(sql, blank)


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
@pytest.mark.parametrize("sql", ORGS.values(), ids=ORGS)
async def test_function_refuses_a_blank_org(owner, sql, blank):
    await owner.execute("SELECT set_config('assent.org_id', $1, true)", blank)
    async with refused(owner, INVALID):
        await owner.execute(sql)
