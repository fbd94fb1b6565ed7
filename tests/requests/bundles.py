"""Cargo and bundles, good and bad: what Python and the database must say the same of."""

from typing import Any

ID = "0f0e0d0c-0b0a-4908-8706-050403020100"

CARGO = (
    f"version://assent/{ID}",
    f"document://assent/{ID}",
    f"entity://assent/{ID}",
    f"screening://assent/{ID}",
    "external://vault/7",
    "external://vault.eu-1/a/b?c=1#d",
    f"external://{'s' * 63}/{'~' * 255}",
)
BAD_CARGO = (
    "",
    "passport.pdf",
    "version://",
    f"version://{ID}",
    f"version://elsewhere/{ID}",
    "version://assent/7",
    f"version://assent/{ID.upper()}",
    f"version://assent/{ID.replace('-', '')}",
    f"version://assent/{{{ID}}}",
    f"version://assent/{ID}\n",
    f" version://assent/{ID}",
    f"Version://assent/{ID}",
    f"file://assent/{ID}",
    "external://vault/",
    "external:///7",
    "external://vault",
    "external://Vault/7",
    "external://vault/a b",
    "external://vault/é",
    f"external://{'s' * 64}/7",
    f"external://vault/{'~' * 256}",
)


def item(number: object = 1, **rest: Any) -> dict[str, Any]:
    return {"cargo": f"external://vault/{number}", **rest}


BUNDLES: tuple[dict[str, Any], ...] = (
    {"key": "k", "items": [item()]},
    {"key": "k" * 200, "items": [item(n) for n in range(500)]},
    {"key": "k", "items": [item(kind="passport", status="completed", error=None)]},
    {"key": "k", "items": [item(1), item(2, status="failed", error="e" * 2000)]},
    {"key": "k", "items": [{"status": "failed"}, {"status": "expired", "kind": "k" * 200}]},
    {"key": "k", "items": [], "status": "failed", "error": "nobody is there"},
    {"key": "k", "items": [], "status": "expired"},
    {"key": "k", "items": [item(1), item(1)]},
)
BAD_BUNDLES: tuple[dict[str, Any], ...] = (
    {"key": "", "items": [item()]},
    {"key": "k" * 201, "items": [item()]},
    {"key": None, "items": [item()]},
    {"key": "k", "items": []},
    {"key": "k", "items": item()},
    {"key": "k", "items": None},
    {"key": "k", "items": [item(n) for n in range(501)]},
    {"key": "k", "items": ["external://vault/7"]},
    {"key": "k", "items": [{"kind": "passport"}]},
    {"key": "k", "items": [item(size=7)]},
    {"key": "k", "items": [item(kind=7)]},
    {"key": "k", "items": [item(kind="")]},
    {"key": "k", "items": [item(kind="k" * 201)]},
    {"key": "k", "items": [item(status="done")]},
    {"key": "k", "items": [item(status=None)]},
    {"key": "k", "items": [item(status="failed", error="e" * 2001)]},
    {"key": "k", "items": [item(), {"cargo": "passport.pdf"}]},
    {"key": "k", "items": [item()], "status": "partial"},
    {"key": "k", "items": [item()], "status": None},
    {"key": "k", "items": [item()], "error": "e" * 2001},
)
