"""A contract with a field of every type, for expressions to be checked against."""

from assent.language import Scope, scope_of
from assent.model.contract import FieldSpec, FieldType, contract_from

INVOICE = contract_from(
    {
        "contract": "invoice",
        "version": 1,
        "fields": {
            "number": {"type": "text"},
            "vendor_id": {"type": "text"},
            "grand_total": {"type": "money"},
            "copies": {"type": "integer"},
            "rate": {"type": "decimal"},
            "minimum_rate": {"type": "decimal"},
            "currency": {"type": "enum", "values": ["EUR", "USD"]},
            "paid": {"type": "boolean"},
            "due": {"type": "date"},
            "posted_at": {"type": "datetime"},
            "sent_at": {"type": "datetime"},
            "cost_center": {"type": "text"},
            "client": {"type": "reference", "to": "client"},
            "tags": {"type": "list", "of": {"type": "text"}},
            "rates": {"type": "list", "of": {"type": "decimal"}},
            "lines": {
                "type": "list",
                "of": {"type": "object", "fields": {"sku": {"type": "text"}, "amount": {"type": "money"}}},
            },
            "address": {
                "type": "object",
                "fields": {"city": {"type": "text"}, "geo": {"type": "object"}},
            },
        },
        "lifecycle": {
            "initial": "draft",
            "states": {"draft": {"edit": "editable"}, "submitted": {"edit": "amend_only"}},
            "transitions": {"submit": {"from": "draft", "to": "submitted"}},
        },
    }
)

SCOPE: Scope = scope_of(
    INVOICE,
    org={"limit": FieldSpec(type=FieldType.MONEY)},
    workflow={"score": FieldSpec(type=FieldType.INTEGER)},
)
