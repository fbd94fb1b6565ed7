"""The board of 100,000 requirements: pages and counts are read by index. Results are folded in sets."""

import json
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import pytest

from assent.documents.requirements import COUNTED_MAX, RequirementFilter
from assent.model.actor import Reader, reader_columns
from assent.model.moves import REQUIREMENT_MOVES
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from tests.documents.conftest import PORTAL, RON, Compliance
from tests.documents.test_kyc import PAPERS
from tests.postgres import SETTINGS, START, past_the_guards
from tests.requests.bundles import ID
from tests.statements import StatementCounter
from tests.world import publish_steps

SQL = load_queries("assent.documents", "documents.sql")
ROWS = 100_000
FILL = """
SET LOCAL statement_timeout = 0;
INSERT INTO assent.document_requirements (org_id, id, instance_id, subject, doc_type, status, request_id, version_id,
       rejection_code, due_date, waived_by, satisfied_at)
SELECT CASE WHEN g % 10 = 0 THEN 'globex' ELSE 'acme' END, gen_random_uuid(),
       ('00000000-0000-7000-8000-' || lpad((g / 4)::text, 12, '0'))::uuid, 'client-' || g / 4,
       (ARRAY['passport', 'proof_of_address', 'register', 'statute'])[g % 4 + 1]
         || CASE WHEN g % 500 = 2 THEN '_rare' ELSE '' END,
       s.status, gen_random_uuid(), CASE WHEN s.status IN ('in_qa', 'verified') THEN gen_random_uuid() END,
       CASE WHEN g % 100 = 7 OR s.status = 'rejected' THEN (ARRAY['GLARE', 'CUTOFF', 'UNREADABLE'])[g % 3 + 1] END,
       date '2026-03-01' + g % 300, CASE WHEN s.status = 'waived' THEN 'lead' END,
       CASE WHEN s.status IN ('verified', 'waived') THEN assent.now() END
  FROM generate_series(1, $rows) g
 CROSS JOIN LATERAL (
   SELECT (ARRAY['verified', 'verified', 'verified', 'verified', 'in_qa', 'requested', 'requested', 'missing',
                 'rejected', 'waived'])[(g * 7 / 3) % 10 + 1] AS status) s;
ANALYZE assent.document_requirements;
"""
FILL_INSTANCES = """
INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id,
       subject_id, status, started_at, updated_at)
SELECT o, ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, gen_random_uuid(), 1, 'hash', 'clients.kyc',
       'ann', 'running', now(), now()
  FROM generate_series(0, $rows / 4) n, unnest(ARRAY['acme', 'globex']) o;
INSERT INTO assent.outside_requests (org_id, id, instance_id, step_id, node_id, token_id, name)
SELECT org_id, assent.new_id(), id, gen_random_uuid(), 'n', '0', 'clients.kyc.papers' FROM assent.workflow_instances;
INSERT INTO assent.task_submissions (org_id, id, type, input, instance_id, step_id, attempts_max, submitted_by)
SELECT org_id, assent.new_id(), 'report.build', '{}', id, id, 5, 'ann' FROM assent.workflow_instances;
INSERT INTO assent.jobs (org_id, id, kind, lane, attempts_max, status)
SELECT org_id, id, 'task', 'report.build', 5, 'queued' FROM assent.task_submissions;
ANALYZE assent.workflow_instances, assent.outside_requests, assent.task_submissions, assent.jobs;
"""
BOARDS: dict[str, RequirementFilter] = {
    "all": RequirementFilter(),
    "case": RequirementFilter(instance_id=ID),
    "subject": RequirementFilter(subject="client-777"),
    "status": RequirementFilter(status="rejected"),
    "no row of a status": RequirementFilter(status="expired"),
    "type": RequirementFilter(doc_type="passport"),
    "rare type": RequirementFilter(doc_type="register_rare"),
    "code": RequirementFilter(code="GLARE"),
    "unknown code": RequirementFilter(code="FOLDED"),
    "due": RequirementFilter(due_before=date(2026, 3, 3)),
    "status and type": RequirementFilter(status="in_qa", doc_type="passport"),
}
ROWS_READ_MAX = 2_500
"""Of a first page of 51: far from all that there are."""


@pytest.fixture(scope="module")
async def board(databases: Any, template: Any) -> AsyncIterator[Database]:
    async with databases.fresh(template) as url:
        database = await Database.open(url, settings=SETTINGS)
        async with database.transaction(None) as connection:
            await connection.execute(FILL.replace("$rows", str(ROWS)))
        async with past_the_guards(url) as connection:
            await connection.execute(FILL_INSTANCES.replace("$rows", str(ROWS)))
        yield database
        await database.close()


def rows_read(plan: dict[str, Any]) -> float:
    """Rows that scans of requirements and instances have looked at, also those that a filter threw away."""
    here = 0.0
    if plan.get("Relation Name") in ("document_requirements", "workflow_instances"):
        assert plan["Node Type"] != "Seq Scan", plan
        thrown = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        here = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return here + sum(rows_read(part) for part in plan.get("Plans", ()))


async def explain(board: Database, statement: str, *given: Any) -> dict[str, Any]:
    async with board.transaction("acme", read_only=True) as connection:
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *given)
    found: dict[str, Any] = (json.loads(text) if isinstance(text, str) else text)[0]["Plan"]
    return found


READERS = {
    "without a reader": None,
    "for who reads all flows": Reader("lead", START, all_flows=True),
    "for who may not see some types": Reader("lead", START, hidden_types=("invoice",), all_flows=True),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", sorted(BOARDS))
async def test_a_first_page_reads_few_rows(board: Database, name: str, reader: str) -> None:
    """However many requirements and instances there are."""
    columns = reader_columns(READERS[reader])
    plan = await explain(board, SQL.page_of_requirements, "acme", *BOARDS[name].columns, None, 51, *columns)
    assert rows_read(plan) <= (ROWS_READ_MAX if READERS[reader] is None else 2 * ROWS_READ_MAX), name


LISTS: dict[str, tuple[str, tuple[Any, ...], tuple[Any, ...]]] = {
    "outside requests": (
        load_queries("assent.requests", "requests.sql").page_of_requests,
        ("acme", None, None, None, None, None, None, 51),
        (True, True),
    ),
    "tasks": (load_queries("assent.tasks", "tasks.sql").list_tasks, ("acme", *[None] * 5, 51), ()),
}


@pytest.mark.parametrize("name", LISTS)
async def test_other_lists_look_at_no_instance_that_they_do_not_show(board: Database, name: str) -> None:
    statement, given, rest = LISTS[name]
    columns = reader_columns(READERS["for who may not see some types"])
    plan = await explain(board, statement, *given, *columns, *rest)
    assert rows_read(plan) <= ROWS_READ_MAX


async def test_counts_stop_at_their_limit(board: Database) -> None:
    given = (*RequirementFilter().columns, list(REQUIREMENT_MOVES), COUNTED_MAX + 1, *reader_columns(None))
    plan = await explain(board, SQL.count_requirements, "acme", *given)
    assert rows_read(plan) <= (COUNTED_MAX + 1) * len(REQUIREMENT_MOVES)


async def test_a_batch_of_results_takes_the_statements_of_one(
    compliance: Compliance, statement_counter: StatementCounter
) -> None:
    """From the table to the requirements that moved and the events that wake the instances."""
    steps = [PAPERS, {"id": "done", "type": "terminal"}]
    await publish_steps(
        compliance.database, "papers", steps, [{"from": "papers", "event": "completed", "to": "done"}]
    )

    async def fold(clients: int) -> int:
        known = {row["id"] for row in await compliance.requests()}
        for number in range(clients):
            given = {"entity_id": f"{clients}-{number}", "email": "c@mail.example"}
            await compliance.by(RON).instances.start("papers", given)
        asked = {row["id"]: row for row in await compliance.requests() if row["id"] not in known}
        for request_id, body in zip(asked, (await compliance.asked())[-clients:], strict=True):
            version = await compliance.upload("passport", body["subject"])
            items = [{"cargo": f"version://assent/{version.id}"}]
            await compliance.by(PORTAL).requests.push_result(request_id, "k", items)
        compliance.clock.advance(timedelta(seconds=1))
        statement_counter.clear()
        done = await Results(WorkerContext(compliance.database, runtime=compliance.runtime)).run_once()
        assert done.parts == {"processed": clients}
        return len(statement_counter)

    await fold(1)  # a connection's first time
    alone = await fold(1)
    assert await fold(25) == alone
    statuses = {
        one.status
        for one in (await compliance.by(RON.__class__("l", capabilities={"*"})).requirements.list()).items
    }
    assert statuses == {"in_qa"}
