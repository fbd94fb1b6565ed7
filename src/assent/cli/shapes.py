"""Instances and requests as JSON for programs, under the names that the HTTP door gives them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from assent.store.rows import Row

if TYPE_CHECKING:
    from assent.model.approval import ApprovalRequest
    from assent.model.mutation import Entity
    from assent.people.inbox import InboxItem
    from assent.runtime.readers import WaitingPlace
    from assent.runtime.views import InstanceView, Waiting


SUMMARY: Final = (
    *("id", "workflow_id", "status", "version", "subject_id", "partition_id", "entity_type", "entity_id"),
    *(
        "entity_version",
        "current_nodes",
        "incident",
        "started_at",
        "updated_at",
        "completed_at",
        "expires_at",
    ),
)
_OF_REQUEST: Final = (
    *("id", "instance_id", "node_id", "status", "reason", "mode", "title", "figure", "requested_by"),
    *("created_at", "due_at", "decided_at", "applied_at", "claimed_by"),
    *("entity_type", "entity_id", "entity_version"),
)
_OF_SEAT: Final = ("id", "user_id", "group", "via", "status", "note")


def summary_json(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in SUMMARY}


def instance_json(view: "InstanceView") -> dict[str, Any]:
    """An instance after a command."""
    return {
        "id": view.id,
        "workflow_id": view.workflow_id,
        "status": view.status,
        "version": view.version,
        "entity_id": view.entity_id,
        "entity_version": view.entity_version,
        "context": dict(view.context),
        "steps": [waiting_json(waiting) for waiting in view.waiting],
        "incident": view.incident,
        "expires_at": view.expires_at,
    }


def waiting_json(waiting: "Waiting") -> dict[str, Any]:
    return {
        "name": waiting.name,
        "node_id": waiting.node_id,
        "kind": waiting.kind,
        "step_id": waiting.step_id,
        "request_id": waiting.request_id,
        "asked": list(waiting.asked),
        "since": waiting.since,
        "due_at": waiting.due_at,
    }


def place_json(place: "WaitingPlace") -> dict[str, Any]:
    """A step that waits, with what the reader could do about it."""
    more = {"label": place.label, "events": list(place.events), "form": dict(place.form)}
    return waiting_json(place.waiting) | more


def step_json(row: Row, name: str | None) -> dict[str, Any]:
    """Something that happened."""
    output = row["output_json"] or {}
    decisions = output.get("decisions") or [{}]
    return {
        "id": row["id"],
        "at": row["created_at"],
        "step": name or row["node_id"],
        "node_id": row["node_id"],
        "kind": row["node_type"],
        "status": row["status"],
        "outcome": output.get("outcome"),
        "actor": row["actor_user_id"],
        "on_behalf_of": output.get("on_behalf_of"),
        "finished_by": output.get("by") or decisions[-1].get("by"),
        "finished_at": row["completed_at"],
        "reason": output.get("reason") or None,
        "error": row["error"],
    }


def request_json(request: "ApprovalRequest") -> dict[str, Any]:
    return {name: getattr(request, name) for name in _OF_REQUEST} | {
        "groups": [group.to_json() for group in request.groups],
        "seats": [{name: getattr(seat, name) for name in _OF_SEAT} for seat in request.seats],
        "decisions": [asdict(decision) for decision in request.decisions],
    }


def entity_json(entity: "Entity") -> dict[str, Any]:
    return {
        "id": entity.id,
        "type": entity.type,
        "state": entity.state,
        "version": entity.version,
        "edit_window": entity.edit_window.value,
        "data": dict(entity.data),
        "updated_at": entity.updated_at,
    }


def inbox_item_json(item: "InboxItem") -> dict[str, Any]:
    return asdict(item) | {"age": int(item.age.total_seconds())}
