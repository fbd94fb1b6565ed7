"""A valid row of every table, as plain columns: the ground on which tests break one thing at a time."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from secrets import token_hex
from typing import Any, Final
from uuid import UUID

from assent.model.ids import new_id
from tests.postgres import START

Row = dict[str, Any]

_numbers = count(1)


def _id() -> UUID:
    """An id that is made as the application makes its own: the twin org has it too."""
    return new_id(START)


def _word(stem: str) -> str:
    return f"{stem}-{next(_numbers)}"


_BLANKS: Final[Mapping[str, Callable[[], Row]]] = {
    "orgs": lambda: {"name": "Acme"},
    "members": lambda: {"user_id": _word("user"), "name": "Ann"},
    "role_capabilities": lambda: {"role": _word("role"), "capability": "invoice:create"},
    "api_keys": lambda: {
        "id": _id(),
        "user_id": _word("user"),
        "name": "laptop",
        "prefix": "ak",
        "key_hash": token_hex(32),
    },
    "sessions": lambda: {
        "id": _id(),
        "user_id": _word("user"),
        "token_hash": token_hex(32),
        "expires_at": START + timedelta(hours=1),
        "ends_at": START + timedelta(hours=12),
    },
    "saved_filters": lambda: {
        "id": _id(),
        "filter_of": "invoice",
        "owner_id": "ann",
        "name": _word("filter"),
        "filter": {},
        "saved_by": "ann",
        "updated_at": START,
    },
    "indexed_values": lambda: {
        "entity_type": "invoice",
        "field": "number",
        "value": "a",
        "created_at": START,
        "entity_id": _id(),
    },
    "workflow_definitions": lambda: {
        "id": _id(),
        "definition_kind": "flow",
        "key": _word("flow"),
        "name": "Order approval",
        "source_json": {"start": "review"},
        "compiled_json": {"nodes": []},
        "compiled_hash": token_hex(32),
        "compiler_version": "1",
    },
    "workflow_instances": lambda: {
        "id": _id(),
        "definition_id": _id(),
        "definition_version": 1,
        "definition_hash": token_hex(32),
        "workflow_id": "orders.approval",
        "subject_id": "ann",
    },
    "workflow_step_executions": lambda: {
        "id": _id(),
        "instance_id": _id(),
        "node_id": "review",
        "node_type": "approval",
        "token_id": "t1",
        "entity_version": 0,
        "idempotency_key": token_hex(32),
    },
    "workflow_step_receipts": lambda: {
        "instance_id": _id(),
        "idempotency_key": token_hex(32),
        "step_id": _id(),
    },
    "workflow_events_outbox": lambda: {
        "id": _id(),
        "instance_id": _id(),
        "event_type": "advance",
        "event_idempotency_key": token_hex(32),
    },
    "workflow_kept_events": lambda: {
        "id": _id(),
        "event_key": "paid:7",
        "payload": {},
        "created_at": START,
    },
    "jobs": lambda: {"id": _id(), "kind": "task", "lane": "report.build", "attempts_max": 8},
    "effects": lambda: {
        "id": _id(),
        "instance_id": _id(),
        "step_id": _id(),
        "step_created_at": START,
        "type": "email",
        "key": token_hex(32),
        "attempts_max": 8,
    },
    "effect_secrets": lambda: {"id": _id(), "secret": f"whsec_{token_hex(32)}"},
    "mail_templates": lambda: {"kind": "asked", "language": "en", "subject": "{what}", "updated_by": "ann"},
    "member_preferences": lambda: {
        "user_id": _word("user"),
        "time_zone": "UTC",
        "digested_on": START.date(),
    },
    "alerted_incidents": lambda: {"kind": "effect", "incident_id": _id()},
    "alert_times": lambda: {},
    "decision_link_uses": lambda: {"request_id": _id(), "user_id": _word("user")},
    "named_secrets": lambda: {
        "name": _word("secret").replace("-", "_"),
        "value": f"token-{token_hex(32)}",
        "hosts": ["erp.example"],
        "created_by": "ann",
    },
    "schedules": lambda: {
        "name": _word("schedule"),
        "task_type": "report.build",
        "cron": "0 9 * * *",
        "next_at": START,
        "created_by": "ann",
    },
    "task_joins": lambda: {
        "name": _word("join"),
        "key": "a",
        "types": ["report.build"],
        "completed": {},
        "task_id": _id(),
        "started": False,
    },
    "event_sources": lambda: {
        "name": _word("source"),
        "key_prefix": _word("payment:"),
        "secret": f"whsec_{token_hex(32)}",
        "created_by": "ann",
    },
    "workflow_outbox_receipts": lambda: {
        "instance_id": _id(),
        "source_table": "events",
        "event_idempotency_key": token_hex(32),
    },
    "approval_chains": lambda: {"id": _id(), "name": _word("chain")},
    "approval_chain_steps": lambda: {
        "chain_id": _id(),
        "position": 1,
        "name": "finance",
        "approvers": {"role": "finance_manager"},
    },
    "approval_requests": lambda: {
        "id": _id(),
        "instance_id": _id(),
        "step_id": _id(),
        "node_id": "review",
        "entity_version": 0,
        # Nobody is asked and its time is over, so that a test may say that it is approved.
        "approvers": {
            "enough": "anybody",
            "default": {"status": "approved", "at": (START - timedelta(days=30)).isoformat()},
        },
        "requested_by": "ann",
    },
    "comments": lambda: {
        "id": _id(),
        "kind": "comment",
        "author_id": "ann",
        "text": "Is it right?",
        "entity_type": "invoice",
        "entity_id": _id(),
    },
    "approval_decisions": lambda: {
        "id": _id(),
        "request_id": _id(),
        "approver_id": "bea",
        "decision": "approved",
        "entity_version": 0,
    },
    "workflow_seats": lambda: {
        "id": _id(),
        "request_id": _id(),
        "instance_id": _id(),
        "user_id": _word("user"),
        "group_name": "finance",
        "position": 1,
        "via": "user",
    },
    "workflow_forms": lambda: {
        "id": _id(),
        "instance_id": _id(),
        "node_id": "intake",
        "node_name": "intake",
        "schema_json": {"type": "object"},
        "answers": ["submitted"],
        "assignee": {},
        "requested_by": "ann",
    },
    "outside_requests": lambda: {
        "id": _id(),
        "instance_id": _id(),
        "step_id": _id(),
        "node_id": "vendor",
        "token_id": "0",
        "name": "kyc.vendor",
        "expected": 2,
    },
    "outside_request_deliveries": lambda: {
        "id": _id(),
        "request_id": _id(),
        "key": _word("bundle"),
        "source": "http",
    },
    "dead_messages": lambda: {
        "id": _id(),
        "transport": "kafka",
        "stream": "results",
        "position": f"0/{token_hex(4)}",
        "body": b"{",
        "size": 1,
        "hash": b"0",
    },
    "outside_request_items": lambda: {
        "id": _id(),
        "request_id": _id(),
        "delivery_id": _id(),
        "cargo": f"external://vault/{token_hex(8)}",
        "kind": "passport",
        "status": "completed",
    },
    "outside_request_history": lambda: {
        "id": _id(),
        "request_id": _id(),
        "what": "asked",
        "source": "workflow",
    },
    "document_requirements": lambda: {"id": _id(), "subject": _word("client"), "doc_type": "passport"},
    "documents": lambda: {
        "id": _id(),
        "document_type": "passport",
        "subject": _word("client"),
        "source": "upload",
        "created_by": "ann",
    },
    "blobs": lambda: {
        "id": _id(),
        "status": "kept",
        "found_type": "application/pdf",
        "size_bytes": 1,
        "sha256": "0" * 64,
        "link_key": "k" * 64,
        "created_by": "ann",
    },
    "upload_links": lambda: {"id": _id(), "request_id": _id()},
    "document_versions": lambda: {
        "id": _id(),
        "document_id": _id(),
        "version_no": 1,
        "content_type": "application/json",
        "structured_data": {"number": "C01X00T47"},
        "created_by": "ann",
    },
    "document_events": lambda: {
        "id": _id(),
        "requirement_id": _id(),
        "type": "required",
        "actor_id": "ann",
    },
    "rejection_codes": lambda: {
        "code": f"CODE_{next(_numbers)}",
        "category": "quality",
        "client_message": "It is folded.",
        "ops_message": "Folded.",
        "next_action": "Please unfold it.",
    },
    "approval_delegations": lambda: {
        "id": _id(),
        "from_user": "bea",
        "to_user": "bob",
        "starts_at": START,
        "created_by": "bea",
    },
    "approval_turns": lambda: {"role": _word("role"), "user_id": "bea", "last_at": START},
    "http_replies": lambda: {
        "actor_id": "ann",
        "key": _word("key"),
        "request_hash": token_hex(32),
        "status": 201,
        "body": "{}",
        "expires_at": START + timedelta(days=1),
    },
    "task_submissions": lambda: {
        "id": _id(),
        "type": "report.build",
        "input": {},
        "attempts_max": 8,
        "submitted_by": "ann",
    },
    "job_attempts": lambda: {
        "job_id": _id(),
        "attempt": 1,
        "kind": "task",
        "outcome": "done",
        "worker_id": _id(),
        "started_at": START,
        "ended_at": START,
    },
    "step_evidence": lambda: {
        "step_created_at": START,
        "step_id": _id(),
        "instance_id": _id(),
        "evidence": {},
    },
    "workflow_start_keys": lambda: {
        "key": _word("key"),
        "instance_id": _id(),
        "request_hash": token_hex(32),
    },
    "task_throttles": lambda: {"id": _id(), "resources": ["ollama"]},
    "rate_starts": lambda: {"key": "crm", "at": START, "task_id": _id(), "expires_at": START},
    "task_waiters": lambda: {"task_id": _id()},
    "task_progress": lambda: {
        "task_id": _id(),
        "attempt": 1,
        "fraction": 0.5,
        "message": "",
        "at": START,
    },
    "task_log_lines": lambda: {
        "task_id": _id(),
        "attempt": 1,
        "position": 1,
        "level": "info",
        "message": "read a page",
        "at": START,
    },
    "task_keys": lambda: {
        "type": "report.build",
        "key": _word("key"),
        "task_id": _id(),
        "input_hash": b"\0" * 32,
    },
    "workflow_rules": lambda: {
        "id": _id(),
        "name": _word("rule"),
        "entity_type": "invoice",
        "action": "*",
        "timing": "before",
        "condition": "entity.grand_total > 0",
        "outcome": "deny",
        "outcome_json": {"message": "no"},
    },
    "workflow_rule_evaluations": lambda: {
        "id": _id(),
        "rule_id": _id(),
        "rule_name": "limit",
        "timing": "before",
        "action": "update",
        "entity_type": "invoice",
        "entity_id": _id(),
        "entity_version": 1,
        "expression": "entity.grand_total > 0",
        "variables": {},
        "result": False,
        "actor_id": "ann",
        "at": START,
    },
}


TABLES: Final = frozenset(_BLANKS)


def row(table: str, **given: Any) -> Row:
    """A valid row of org acme, but for what is given; what it refers to is not there yet."""
    return {"org_id": "acme"} | _BLANKS[table]() | given


def definition_of_kind(kind: str) -> Row:
    """The columns that a definition of this kind must have, and none that it must not."""
    columns: dict[str, Row] = {
        "envelope": {
            "org_id": "*",
            "status": "published",
            "is_default": True,
            "entity_type": "invoice",
            "nodes_json": [],
            "edges_json": [],
            "slots_json": [],
        },
        "org_patch": {
            "entity_type": "invoice",
            "body_patches_json": {},
            "base_ref": {"entity_type": "invoice", "envelope_version": 1},
        },
        "effective": {"entity_type": "invoice", "nodes_json": [], "edges_json": []},
        "flow": {},
    }
    blank = row("workflow_definitions", definition_kind=kind)
    unused = {} if kind in ("effective", "flow") else dict.fromkeys(_COMPILED)
    unused |= {} if kind == "flow" else {"source_json": None}
    return blank | unused | columns[kind]


_COMPILED: Final = ("compiled_json", "compiled_hash", "compiler_version")
