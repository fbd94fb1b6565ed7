"""The twin org: it stands beside the orgs of every test, and a test that touches it fails.

A query of the owner's is held to an org by nothing but its own `org_id = …`. So the twin has what tests have, the names
of people and roles, keys, and ids, in an org of its own; with addresses and rights that are its own too, and with work
that is open and never due. Whatever forgets the org then changes its rows, sends to its addresses, or shows its mark.
"""

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from assent.compiler import COMPILER_VERSION
from assent.language.mails import MAIL_KINDS
from assent.model import ids as model_ids
from assent.model.canonical import canonical_hash
from assent.model.ids import IdSource
from assent.store.connection import Connection, connect
from tests.blank_rows import Row, row
from tests.postgres import SETTINGS, START
from tests.rows import change, write_entities

TWIN: Final = "aatwin"
"""Before the orgs of tests in every order; and the mark of all that is the twin's, which must be seen nowhere else."""

NEVER: Final = datetime(2999, 1, 1, tzinfo=UTC)
"""When the twin's work is due."""

_SEED: Final = 7
TWIN_ROWS: Final = 48
"""How many ids the twin has, each in every table. Most tests make fewer; each more costs a test some twenty rows."""

PEOPLE: Final = (
    *(
        "abe",
        "adam",
        "alice",
        "ann",
        "aud",
        "bea",
        "ben",
        "bob",
        "bot",
        "cal",
        "carl",
        "carol",
        "dan",
        "dora",
        "eve",
    ),
    *("fay", "fin", "flo", "gus", "joe", "kim", "max", "mia", "new", "olga", "ops", "robot", "zoe"),
)
ROLES: Final = (
    *(
        "admin",
        "approver",
        "auditor",
        "clerk",
        "director",
        "finance",
        "finance_manager",
        "head",
        "lead",
        "legal",
    ),
    *("manager", "operator", "owner", "sales"),
)
REJECTION_CODES: Final = ("UNREADABLE", "EXPIRED", "NAME_MISMATCH")
EVENT_KEYS: Final = (
    *(
        "paid:7",
        "payment:7",
        "paid:8",
        "paid:1",
        "a:7",
        "b:7",
        "large:1",
        "order:1",
        "payment:o-7",
        "k",
        "go",
    ),
    *("payment:card:1", "payment:cash:1"),
)
FLOWS: Final = ("orders", "payment", "confirmation", "survey", "pair", "screening", "wait", "tell", "line")
TASK_TYPES: Final = ("tests.note", "report.send", "report.build", "tests.odd", "tests.long", "tests.run")
KEYS: Final = (
    "k",
    "k1",
    "k2",
    "may",
    "june",
    "a",
    "key",
    "mine",
    "order-7",
    "own",
    "other",
    "same",
    "1",
    "7",
)


Digest = dict[str, tuple[int, str]]


@contextmanager
def repeated_ids() -> Iterator[None]:
    """Inside, this process makes the ids that the twin has, as long as the clock says START."""
    source = model_ids._process_source
    _begin(source)
    try:
        yield
    finally:
        source._random.seed(os.urandom(32))


def _begin(source: IdSource) -> None:
    source._last = 0
    source._random.seed(_SEED)


def _ids() -> list[UUID]:
    source = IdSource()
    _begin(source)
    return [source.new(START) for _ in range(TWIN_ROWS)]


@dataclass(frozen=True)
class Twin:
    """A database with the twin in it, and how the twin is as long as nobody touches it.

    Reading all of its rows takes half of what a database costs a test, most of it to plan 41 tables in a new session.
    So a test's end reads only the tables that were written to, by the server's own counts of rows.
    """

    template: str
    statements: Mapping[str, str]
    """Table → the query for its part of the digest."""
    digest: Digest
    files: Mapping[int, tuple[str, int]]
    """Relation → its table, and the file that it has as long as it is neither truncated nor written again."""

    @classmethod
    async def settle(cls, url: str) -> Self:
        """Let the twin move into a migrated database."""
        connection = await connect(url, SETTINGS)
        try:
            async with connection.transaction():
                await connection.execute("SELECT set_config('assent.now', $1, true)", START.isoformat())
                await _insert_twin(connection)
            statements = dict(await connection.fetch(_TEXTS_OF_DIGEST))
            digest = await _read(connection, statements.values())
            files = {row["oid"]: (row["name"], row["file"]) for row in await connection.fetch(_RELATIONS)}
        finally:
            await connection.close()
        return cls(urlsplit(url).path.removeprefix("/"), statements, digest, files)

    async def assert_untouched(self, url: str) -> None:
        """Raise if the twin in a copy of the database is not as it was."""
        # A plain connection, once for each test: ours would also ask the server for its types.
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            written = await self._written(connection)
            now = await _read(connection, [self.statements[name] for name in written])
        finally:
            await connection.close()
        touched = sorted(name for name in written if self.digest[name] != now[name])
        assert not touched, f"rows of the twin org were changed, by something that forgot the org: {touched}"

    async def _written(self, connection: asyncpg.Connection) -> list[str]:
        """Return the tables that anything was written to; all of them where the counts may be incomplete."""
        # A session counts for others when it has ended: those of the test have closed, and are about to.
        for _ in range(_LOOKS_MAX):
            if not await connection.fetchval(_OTHERS_ARE_THERE):
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        else:
            return sorted(self.statements)
        found = await connection.fetch(_RELATIONS)
        kept = {row["oid"] for row in found if self.files.get(row["oid"]) == (row["name"], row["file"])}
        written = {row["name"] for row in found if row["written"] or row["oid"] not in kept}
        written |= {name for oid, (name, _) in self.files.items() if oid not in kept}
        return sorted(written & self.statements.keys())


async def _read(connection: asyncpg.Connection, statements: Collection[str]) -> Digest:
    if not statements:
        return {}
    rows = await connection.fetch(" UNION ALL ".join(statements), TWIN)
    return {name: (number, digest) for name, number, digest in rows}


async def _insert_twin(connection: Connection) -> None:
    """Write the twin's rows, in a transaction of the owner's."""
    for table, rows in _rows().items():
        await _insert(connection, table, rows)
    entities = [
        change(org_id=TWIN, entity_id=id, version_id=id, audit_id=id, data={"number": TWIN}) for id in _ids()
    ]
    await write_entities(connection, *entities)
    for table, rows in _rows_of_entities().items():
        await _insert(connection, table, rows)


def assert_unseen(text: str) -> None:
    """Raise if something of the twin's is in what was sent or shown."""
    assert TWIN not in text.lower(), f"of the twin org, in what another org sees: {text[:2000]}"


# Partitions are read through their parents. How far evidence was compacted is the worker's own note.
_TEXTS_OF_DIGEST: Final = """
SELECT c.relname, format(
         'SELECT %L AS name, count(*) AS number, coalesce(sum(hashtextextended(t::text, 0)), 0)::text AS digest '
         'FROM assent.%I t WHERE org_id = $1', c.relname, c.relname)
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND c.relname <> 'step_compactions'
"""

_OTHERS_ARE_THERE: Final = """
SELECT NOT current_setting('track_counts')::boolean OR EXISTS (
  SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
"""

# The counts of a copy begin at nothing.
_RELATIONS: Final = """
SELECT c.oid, coalesce(root.relname, c.relname)::text AS name, c.relfilenode AS file,
       pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid) > 0
         AS written
  FROM pg_class c LEFT JOIN pg_class root ON c.relispartition AND root.oid = pg_partition_root(c.oid)
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind = 'r'
"""
_LOOKS_MAX: Final = 50
_LOOK_EVERY_S: Final = 0.005


async def _insert(connection: Connection, table: str, rows: list[Row]) -> None:
    columns = list(rows[0])
    marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    sql = f"INSERT INTO assent.{table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own
    await connection.executemany(sql, [tuple(one[column] for column in columns) for one in rows])


def _rows() -> Mapping[str, list[Row]]:
    """What the twin has, in the order in which it can be inserted."""
    ids = _ids()
    text = {"text": TWIN}
    failed = {"outcome": "failed", "code": "FAILED", "error": TWIN}

    def of(table: str, **given: Any) -> Row:
        return row(table, org_id=TWIN, **given)

    def each(table: str, *columns: str, **given: Any) -> list[Row]:
        """One row for each id, which stands in all of these columns."""
        return [of(table, **dict.fromkeys(columns, id), **given) for id in ids]

    waits = [*EVENT_KEYS, *[None] * len(ids)]
    steps = [
        of(
            "workflow_step_executions",
            id=id,
            instance_id=id,
            created_at=START,
            resume_at=NEVER,
            waiting_for_event_key=key,
            status="pending",
            input_json=text,
            output_json={"n": 1, "entered": 1},
        )
        for id, key in zip(ids, waits, strict=False)
    ]
    return {
        "orgs": [of("orgs", name=TWIN)],
        "members": [
            of("members", user_id=name, name=TWIN, email=f"{name}@{TWIN}.example", roles=list(ROLES))
            for name in PEOPLE
        ],
        "role_capabilities": [of("role_capabilities", role=role, capability="*") for role in ROLES],
        "api_keys": [
            of("api_keys", id=id, user_id=PEOPLE[n % len(PEOPLE)], name=TWIN) for n, id in enumerate(ids)
        ],
        "sessions": [
            of("sessions", id=id, user_id=PEOPLE[n % len(PEOPLE)], expires_at=NEVER, ends_at=NEVER)
            for n, id in enumerate(ids)
        ],
        "workflow_definitions": [
            of(
                "workflow_definitions",
                id=id,
                key=key,
                name=TWIN,
                status="published",
                compiler_version=COMPILER_VERSION,
            )
            for id, key in zip(ids, FLOWS, strict=False)
        ],
        "workflow_instances": each(
            "workflow_instances",
            "id",
            workflow_id="orders",
            context_json=text,
            expires_at=NEVER,
        ),
        "workflow_step_executions": steps,
        "step_evidence": each("step_evidence", "step_id", "instance_id", evidence=text),
        "workflow_step_receipts": each("workflow_step_receipts", "instance_id", "step_id"),
        "workflow_events_outbox": each(
            "workflow_events_outbox",
            "id",
            "instance_id",
            created_at=START,
            retry_at=NEVER,
            payload_json=text,
        ),
        "workflow_kept_events": [
            of("workflow_kept_events", id=id, event_key=key, payload=text, created_at=NEVER)
            for id, key in zip(ids, EVENT_KEYS, strict=False)
        ],
        "effects": each("effects", "id", "instance_id", "step_id", payload={"to": f"ann@{TWIN}.example"}),
        "workflow_outbox_receipts": each("workflow_outbox_receipts", "instance_id"),
        "effect_secrets": each("effect_secrets", "id")[:1],
        "schedules": [
            of("schedules", name=name, task_type=name, input=text, next_at=NEVER)
            for name in ("cancel", "nightly", *TASK_TYPES)
        ],
        "task_joins": [
            of("task_joins", name="tests.index", key=key, types=["tests.text", "tests.exif"])
            for key in ("a", "b", "1", "7")
        ],
        "event_sources": [
            of("event_sources", name=name, key_prefix=f"{name}:") for name in ("payment", "bank", "paid")
        ],
        "approval_chains": [
            of("approval_chains", id=id, name=name) for id, name in zip(ids, ROLES, strict=False)
        ],
        "approval_chain_steps": each("approval_chain_steps", "chain_id", name=TWIN)[: len(ROLES)],
        "approval_requests": each("approval_requests", "id", "instance_id", "step_id", title=TWIN),
        "comments": each("comments", "id", "entity_id", text=TWIN),
        "workflow_seats": [
            of("workflow_seats", id=id, request_id=id, instance_id=id, user_id=PEOPLE[n % len(PEOPLE)])
            for n, id in enumerate(ids)
        ],
        "workflow_forms": each("workflow_forms", "id", "instance_id", title=TWIN),
        "outside_requests": each(
            "outside_requests", "id", "instance_id", "step_id", name=TWIN, expires_at=NEVER
        ),
        "upload_links": each("upload_links", "id", "request_id", made_by="ann"),
        "blobs": each("blobs", "id", file_name=TWIN),
        "outside_request_deliveries": each("outside_request_deliveries", "id", "request_id"),
        "dead_messages": each("dead_messages", "id"),
        "outside_request_items": each("outside_request_items", "id", "request_id", "delivery_id"),
        "outside_request_history": each("outside_request_history", "id", "request_id"),
        "document_requirements": each(
            "document_requirements", "id", "instance_id", subject=TWIN, doc_type=TWIN
        ),
        "mail_templates": [
            of("mail_templates", kind=kind, language=language, subject=TWIN, text=TWIN)
            for kind in MAIL_KINDS
            for language in ("en", "de")
        ],
        "member_preferences": [
            of("member_preferences", user_id=name, language="fr", mails="none", digested_on=NEVER.date())
            for name in PEOPLE
        ],
        "named_secrets": [
            of("named_secrets", name=name, value=f"{TWIN}-secret-of-its-own", hosts=[f"{TWIN}.example"])
            for name in ("erp", "token", "vendor", "cancel")
        ],
        "saved_filters": [
            of("saved_filters", filter_of=of_what, owner_id=owner, name=name, filter={"created_by": TWIN})
            for of_what in ("invoice", "inbox")
            for owner in ("", "alice", "ann", "bob")
            for name in ("mine", "submit", "cancel", "open")
        ],
        "workflow_rules": [
            of("workflow_rules", entity_type=entity_type, name=f"{TWIN} {action}", action=action)
            for entity_type in ("invoice", "expense", "order")
            for action in ("create", "update", "submit")
        ],
        "workflow_rule_evaluations": [of("workflow_rule_evaluations")],
        "number_series": [
            {
                "org_id": TWIN,
                "entity_type": type,
                "field": "number",
                "period": period,
                "last_number": 7_000_000,
            }
            for type in ("invoice", "expense", "order")
            for period in ("", "2026", "2026-03")
        ],
        "alert_times": [of("alert_times", last_at=NEVER)],
        "decision_link_uses": [
            of("decision_link_uses", request_id=id, user_id=name)
            for id in ids
            for name in ("bob", "fin", "ann")
        ],
        "documents": each("documents", "id", subject=TWIN, document_type=TWIN),
        "document_versions": each("document_versions", "id", "document_id", structured_data=text),
        "document_events": each("document_events", "id", "requirement_id", "document_id", notes=TWIN),
        "rejection_codes": [
            of("rejection_codes", code=code, client_message=TWIN, next_action=TWIN)
            for code in REJECTION_CODES
        ],
        "approval_delegations": [
            of("approval_delegations", id=id, from_user=name, to_user=to, created_by=name, reason=TWIN)
            for id, (name, to) in zip(ids, pairwise(PEOPLE), strict=False)
        ],
        "approval_turns": [of("approval_turns", role=role, last_at=NEVER) for role in ROLES],
        "http_replies": [
            of("http_replies", actor_id=name, key=key, body=TWIN, expires_at=NEVER)
            for name in ("ann", "alice", "adam", "olga", "robot")
            for key in KEYS
        ],
        "jobs": [
            of(
                "jobs",
                id=id,
                kind=("task", "effect", "result")[n % 3],
                lane=TASK_TYPES[n % len(TASK_TYPES)],
                run_at=NEVER,
            )
            for n, id in enumerate(ids)
        ],
        "job_attempts": [
            of("job_attempts", job_id=id, kind=("task", "effect", "result")[n % 3], **failed)
            for n, id in enumerate(ids)
        ],
        "task_submissions": [
            of(
                "task_submissions",
                id=id,
                type=TASK_TYPES[n % len(TASK_TYPES)],
                input=text,
                instance_id=id,
                step_id=id,
                awaited=True,
            )
            for n, id in enumerate(ids)
        ],
        "workflow_start_keys": [
            of("workflow_start_keys", key=key, instance_id=ids[0], request_hash=canonical_hash(TWIN))
            for key in KEYS
        ],
        "task_throttles": [
            of("task_throttles", id=id, rate_key=key, rate_max=1, rate_period=timedelta(hours=1))
            for id, key in zip(ids, KEYS, strict=False)
        ],
        "rate_starts": [
            of("rate_starts", key=key, task_id=ids[0], expires_at=datetime(2199, 1, 1, tzinfo=UTC))
            for key in KEYS
        ],
        "task_waiters": [of("task_waiters", task_id=id) for id in ids],
        "task_progress": [of("task_progress", task_id=id) for id in ids],
        "task_log_lines": [of("task_log_lines", task_id=id) for id in ids],
        "task_keys": [
            of(
                "task_keys",
                type=type,
                key=key,
                task_id=ids[0],
                input_hash=bytes.fromhex(canonical_hash(TWIN)),
            )
            for type in TASK_TYPES
            for key in KEYS
        ],
    }


def _rows_of_entities() -> Mapping[str, list[Row]]:
    """What belongs to the twin's entities, besides what their door writes: other values than they have."""
    ids, of_all = _ids(), {"org_id": TWIN, "entity_type": "invoice", "field": "number"}
    values = ("1", "2", "7", "2026-17")
    return {
        "unique_values": [
            {**of_all, "value_hash": sha256(value.encode()).digest(), "entity_id": id}
            for value, id in zip(values, ids, strict=False)
        ],
        "indexed_values": [
            row("indexed_values", org_id=TWIN, value=value, entity_id=id, created_at=START)
            for id in ids
            for value in values
        ],
    }
