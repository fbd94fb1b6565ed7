"""What the tests of definitions publish, and changes of their rows that only a superuser can make."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from assent.model.contract import Contract
from assent.store.database import Database
from tests.authored import invoice_contract
from tests.postgres import past_the_guards
from tests.world import SLOT, fetch, patch_of

OTHER_SLOT = "slot:draft_to_submit"


def contract(version: int = 1, **changes: Any) -> Contract:
    """The design's invoice under another version."""
    return invoice_contract().model_copy(update={"version": version, **changes})


def patch(
    name: str = "invoice", envelope_version: int = 1, slot: str = SLOT, **approval: Any
) -> dict[str, Any]:
    """A patch that asks one person in a slot."""
    ask = {"id": "ask", "type": "approval", "approvers": {"role": "finance_manager"}, **approval}
    base = {"entity_type": "invoice", "envelope_version": envelope_version}
    return {**patch_of(ask, slot=slot), "patch": name, "base": base}


def flow(version: int = 1, key: str = "hello", **changes: Any) -> dict[str, Any]:
    """Return a flow of one step, which a person fills in."""
    steps = [{"id": "ask", "type": "action"}, {"id": "done", "type": "terminal"}]
    arrows = [{"from": "ask", "to": "done"}]
    return {"flow": key, "version": version, "start": "ask", "steps": steps, "transitions": arrows, **changes}


def flow_of_system(run_as: str, **changes: Any) -> dict[str, Any]:
    """Return a flow with a step that runs as another actor."""
    call = {"id": "call", "type": "system", "operation": {"sdk": "orders.confirm"}, "run_as": run_as}
    call |= {"service_account": "robot"} if run_as == "service_account" else {}
    steps = [call, {"id": "done", "type": "terminal"}]
    return flow(steps=steps, transitions=[{"from": "call", "to": "done"}], start="call", **changes)


async def definition_rows(database: Database, **equal: Any) -> list[dict[str, Any]]:
    """Return the definitions with these values, oldest first."""
    found = await fetch(
        database, "SELECT * FROM assent.workflow_definitions WHERE org_id <> 'aatwin' ORDER BY created_at, id"
    )
    return [dict(row) for row in found if all(row[column] == value for column, value in equal.items())]


async def statuses(database: Database, kind: str, key: str, org_id: str = "*") -> list[tuple[int, str]]:
    found = await definition_rows(database, definition_kind=kind, key=key, org_id=org_id)
    return sorted((row["version"], row["status"]) for row in found)


async def tamper(database: Database, definition_id: Any, **columns: Any) -> None:
    """Change a row past every trigger, as only a superuser can."""
    settings = ", ".join(f"{column} = ${number}" for number, column in enumerate(columns, start=2))
    async with past_the_guards(database.url) as connection:
        sql = f"UPDATE assent.workflow_definitions SET {settings} WHERE org_id <> 'aatwin' AND id = $1"  # noqa: S608
        assert await connection.execute(sql, definition_id, *columns.values()) == "UPDATE 1"


@contextmanager
def older_compiler(version: str = "0.9.0") -> Iterator[None]:
    """Inside, an earlier compiler is at work: the same output under its own version."""
    with (
        mock.patch("assent.compiler.build.COMPILER_VERSION", version),
        mock.patch("assent.definitions.sources.COMPILER_VERSION", version),
        mock.patch("assent.definitions.load.COMPILER_VERSION", version),
    ):
        yield
